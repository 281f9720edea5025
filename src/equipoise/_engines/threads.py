"""The engine on this machine: as many pieces at once as keep the cores busy while others wait for
the disk.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from itertools import groupby, zip_longest

from equipoise._engines.shard import Done, Job, Piece, run_piece
from equipoise.kernels._host import threads

WAITING_FOR_THE_DISK = 2
WAITING_FOR_A_WORKER = (
    2  # as many again, so that nobody is idle while a finished piece is put into the journal
)
MEMORY = 1 << 29  # for row groups of parquet files, which are held whole
COPIES_OF_A_GROUP = 4  # as stored, decoded, debiased, encoded


def run(job: Job, pieces: list[Piece], workers: int | None = None) -> Iterator[Done]:
    """Each piece as it is done, in any order.

    After an error, what was begun is still finished and given before it is raised.
    """
    largest = max((job.files[piece.file].group_bytes for piece in pieces), default=0)
    workers = workers or threads() + WAITING_FOR_THE_DISK
    workers = max(1, min(workers, MEMORY // (COPIES_OF_A_GROUP * largest))) if largest else workers
    left, running, error = _apart(pieces, workers), set[Future[Done]](), None
    pool = ThreadPoolExecutor(workers, thread_name_prefix="equipoise-apply")
    try:
        while True:
            while (
                error is None
                and len(running) < WAITING_FOR_A_WORKER * workers
                and (piece := next(left, None)) is not None
            ):
                running.add(pool.submit(run_piece, job, piece))
            if not running:
                break
            finished, running = wait(running, return_when=FIRST_COMPLETED)
            for future in finished:
                if (failed := future.exception()) is None:
                    yield future.result()
                else:
                    error = error or failed
            if error is not None:
                running = {future for future in running if not future.cancel()}
    finally:
        pool.shutdown(cancel_futures=True)
    if error is not None:
        raise error


def _apart(pieces: list[Piece], workers: int) -> Iterator[Piece]:
    """Pieces of as many files at a time as there are workers, in turns: those of one file would
    wait for each other to write to it.
    """
    files = [list(parts) for _, parts in groupby(pieces, key=lambda piece: piece.file)]
    for first in range(0, len(files), workers):
        for turn in zip_longest(*files[first : first + workers]):
            yield from filter(None, turn)
