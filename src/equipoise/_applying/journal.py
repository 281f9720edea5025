"""The journal of a run: what the run is, then one line per finished piece.

A run that was killed at any moment goes on where it was. When all is done, the journal becomes the
manifest. On this machine it is one file that lines are added to; elsewhere, where files cannot be
added to, each line is a small file.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import suppress

from pydantic import BaseModel

from equipoise._applying.documents import FORMAT, ApplyManifest, Run
from equipoise._documents import Model, read_document
from equipoise._engines.shard import Done
from equipoise._stores.locations import LocalPlace, Place, unwritable
from equipoise.errors import InputError

MANIFEST = "equipoise-apply.json"


class Journal(ABC):
    """Where a run stands.

    ``prefix`` tells the journals of one folder apart, where the destination is a single file.
    """

    def __init__(self, where: Place, prefix: str = ""):
        self.where = where
        self.manifest_name = f"{prefix}.{MANIFEST}" if prefix else MANIFEST
        self.name = self.manifest_name.replace(".json", ".journal")

    def manifest(self) -> ApplyManifest | None:
        """Return the manifest of a finished run; None where there is none."""
        if not self.where.is_file(self.manifest_name):
            return None
        data = self.where.read(self.manifest_name)
        return self._document(ApplyManifest, data, self.manifest_name, "the manifest of a run")

    def unfinished(self) -> bool:
        """Return whether a run was begun here that has not come to its end."""
        return not self.where.is_file(self.manifest_name) and self.read() is not None

    def finish(self, manifest: ApplyManifest) -> None:
        with (
            unwritable(f"{self.where}/{self.manifest_name}"),
            self.where.writing(self.manifest_name) as file,
        ):
            file.write(manifest.model_dump_json().encode())
        self._forget()

    def resume(self, run: Run, done: list[Done]) -> None:
        """Go on from the pieces that are still on the disk, and from nothing else.

        A piece that is gone is not done, and neither is a run that lacks one.
        """
        self.begin(run, done)
        self.where.remove(self.manifest_name)

    @abstractmethod
    def begin(self, run: Run, done: Sequence[Done] = ()) -> None:
        """Note which run the place belongs to, before anything is written, and what is done."""

    @abstractmethod
    def read(self) -> tuple[Run, list[Done]] | None:
        """Return the run that was begun and its finished pieces; None where nothing was begun."""

    @abstractmethod
    def add(self, done: Done) -> None:
        """Note a piece that is on the disk."""

    @abstractmethod
    def _forget(self) -> None:
        """Remove the journal: the manifest holds all of it."""

    def _run(self, data: bytes) -> Run:
        return self._document(Run, data, self.name, "the journal of a run")

    def _document(self, model: type[Model], data: bytes, name: str, what: str) -> Model:
        where = f"{self.where}/{name}"
        return read_document(
            model, data, where, what, "pass another folder", newest=FORMAT, infinite=True
        )


class LocalJournal(Journal):
    """A journal in one file; a kill can leave its last line torn, which is then skipped."""

    where: LocalPlace

    def begin(self, run: Run, done: Sequence[Done] = ()) -> None:
        with unwritable(f"{self.where}/{self.name}"), self.where.writing(self.name) as file:
            for document in (run, *done):
                file.write(document.model_dump_json().encode() + b"\n")

    def read(self) -> tuple[Run, list[Done]] | None:
        if not self.where.is_file(self.name):
            return None
        head, *lines = self.where.read(self.name).split(b"\n")
        return self._run(head), _readable(lines)

    def add(self, done: Done) -> None:
        with unwritable(f"{self.where}/{self.name}"), self.where.path(self.name).open("ab") as file:
            file.write(done.model_dump_json().encode() + b"\n")

    def _forget(self) -> None:
        self.where.remove(self.name)


class RemoteJournal(Journal):
    """A journal in one file for the run and one for each line."""

    def begin(self, run: Run, done: Sequence[Done] = ()) -> None:
        for name in set(self._lines()) - {self._line(part) for part in done}:
            self.where.remove(name)
        self._put(f"{self.name}/run.json", run)
        for part in done:
            self.add(part)

    def read(self) -> tuple[Run, list[Done]] | None:
        if not self.where.is_file(f"{self.name}/run.json"):
            return None
        run = self._run(self.where.read(f"{self.name}/run.json"))
        return run, _readable(self.where.read(name) for name in self._lines())

    def add(self, done: Done) -> None:
        self._put(self._line(done), done)

    def _line(self, done: Done) -> str:
        return f"{self.name}/{done.file}-{done.start}.json"

    def _lines(self) -> list[str]:
        names = self.where.glob(f"{self.name}/*.json")
        return [name for name in names if not name.endswith("/run.json")]

    def _put(self, name: str, document: BaseModel) -> None:
        with unwritable(f"{self.where}/{name}"), self.where.writing(name) as file:
            file.write(document.model_dump_json().encode())

    def _forget(self) -> None:
        for name in self.where.glob(f"{self.name}/*.json"):
            self.where.remove(name)


def _readable(lines: Iterable[bytes]) -> list[Done]:
    """Return the pieces of lines, without lines that are torn, damaged or empty."""
    done = []
    for line in lines:
        with suppress(ValueError):  # pydantic's own derives from it
            done.append(Done.model_validate_json(line))
    return done


def journal_at(where: Place, prefix: str = "") -> Journal:
    """Return the journal of a destination."""
    if isinstance(where, LocalPlace):
        return LocalJournal(where, prefix)
    return RemoteJournal(where, prefix)


def require_same(found: Run, wanted: Run, where: str, finished: bool, resume: bool) -> None:
    """Raise unless a destination holds this very run, and it may go on."""
    different = found.differs_from(wanted)
    if different:
        raise InputError(
            f"{where} holds another run (what differs: {', '.join(different)}); pass another"
            " destination, or what that run was given"
        )
    if not resume and finished:
        raise InputError(
            f"{where} holds this run already, and it is finished; pass `verify` to check it, or"
            " pass another destination"
        )
    if not resume:
        raise InputError(
            f"{where} holds a part of this run; pass `resume`, or pass another destination"
        )
