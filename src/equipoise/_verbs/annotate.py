"""``equipoise annotate``: open a project, invite people, export and import labels."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from equipoise._annotate import catalogue, exchange, labels, people
from equipoise._annotate.project import Project, read_gold
from equipoise._annotate.question import Question
from equipoise._artefact import write_atomically
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
        raise InputError("nobody is named who may answer; pass `annotators` anna,ben,chris")
    for name in wanted:
        people.require_name(name)
    return {name: people.invite(project.database, name, renew=name in renew) for name in everyone}


def export(
    project: Project,
    out: Path,
    form: str | None = None,
    gold: bool = False,
    configuration: Path | None = None,
) -> int:
    """Write all labels, and return how many they are.

    gold: those of gold questions instead. configuration: where Label Studio's goes.
    """
    if not form:
        form = "label-studio" if out.suffix == ".json" else "csv"
    if form not in FORMATS:
        raise InputError(f"{form!r} is no format; pass {' or '.join(FORMATS)}")
    said = labels.said(project.database, gold=gold)
    if form == "csv":
        text = exchange.to_csv(said)
    else:
        about = catalogue.pictures(project.database)
        if gold:
            about = [picture for picture in about if picture.gold is not None]
        else:
            about = [picture for picture in about if picture.asked]
        text = exchange.to_label_studio(said, about)
    write_atomically(out, text.encode())
    if configuration is not None:
        write_atomically(configuration, exchange.configuration(project.question).encode())
    return len(said)


def import_labels(project: Project, path: Path, replace: bool) -> tuple[int, int]:
    """Add the labels of a file; return how many it holds, and how many of them were new."""
    found = exchange.read(path, project.question, catalogue.pictures(project.database))
    return len(found), labels.add(project.database, found, replace)


def regenerate_csv(document: dict[str, Any]) -> bytes:
    """Return the images to make again, one per line."""
    file = io.StringIO()
    writer = csv.DictWriter(file, ("image", "why", "prompt", "method"), lineterminator="\n")
    writer.writeheader()
    writer.writerows(document["regenerate"])
    return file.getvalue().encode()
