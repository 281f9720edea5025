"""``estimate``: the rows, bytes and time of a run, from headers and a sample of rows."""

from __future__ import annotations

import os
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

from equipoise._applying.files import DEFAULT, ApplyPlan, Options, plan
from equipoise._engines import threads
from equipoise._engines.shard import Piece
from equipoise._engines.transform import Transform
from equipoise._stores.locations import LocalPlace
from equipoise.kernels import _host as host

SAMPLE_BYTES = 1 << 26


@dataclass(frozen=True)
class RunEstimate:
    """What a run would take.

    seconds: extrapolated from ``sampled`` rows, which are read, debiased, written beside the
    destination and flushed.
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
    source: str | os.PathLike[str],
    destination: str | os.PathLike[str],
    transform: Transform,
    options: Options = DEFAULT,
) -> RunEstimate:
    """Return what a run would take; leave nothing behind, and the destination as it is."""
    todo = plan(source, destination, transform, options)
    pieces = todo.job.pieces()
    sample = _sample(todo, pieces)
    with tempfile.TemporaryDirectory(dir=_near(todo)) as folder:
        job = replace(todo.job, destination=folder)
        for _ in threads.run(job, sample[:1]):  # compiles
            pass
        started = time.monotonic()
        sampled = sum(part.stop - part.start for part in threads.run(job, sample))
        seconds = time.monotonic() - started
    layout, first = todo.layout, todo.layout.first
    rate = sampled / seconds if sampled else 1.0
    return RunEstimate(
        files=len(layout.files),
        rows=layout.rows,
        dim=first.dim,
        dtype=first.dtype,
        bytes=layout.bytes,
        pieces=len(pieces),
        sampled=sampled,
        seconds=layout.rows / rate,
    )


def _sample(todo: ApplyPlan, pieces: list[Piece]) -> list[Piece]:
    """Return some rows of the first files, for as many threads as a run has.

    A parquet file is taken whole.
    """
    wanted: list[Piece] = []
    for piece in pieces:
        file = todo.layout.files[piece.file]
        if not file.rows:
            continue
        if file.kind != "npy":
            wanted.append(piece)
            break
        rows = max(1, SAMPLE_BYTES // max(1, file.size // file.rows))
        wanted.append(piece._replace(stop=min(piece.stop, piece.start + rows)))
        if len(wanted) == host.threads():
            break
    return wanted


def _near(todo: ApplyPlan) -> Path | None:
    if not isinstance(todo.where, LocalPlace):
        return None
    for path in todo.where.folder.resolve().parents:
        if path.is_dir() and os.access(path, os.W_OK):
            return path
    return None
