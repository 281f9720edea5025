"""The engine on this machine: enough threads to keep the cores busy while some wait for disks."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from itertools import groupby, islice, zip_longest

from equipoise._engines.shard import Done, Job, Piece, run_piece
from equipoise.kernels._host import threads

WAITING_FOR_THE_DISK = 2
# Pieces per worker that are handed out, so that no worker is idle while the journal is written.
WAITING_FOR_A_WORKER = 2
MEMORY = 1 << 29  # for row groups of parquet files, which are held whole
COPIES_OF_A_GROUP = 4  # as stored, decoded, debiased, encoded


def run(job: Job, pieces: list[Piece], workers: int | None = None) -> Iterator[Done]:
    """Yield each piece as it is done, in any order.

    After an error, the pieces that were begun are still finished and yielded before it is raised.
    """
    largest = max((job.files[piece.file].group_bytes for piece in pieces), default=0)
    workers = workers or threads() + WAITING_FOR_THE_DISK
    if largest:
        fitting = MEMORY // (COPIES_OF_A_GROUP * largest)
        workers = max(1, min(workers, fitting))
    left, running, error = _apart(pieces, workers), set[Future[Done]](), None
    pool = ThreadPoolExecutor(workers, thread_name_prefix="equipoise-apply")
    try:
        while True:
            if error is None:
                room = WAITING_FOR_A_WORKER * workers - len(running)
                for piece in islice(left, room):
                    running.add(pool.submit(run_piece, job, piece))
            if not running:
                break
            finished, running = wait(running, return_when=FIRST_COMPLETED)
            for future in finished:
                failed = future.exception()
                if failed is None:
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
    """Yield pieces of as many files at a time as there are workers, in turns.

    Pieces of one file would wait for each other to write to it.
    """
    files = [list(parts) for _, parts in groupby(pieces, key=lambda piece: piece.file)]
    for first in range(0, len(files), workers):
        for turn in zip_longest(*files[first : first + workers]):
            yield from filter(None, turn)
