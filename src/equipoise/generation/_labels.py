"""Labels of pictures as a CSV file: image, annotator, answer, at.

People's come from ``equipoise annotate``, models' are written here.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from equipoise import _clock as clock
from equipoise._annotate.labels import Label
from equipoise._annotate.question import UNSURE
from equipoise._paths import add_to
from equipoise.errors import ArtefactError, InputError

COLUMNS = Label._fields


class Verdict(NamedTuple):
    """What annotators make of a picture together.

    group: the one that all named, or ""; settled: none was unsure or disagreed.
    """

    group: str
    settled: bool


def read_labels(path: Path, groups: Sequence[str]) -> list[Label]:
    """Return the labels of a file, checked.

    Where an annotator answered twice, the later answer counts.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(
            f"{path} cannot be read ({error.strerror}); pass the CSV file that equipoise annotate"
            " exports"
        ) from None
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path} is not UTF-8 text ({error}); pass the CSV file that equipoise annotate exports"
        ) from None
    rows = csv.DictReader(io.StringIO(text, newline=""))
    try:
        return _latest(path, rows, groups)
    except csv.Error as error:
        raise InputError(
            f"{path} cannot be read as CSV ({error}); pass the file that equipoise annotate exports"
        ) from None


def _latest(path: Path, rows: csv.DictReader, groups: Sequence[str]) -> list[Label]:
    if missing := [name for name in COLUMNS[:3] if name not in (rows.fieldnames or ())]:
        raise InputError(f"{path} has no column {missing[0]}; it needs {', '.join(COLUMNS)}")
    latest: dict[tuple[str, str], Label] = {}
    for row in rows:
        label = Label(*(row.get(name) or "" for name in COLUMNS))
        if label.answer not in (*groups, UNSURE):
            raise InputError(
                f"line {rows.line_num} of {path} answers {label.answer!r}; answers are"
                f" {', '.join(groups)} or {UNSURE}"
            )
        key = label.image, label.annotator
        if key not in latest or latest[key].at <= label.at:
            latest[key] = label
    return list(latest.values())


def unanimous(labels: Iterable[Label], least: int = 1) -> dict[str, Verdict]:
    """Return image -> verdict, as in appendix D.

    A picture counts where all annotators named the same group, and at least ``least`` of them did.
    A picture that too few have seen, and all agree on, has no verdict yet.
    """
    answers: dict[str, list[str]] = {}
    for label in labels:
        answers.setdefault(label.image, []).append(label.answer)
    found = {}
    for image, given in answers.items():
        if UNSURE in given or len(set(given)) > 1:
            found[image] = Verdict("", False)
        elif len(given) >= least:
            found[image] = Verdict(given[0], True)
    return found


class LabelFile:
    """A model's labels, added to as they come; a line torn by a kill is cut off."""

    def __init__(self, path: Path, annotator: str, groups: Sequence[str]):
        self.path, self.annotator = path, annotator
        if path.is_file() and not (data := path.read_bytes()).endswith(b"\n"):
            os.truncate(path, data.rfind(b"\n") + 1)
        self.answers: dict[str, str] = {}
        if not path.is_file() or not path.stat().st_size:
            self._write([COLUMNS])
            return
        for label in read_labels(path, groups):
            self.answers[label.image] = label.answer

    def add(self, answers: Mapping[str, str]) -> None:
        """Add labels; they are on the disk when this returns."""
        at = clock.now().isoformat(timespec="seconds")
        self._write([(image, self.annotator, answer, at) for image, answer in answers.items()])
        self.answers |= answers

    def _write(self, rows: Iterable[Sequence[str]]) -> None:
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerows(rows)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            add_to(self.path, out.getvalue().encode())
        except OSError as error:
            raise ArtefactError(
                f"{self.path} cannot be written ({error.strerror}); free some space, or pass"
                " another folder"
            ) from None
