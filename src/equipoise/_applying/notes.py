"""``Notes``: the journal of a run into a database, a file of lines beside it or on this machine.

The first line says which run it is. Each other line is a part that is written. After the run the
journal is kept under another name, so that ``resume`` can say that nothing is left.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import BaseModel

from equipoise._artefact import NOT_WHOLE, write_atomically
from equipoise._paths import add_to
from equipoise.errors import InputError

Head = TypeVar("Head", bound=BaseModel)
Part = TypeVar("Part", bound=BaseModel)


class Notes(Generic[Head, Part]):
    """The lines of one run.

    heads, parts: the models of the lines. what: what the run writes to, as errors call it. whole:
    says whether a run can go on after a part.
    """

    def __init__(
        self,
        path: Path,
        heads: type[Head],
        parts: type[Part],
        what: str,
        whole: Callable[[Part], bool] = lambda part: True,
    ):
        self.path, self.kept = path, path.with_suffix(".done")
        self.heads, self.parts = heads, parts
        self.what, self.whole = what, whole

    def begin(self, run: Head, resume: bool) -> list[Part]:
        """Return what is done of the run; forget an earlier one that came to its end."""
        head, parts = self.read(self.path)
        if self.path.is_file() and head != run:
            raise InputError(
                f"another run to this {self.what} was begun, or the table changed since; delete"
                f" {self.path}, or write to another {self.what}"
            )
        if self.path.is_file() and not resume:
            raise InputError(
                f"a part of this run is done; pass `resume` to go on, or delete {self.path}"
            )
        self._write(run, parts)
        self.kept.unlink(missing_ok=True)
        return parts

    def add(self, part: Part) -> None:
        """Note a part that is written."""
        add_to(self.path, _line(part))

    def finish(self) -> None:
        """Keep the lines under the name of a finished run."""
        self.path.replace(self.kept)

    def forget(self) -> None:
        """Remove what is known of a run whose output is gone."""
        self.path.unlink(missing_ok=True)
        self.kept.unlink(missing_ok=True)

    def read(self, path: Path) -> tuple[Head | None, list[Part]]:
        """Return the run, None where there is none, and its parts.

        Lines that a kill tore are left out.
        """
        if not path.is_file():
            return None, []
        head, *lines = path.read_text(errors="replace").split("\n")
        parts = [self._part(line) for line in lines]
        return _read(self.heads, head), [part for part in parts if part is not None]

    def _part(self, line: str) -> Part | None:
        part = _read(self.parts, line)
        return part if part is not None and self._is_whole(part) else None

    def _is_whole(self, part: Part) -> bool:
        try:
            return self.whole(part)
        except NOT_WHOLE:
            return False

    def _write(self, run: Head, parts: Sequence[Part]) -> None:
        write_atomically(self.path, b"".join(_line(document) for document in (run, *parts)))


Line = TypeVar("Line", bound=BaseModel)


def _read(model: type[Line], line: str) -> Line | None:
    try:
        return model.model_validate_json(line)
    except NOT_WHOLE:
        return None


def _line(document: BaseModel) -> bytes:
    return json.dumps(document.model_dump(mode="json")).encode() + b"\n"
