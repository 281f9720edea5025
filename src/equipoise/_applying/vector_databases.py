"""``apply_collection``: debias a collection of Qdrant, Chroma or Milvus into a new one beside it.

Rows keep their ids and whatever else the database holds of them. A stopped run goes on by batch.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import numpy as np

from equipoise._applying import chroma, milvus, qdrant
from equipoise._applying.collection import (
    Address,
    Batch,
    BatchedCollection,
    Cursor,
    address_of,
    in_words,
)
from equipoise._applying.documents import CollectionPart, CollectionRun
from equipoise._applying.notes import Notes
from equipoise._applying.report import ApplyReport, certificate, merged
from equipoise._engines.transform import Meter, Modality, Transform
from equipoise._progress import progress
from equipoise._space import EncoderRef
from equipoise._stores.lock import alone_in
from equipoise.errors import InputError, InvalidRowsError

KINDS = {"qdrant": qdrant, "chroma": chroma, "milvus": milvus}
SCHEMES = tuple(f"{kind}:" for kind in KINDS)
BATCH = 1000
NUMBERS = 1 << 20  # in a batch: as text they stay below what servers take in one request
DTYPE = "float32"


def apply_collection(
    source: str,
    name: str,
    transform: Transform,
    *,
    column: str | None = None,
    modality: Modality = "image",
    keep_invalid: bool = False,
    resume: bool = False,
    batch: int = BATCH,
) -> ApplyReport:
    """Debias the collection that ``source`` (``qdrant:folder#photos``) names into ``name``.

    column: which vector, where a row has several; the others are written as they are.
    """
    address = address_of(source)
    if not name or set(name) & set("/\\#"):
        raise InputError(
            f"{name!r} is not the name of a collection; the destination is a new collection of the"
            " same database"
        )
    transform = transform.for_modality(modality)
    kind = KINDS[address.kind]
    with in_words(address, kind.errors), closing(kind.connect(address)) as client:
        collection = kind.open_collection(client, address, column)
        run = _CollectionApply(address, collection, name, transform, modality, keep_invalid)
        return run.run(resume, batch)


class _CollectionApply:
    """One run, from a collection into another of the same database."""

    def __init__(
        self,
        address: Address,
        collection: BatchedCollection,
        name: str,
        transform: Transform,
        modality: Modality,
        keep_invalid: bool,
    ):
        self.address, self.collection, self.name = address, collection, name
        self.transform, self.keep_invalid = transform, keep_invalid
        self.modality: Modality = modality
        self.width = collection.width or transform.in_dim
        transform.require(EncoderRef(), self.width, DTYPE, {modality})
        self.started = time.monotonic()
        self.folder, stem = _place_of_notes(address)
        self.stem = f".{stem}.{name}"
        path = self.folder / f"{self.stem}.equipoise-apply.journal"
        self.notes = Notes(path, CollectionRun, CollectionPart, "collection")
        self.identity = CollectionRun(
            **dict(transform.identity(DTYPE)),
            collection=address.name,
            vector=collection.vector,
            modality=modality,
            rows=collection.count(),
        )

    def run(self, resume: bool, batch: int) -> ApplyReport:
        with alone_in(self.folder, f"{self.stem}.lock"):
            if self.collection.exists(self.name) and not self.notes.path.is_file():
                return self._report(self._finished(resume))
            parts = self._begin(resume)
            written = self._write(parts, batch)
            self._require_whole()
            self.notes.finish()
        return self._report([*parts, *written], written)

    def _finished(self, resume: bool) -> list[CollectionPart]:
        """Return the parts of this run, if it has come to its end and wrote the collection."""
        head, parts = self.notes.read(self.notes.kept)
        if not resume or head != self.identity:
            raise InputError(
                f"{self.address.shown(self.name)} exists already; write to another collection, or"
                " delete it first"
            )
        self._require_whole()
        return parts

    def _begin(self, resume: bool) -> list[CollectionPart]:
        there = self.collection.exists(self.name)
        if not there:
            self.notes.forget()
        parts = self.notes.begin(self.identity, resume)
        if not there:
            self.collection.create(self.name, self.transform.out_dim)
        return parts

    def _write(self, done: list[CollectionPart], size: int) -> list[CollectionPart]:
        size = max(1, min(size, NUMBERS // self.width))
        left = self.identity.rows - sum(part.rows for part in done)
        written = []
        with progress("debiasing", left, size=self.width * np.dtype(DTYPE).itemsize) as advance:
            for batch in self._batches(done, size):
                vectors, meter = self._debiased(batch)
                self.collection.write(self.name, batch, vectors)
                part = CollectionPart(rows=len(batch.ids), next=batch.next, totals=meter.totals())
                self.notes.add(part)
                written.append(part)
                advance(part.rows)
        return written

    def _batches(self, done: list[CollectionPart], size: int) -> Iterator[Batch]:
        """Yield the batches after those that are done."""
        at: Cursor = done[-1].next if done else None
        while at is not None or not done:
            batch = self.collection.read(at, size)
            if batch.ids:
                yield batch
            at = batch.next
            if at is None:
                return

    def _debiased(self, batch: Batch) -> tuple[list[list[float] | None], Meter]:
        there = [i for i, vector in enumerate(batch.vectors) if vector is not None]
        e = np.array([batch.vectors[i] for i in there], DTYPE).reshape(len(there), self.width)
        u = np.empty((len(e), self.transform.out_dim), DTYPE)
        bad, columns = self.transform.run(e, u, DTYPE, self.modality)
        if bad.any() and not self.keep_invalid:
            names = [batch.ids[there[i]] for i in np.flatnonzero(bad)[:5]]
            raise InvalidRowsError(
                f"the row of {self.address.shown(self.address.name)} with id {names[0]!r} has no"
                " direction: it is zero, NaN or infinite. Mend it, or pass `on_invalid` keep to let"
                " such rows through unchanged and count them; then go on with `resume`",
                tuple(names),
                int(bad.sum()),
            )
        meter = Meter(self.transform, DTYPE)
        meter.add(columns, bad)
        vectors: list[list[float] | None] = [None] * len(batch.ids)
        for i, row in zip(there, u.tolist(), strict=True):
            vectors[i] = row
        return vectors, meter

    def _require_whole(self) -> None:
        """Raise where rows came or went while the run lasted, or since."""
        found, written = self.collection.count(), self.collection.count(self.name)
        if found != self.identity.rows or written != found:
            raise InputError(
                f"{self.address.shown(self.address.name)} had {self.identity.rows:,} rows when the"
                f" run began; it has {found:,} now, and {self.name!r} has {written:,}. Delete"
                f" {self.name!r} and write it again, while nobody changes the rows"
            )

    def _report(
        self, parts: list[CollectionPart], written: list[CollectionPart] | None = None
    ) -> ApplyReport:
        totals = merged((self.modality, part.totals) for part in parts)
        theory = self.transform.operator is None
        found = certificate(totals, theory, self.transform.certifies)
        rows = sum(part.rows for part in written or [])
        size = rows * self.transform.out_dim * np.dtype(DTYPE).itemsize
        seconds = time.monotonic() - self.started
        where = self.address.shown(self.name)
        return ApplyReport(where, rows, size, len(written or []), seconds, found)


def _place_of_notes(address: Address) -> tuple[Path, str]:
    """Return a folder, and how names of files in it begin: beside a local database, or our own."""
    if not address.is_server:
        path = Path(address.place).absolute()
        return path.parent, f"{path.name}.{quote(address.name, safe='')}"
    from platformdirs import user_state_path

    digest = hashlib.sha256(f"{address.kind}:{address.place}#{address.name}".encode()).hexdigest()
    return user_state_path("equipoise") / "apply", digest[:16]
