"""The shard function: one piece of a source read, debiased, measured and written.

Every engine runs this, and nothing else.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Annotated, Any, BinaryIO, NamedTuple

import numpy as np
from pydantic import AfterValidator

from equipoise._artefact import NOT_WHOLE
from equipoise._certificate import Totals
from equipoise._documents import Document
from equipoise._engines.transform import Meter, Transform
from equipoise._paths import open_part
from equipoise._stores import npy, parquet
from equipoise._stores.checksum import crc32
from equipoise._stores.layout import SourceFile
from equipoise._stores.locations import PART, LocalPlace, Place, place, unwritable
from equipoise.errors import ArtefactError, InvalidRowsError
from equipoise.kernels._host import on_one_thread

PIECE_BYTES = 1 << 27  # what a kill can cost per worker
PIECE_ROWS = 1 << 19
FEWEST = 32  # pieces of a small source, so that all cores end together
SMALLEST = 1 << 23  # bytes of such a piece
MOST = 1 << 11  # pieces of a large source: the note of each is held in memory
COPY_BYTES = 1 << 22
FLUSH_BYTES = 1 << 23  # written before the disk is asked to begin with them


class Piece(NamedTuple):
    """Rows start to stop of a file; a file that cannot be written in parts is one piece."""

    file: int
    start: int
    stop: int


def _whole(totals: Totals) -> Totals:
    """Raise ValueError for totals that no certificate can be made of."""
    try:
        totals.summary()
        _ = totals + totals
    except NOT_WHOLE as error:
        raise ValueError(f"its totals are not whole ({error!r})") from None
    return totals


WholeTotals = Annotated[Totals, AfterValidator(_whole)]


class Done(Document):
    """A piece that is on the disk: a line of the journal.

    crc32 is that of the bytes written; a first piece writes the header too.
    """

    file: int
    start: int
    stop: int
    bytes: int
    crc32: str
    totals: WholeTotals | None = None

    @property
    def piece(self) -> Piece:
        return Piece(self.file, self.start, self.stop)


@dataclass(frozen=True)
class Job:
    """All that a worker needs, here or on another machine.

    ``targets`` maps the names of files to new names, where they get any.
    """

    source: str
    destination: str
    files: list[SourceFile]
    transform: Transform
    keep_invalid: bool = False
    targets: dict[str, str] = field(default_factory=dict)

    def target(self, file: SourceFile) -> str:
        return self.targets.get(file.name, file.name)

    def pieces(self) -> list[Piece]:
        """Return all pieces, in the order of rows."""
        local = isinstance(place(self.destination), LocalPlace)
        total = sum(file.size for file in self.files)
        size = max(SMALLEST, min(PIECE_BYTES, total // FEWEST), total // MOST)
        rows = max(PIECE_ROWS, sum(file.rows for file in self.files) // MOST)
        pieces = []
        for i, file in enumerate(self.files):
            pieces += _cut(i, file, local, rows, size)
        return pieces


def _cut(index: int, file: SourceFile, local: bool, rows: int, size: int) -> Iterator[Piece]:
    if file.kind != "npy" or not local or not file.rows:
        yield Piece(index, 0, file.rows)
        return
    step = max(1, min(rows, size // (file.size // file.rows)))
    for start in range(0, file.rows, step):
        yield Piece(index, start, min(start + step, file.rows))


def run_piece(job: Job, piece: Piece) -> Done:
    """Read, debias, measure and write a piece, and flush it to the disk.

    Run twice, it writes the same bytes twice, which does no harm where a node was lost.
    """
    file = job.files[piece.file]
    run = {"npy": _npy, "parquet": _parquet, "copy": _copy}[file.kind]
    # Engines spread pieces over threads, not rows.
    with on_one_thread(), _unchanged(place(job.source), file) as source:
        return run(job, file, piece, source, place(job.destination))


@contextmanager
def _unchanged(source: Place, file: SourceFile) -> Iterator[Place]:
    """Raise where a file is not the one that was looked at.

    A destination must not hold some of its rows as they were, and some as they are now.
    """

    def check() -> None:
        try:
            size, stamp = source.stamp(file.name)
        except OSError:
            size, stamp = -1, ""
        # Elsewhere a listing may give one object another stamp, so that only its size counts.
        same_stamp = stamp == file.stamp or not isinstance(source, LocalPlace)
        if size != file.size or not same_stamp:
            raise ArtefactError(
                f"{file.name} in {source} was changed or removed while it was read; pass a new"
                " destination"
            )

    check()
    yield source
    check()


def part_name(target: str) -> str:
    """Return the name of the file in which the pieces of a .npy file are gathered."""
    folder, slash, name = target.rpartition("/")
    return f"{folder}{slash}.{name}{PART}"


def target_header(job: Job, file: SourceFile) -> npy.NpyHeader:
    """Return the header of the file to write."""
    return npy.read_header(place(job.source), file.name).resized(job.transform.out_dim)


class _Sink(ABC):
    """A file that counts and checksums what is written; a full disk is an error in words."""

    def __init__(self, name: str):
        self.name, self.bytes, self.crc = name, 0, 0

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        with unwritable(self.name):
            self._write(view)
        self.crc = crc32(view, self.crc)
        self.bytes += len(view)
        return len(view)

    @abstractmethod
    def _write(self, view: memoryview) -> None:
        """Write bytes where they belong."""

    def done(self, piece: Piece, totals: Totals | None) -> Done:
        return Done(
            file=piece.file,
            start=piece.start,
            stop=piece.stop,
            bytes=self.bytes,
            crc32=f"{self.crc:08x}",
            totals=totals,
        )


class _FileSink(_Sink):
    """A file that is written from start to end."""

    closed = False

    def __init__(self, name: str, file: BinaryIO):
        super().__init__(name)
        self.file = file

    def _write(self, view: memoryview) -> None:
        self.file.write(view)

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False

    def tell(self) -> int:
        return self.bytes

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass


class _PartSink(_Sink):
    """A range of bytes in a file that other pieces are written to as well."""

    def __init__(self, name: str, descriptor: int, offset: int):
        super().__init__(name)
        self.descriptor = descriptor
        self.flushed = self.offset = os.lseek(descriptor, offset, os.SEEK_SET)

    def _write(self, view: memoryview) -> None:
        while len(view):
            count = os.write(self.descriptor, view)
            self.offset, view = self.offset + count, view[count:]
        unflushed = self.offset - self.flushed
        if unflushed >= FLUSH_BYTES and hasattr(os, "posix_fadvise"):
            # The disk writes while the next rows are computed: the last flush then waits less.
            os.posix_fadvise(self.descriptor, self.flushed, unflushed, os.POSIX_FADV_DONTNEED)
            self.flushed = self.offset


@contextmanager
def _whole_file(where: Place, name: str) -> Iterator[_FileSink]:
    with unwritable(f"{name} in {where}"), where.writing(name) as file:
        yield _FileSink(f"{name} in {where}", file)


@contextmanager
def _part_of_file(where: LocalPlace, name: str, size: int, offset: int) -> Iterator[_PartSink]:
    path, shown = where.path(part_name(name)), f"{name} in {where}"
    with unwritable(shown):
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = open_part(path)
        try:
            os.truncate(descriptor, size)
            yield _PartSink(shown, descriptor, offset)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _npy(job: Job, file: SourceFile, piece: Piece, source: Place, destination: Place) -> Done:
    before = npy.read_header(source, file.name)
    after = before.resized(job.transform.out_dim)
    first = piece.start == 0
    offset = 0 if first else len(after.raw) + piece.start * after.row_bytes
    size = len(after.raw) + after.rows * after.row_bytes
    target = job.target(file)
    if isinstance(destination, LocalPlace):
        opened = _part_of_file(destination, target, size, offset)
    else:
        opened = _whole_file(destination, target)
    transform = job.transform.for_modality(file.modality)
    meter = Meter(transform, file.dtype)
    with source.open(file.name) as rows, opened as sink:
        if first:
            sink.write(after.raw)
        rows.seek(len(before.raw) + piece.start * before.row_bytes)
        step = transform.block_rows(before.row_bytes)
        most = min(step, piece.stop - piece.start)
        e = np.empty((most, before.dim), before.numpy_dtype)
        u = np.empty((most, after.dim), after.numpy_dtype)
        for start in range(piece.start, piece.stop, step):
            count = min(step, piece.stop - start)
            block = npy.read_block(rows, e[:count], f"{file.name} in {source}")
            _block(job, transform, file, block, u[:count], start, meter)
            sink.write(u[:count].reshape(-1).view(np.uint8))
    return sink.done(piece, meter.totals())


def _parquet(job: Job, file: SourceFile, piece: Piece, source: Place, destination: Place) -> Done:
    transform = job.transform.for_modality(file.modality)
    meter = Meter(transform, file.dtype)

    def change(rows: np.ndarray, first: int) -> np.ndarray:
        out = np.empty((len(rows), transform.out_dim), rows.dtype)
        step = transform.block_rows(rows.itemsize * rows.shape[1])
        for start in range(0, len(rows), step):
            e, u = rows[start : start + step], out[start : start + step]
            _block(job, transform, file, e, u, first + start, meter)
        return out

    with source.open(file.name) as rows, _whole_file(destination, job.target(file)) as sink:
        name = f"{file.name} in {source}"
        parquet.rewrite(rows, sink, name, file.column, transform.in_dim, change)
    return sink.done(piece, meter.totals())


def _copy(job: Job, file: SourceFile, piece: Piece, source: Place, destination: Place) -> Done:
    with source.open(file.name) as data, _whole_file(destination, job.target(file)) as sink:
        while block := data.read(COPY_BYTES):
            sink.write(block)
    return sink.done(piece, None)


def _block(
    job: Job,
    transform: Transform,
    file: SourceFile,
    e: np.ndarray,
    u: np.ndarray,
    start: int,
    meter: Meter,
) -> None:
    bad, columns = transform.run(e, u, file.dtype, file.modality)
    if not job.keep_invalid and bad.any():
        rows = tuple(start + int(i) for i in np.flatnonzero(bad)[:5])
        raise InvalidRowsError(
            f"row {rows[0]:,} of {file.name} in {place(job.source)} (counting from 0) has no"
            " direction: it is zero, or holds NaN or infinity. Mend it, or pass `on_invalid` keep"
            " to let such rows through unchanged and count them",
            rows,
            int(bad.sum()),
        )
    meter.add(columns, bad)
