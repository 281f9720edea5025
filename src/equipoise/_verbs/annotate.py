"""``equipoise annotate``: open a project, invite people, export and import labels."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from equipoise._annotate import catalogue, exchange, labels, people
from equipoise._annotate.documents import Agreement, ImageToMakeAgain
from equipoise._annotate.project import Project, read_gold
from equipoise._annotate.question import UNSURE, Question
from equipoise._artefact import write_atomically
from equipoise._verbs.destinations import require_free_file
from equipoise.errors import InputError
from equipoise.prompts._attribute import Attribute

FORMATS = ("csv", "label-studio")


def question_of(attribute: str | None, text: str | None, answers: Sequence[str]) -> Question | None:
    """Return the question that was typed; None where nothing was."""
    if not (attribute or text or answers):
        return None
    if answers and not (attribute or text):
        raise InputError("answers were given without a question; pass `question` too")
    usual = Question.about(Attribute.load(attribute or "gender"))
    return Question(text or usual.text, tuple(answers) or usual.answers)


def opened(folder: Path, database: Path | None, gold: Path | None, **options: Any) -> Project:
    """Open a project with what was typed."""
    answers = None if gold is None else read_gold(gold)
    return Project.open(folder, database=database, gold=answers, **options)


def invitations(
    project: Project, names: Sequence[str], renew: Sequence[str]
) -> dict[str, str | None]:
    """Return a token per annotator, or None where the old one still opens the page."""
    wanted = [name.strip() for name in ",".join(names).split(",") if name.strip()]
    everyone = list(dict.fromkeys([*people.names(project.database, invited=True), *wanted]))
    if unknown := [name for name in renew if name not in everyone]:
        raise InputError(
            f"{unknown[0]!r} is no annotator of this project; there are"
            f" {', '.join(everyone) or 'none'}"
        )
    if not everyone:
        raise InputError(
            "nobody is named who may answer; pass `annotators`, for example anna,ben,chris"
        )
    for name in wanted:
        people.require_name(name)
    return {name: people.invite(project.database, name, renew=name in renew) for name in everyone}


def export(
    project: Project,
    out: Path,
    form: str | None = None,
    gold: bool = False,
    configuration: Path | None = None,
    force: bool = False,
) -> int:
    """Write all labels, and return how many they are.

    gold: those of gold questions instead. configuration: where Label Studio's goes. force: replace
    files that exist already.
    """
    for path in (out, configuration):
        if path is not None:
            require_free_file(path, force)
    if not form:
        form = "label-studio" if out.suffix == ".json" else "csv"
    if form not in FORMATS:
        raise InputError(f"{form!r} is no format; pass {' or '.join(FORMATS)}")
    said = labels.said(project.database, gold=gold)
    if form == "csv":
        text = exchange.to_csv(said)
    else:
        text = exchange.to_label_studio(said, _shown(project, gold))
    write_atomically(out, text.encode())
    if configuration is not None:
        write_atomically(configuration, exchange.configuration(project.question).encode())
    return len(said)


def _shown(project: Project, gold: bool) -> list[catalogue.Picture]:
    """Return the pictures of the study, or those with a known answer."""
    pictures = catalogue.pictures(project.database)
    if gold:
        return [picture for picture in pictures if picture.gold is not None]
    return [picture for picture in pictures if picture.asked]


def export_consensus(
    project: Project, out: Path, rule: str, force: bool = False
) -> tuple[int, int]:
    """Write one answer per image; return how many have one, and how many have none."""
    require_free_file(out, force)
    if out.suffix != ".csv":
        raise InputError(
            f"one answer per image goes into a .csv file, and `out` is {out}; name a .csv"
        )
    said = labels.said(project.database, gold=False)
    agreed, split = exchange.consensus(said, rule, UNSURE)
    write_atomically(out, exchange.consensus_csv(agreed).encode())
    return len(agreed), split


def import_labels(project: Project, path: Path, replace: bool) -> tuple[int, int]:
    """Add the labels of a file; return how many it holds, and how many of them were new."""
    found = exchange.read(path, project.question, catalogue.pictures(project.database))
    return len(found), labels.add(project.database, found, replace)


def regenerate_csv(found: Agreement) -> bytes:
    """Return the images to make again, one per line."""
    file = io.StringIO()
    writer = csv.DictWriter(file, list(ImageToMakeAgain.model_fields), lineterminator="\n")
    writer.writeheader()
    writer.writerows(image.to_plain() for image in found.regenerate)
    return file.getvalue().encode()
