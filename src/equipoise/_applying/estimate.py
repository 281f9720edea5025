"""``estimate``: the rows, bytes and time of a run, from headers and a sample of rows."""

from __future__ import annotations

import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from equipoise._applying.files import DEFAULT, Options, Plan, plan
from equipoise._engines import threads
from equipoise._engines.shard import Job, Piece
from equipoise._engines.transform import Transform
from equipoise._stores.locations import LocalPlace
from equipoise.kernels import _host as host

SAMPLE_BYTES = 1 << 26


@dataclass(frozen=True)
class Estimate:
    """What a run would take.

    seconds is extrapolated from ``sampled`` rows, read, debiased, written beside the destination
    and flushed.
    """

    files: int
    rows: int
    dim: int
    dtype: str
    bytes: int
    pieces: int
    sampled: int
    seconds: float


def estimate(
    source: str | os.PathLike,
    destination: str | os.PathLike,
    transform: Transform,
    options: Options = DEFAULT,
) -> Estimate:
    """Nothing stays behind, and nothing is written to the destination."""
    todo = plan(source, destination, transform, options)
    pieces = todo.job.pieces()
    sample = _sample(todo, pieces)
    with tempfile.TemporaryDirectory(dir=_near(todo)) as folder:
        job = Job(**{**vars(todo.job), "destination": folder})
        for _ in threads.run(job, sample[:1]):  # compiles
            pass
        started = time.monotonic()
        sampled = sum(part.stop - part.start for part in threads.run(job, sample))
        seconds = time.monotonic() - started
    layout, first = todo.layout, todo.layout.first
    rate = sampled / seconds if sampled else 1.0
    return Estimate(
        len(layout.files),
        layout.rows,
        first.dim,
        first.dtype,
        layout.bytes,
        len(pieces),
        sampled,
        layout.rows / rate,
    )


def _sample(todo: Plan, pieces: list[Piece]) -> list[Piece]:
    """Some rows of the first files, on as many threads as a run would have; a parquet file as it
    is.
    """
    files, wanted = todo.layout.files, []
    for piece in (piece for piece in pieces if files[piece.file].rows):
        file = files[piece.file]
        rows = max(1, SAMPLE_BYTES // max(1, file.size // file.rows))
        wanted.append(
            Piece(piece.file, piece.start, min(piece.stop, piece.start + rows))
            if file.kind == "npy"
            else piece
        )
        if len(wanted) == host.threads() or file.kind != "npy":
            break
    return wanted


def _near(todo: Plan) -> Path | None:
    if not isinstance(todo.where, LocalPlace):
        return None
    folder = todo.where.folder.resolve()
    return next(
        (path for path in folder.parents if path.is_dir() and os.access(path, os.W_OK)), None
    )
