"""A project: a folder of pictures, a question about them, and the file of what people said."""

from __future__ import annotations

import csv
import os
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from equipoise._annotate import catalogue, labels, pictures
from equipoise._annotate.database import Database
from equipoise._annotate.documents import ProjectSettings
from equipoise._annotate.question import Question
from equipoise._artefact import sha256
from equipoise._documents import first_error
from equipoise._progress import progress
from equipoise.errors import ArtefactError, InputError
from equipoise.prompts._attribute import Attribute

DATABASE = "annotate.sqlite"


@dataclass
class Project:
    """Pictures, a question, and the labels.

    prompts: only pictures of these are asked about; all, where there are none. gold: known answers
    by path. show_prompt: annotators see the prompt.
    """

    folder: Path
    database: Database
    id: str
    question: Question
    prompts: tuple[str, ...] = ()
    gold: Mapping[str, str] = field(default_factory=dict)
    show_prompt: bool = False
    _scanned: tuple | None = field(default=None, init=False, repr=False)

    @classmethod
    def open(
        cls,
        folder: str | os.PathLike[str],
        *,
        database: str | os.PathLike[str] | None = None,
        question: Question | None = None,
        prompts: Iterable[str] | None = None,
        gold: Mapping[str, str] | None = None,
        show_prompt: bool | None = None,
        create: bool = True,
    ) -> Project:
        """Return a project as it was, with what is given now in place of what it had.

        Where there is none, ``create`` makes a new one.
        """
        folder = Path(folder)
        file = Path(database) if database else folder / DATABASE
        given = {
            "prompts": None if prompts is None else list(prompts),
            "gold": gold,
            "show_prompt": show_prompt,
        }
        if not file.is_file():
            # Nothing is written where there is nothing to ask about.
            pictures.find_some(folder, given["prompts"] or (), gold)
            if not create:
                raise InputError(
                    f"there are no labels at {file}; type: equipoise annotate {folder} --annotators"
                    " anna,ben,chris"
                )
        opened = Database(file)
        try:
            asked, settings = _settled(opened, question, given)
            project = cls(
                folder,
                opened,
                settings.id,
                asked,
                tuple(settings.prompts),
                settings.gold,
                settings.show_prompt,
            )
            project.scan(show=None)
            opened.set(settings.to_plain())
        except BaseException:
            opened.close()
            raise
        return project

    def __enter__(self) -> Project:
        return self

    def __exit__(self, *_: object) -> None:
        self.database.close()

    def size(self) -> int:
        """Return how many pictures can be shown."""
        return sum(picture.state == catalogue.HERE for picture in catalogue.pictures(self.database))

    def scan(self, show: bool | None = False) -> None:
        """Look through the folder again for pictures that are new, gone or changed."""
        known = catalogue.stamps(self.database)
        files, missing = [], []
        wanted = pictures.find(self.folder, self.prompts, self.gold)
        with progress("reading pictures", len(wanted), show) as advance:
            for found in wanted:
                try:
                    there = self.folder / found.path
                    stamp = pictures.stamp_of(there.stat())
                    had, digest = known.get(found.path, (None, ""))
                    files.append(
                        catalogue.File(found, stamp, digest if had == stamp else sha256(there))
                    )
                except OSError:
                    missing.append(found.path)
                advance(1)
        # Without a manifest nothing says that pictures were replaced, so labels of them stay.
        if not pictures.has_manifest(self.folder):
            missing += sorted(catalogue.answered(self.database) - {found.path for found in wanted})
        scanned = tuple(files), tuple(missing)
        if scanned != self._scanned:
            catalogue.put(self.database, files, missing)
            self._scanned = scanned

    def miss(self, picture: str, state: str) -> None:
        """Mark a picture that cannot be shown. The next look at the folder may find it again."""
        catalogue.mark(self.database, picture, state)
        self._scanned = None


def _settled(
    database: Database, question: Question | None, given: dict[str, Any]
) -> tuple[Question, ProjectSettings]:
    """Return the settings: those given now, else those stored, else the defaults."""
    had = _stored(database)
    before = Question(had.question, tuple(had.answers)) if had else None
    asked = question or before or Question.about(Attribute.load("gender"))
    if before and asked != before and labels.any_said(database):
        raise InputError(
            f"{database.path} holds labels for {before.text!r} with the answers"
            f" {', '.join(before.answers)}; pass another `database` for another question"
        )
    for answer in (given["gold"] or {}).values():
        asked.require_known(answer)
    usual = {"id": secrets.token_hex(4), "prompts": [], "gold": {}, "show_prompt": False}
    said = {name: value for name, value in given.items() if value is not None}
    kept = had.to_plain() if had else {}
    wording = {"question": asked.text, "answers": list(asked.answers)}
    return asked, ProjectSettings(**usual | kept | said | wording)


def _stored(database: Database) -> ProjectSettings | None:
    """Return the settings that a database keeps; None where it is new."""
    stored = database.settings()
    if not stored:
        return None
    try:
        return ProjectSettings.model_validate(stored)
    except ValidationError as error:
        raise ArtefactError(
            f"the settings in {database.path} are damaged ({first_error(error)}); pass another"
            " file as `database`"
        ) from None


def read_gold(path: Path) -> dict[str, str]:
    """Return the known answers of a csv file with the columns image and answer."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path} cannot be read as csv: {error}") from None
    if not rows or not {"image", "answer"} <= set(rows[0]):
        raise InputError(
            f"{path} must be a csv file with the columns image and answer, and at least one row"
        )
    gold: dict[str, str] = {}
    for row in rows:
        image, answer = row["image"] or "", row["answer"] or ""
        if gold.setdefault(image, answer) != answer:
            raise InputError(
                f"{path} holds two answers to {image!r}, {gold[image]!r} and {answer!r}; leave one"
                " of them"
            )
    return gold
