"""Images decoded ahead of the model by worker processes, in order and within bounded memory.

The processes are loky's: they start without running the caller's script again, so no ``__main__``
guard is needed. They import Pillow and numpy, never a framework.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import cache
from itertools import islice
from typing import Any

import numpy as np
from PIL import Image

from equipoise.encoders._images import UnreadableImageError, open_image
from equipoise.errors import InputError

Prepare = Callable[[Image.Image], np.ndarray]

CHUNK = 16
AHEAD = 3  # chunks in flight per worker
INLINE = 64  # a few pictures are not worth starting processes for
IDLE_SECONDS = 60


def decode(
    sources: Iterable[Any], prepare: Prepare, workers: int
) -> Iterator[np.ndarray | UnreadableImageError | None]:
    """Yield one result per source, in order: prepared pixels, an error, or None.

    An image that cannot be read gives its error, and a source that is None gives None.
    """
    sources = iter(sources)
    pending: deque[tuple[list[Any], Future]] = deque()
    done = 0  # decoded in this process so far
    with ThreadPoolExecutor(1) as thread:
        for chunk in iter(lambda: list(islice(sources, CHUNK)), []):
            wanted = [source for source in chunk if source is not None]
            heavy = workers > 0 and done >= INLINE and wanted and all(map(_is_encoded, wanted))
            done += len(wanted)
            executor = _pool(workers) if heavy else thread
            pending.append((chunk, executor.submit(_prepare_all, chunk, prepare)))
            if len(pending) > AHEAD * max(workers, 1):
                yield from _results(*pending.popleft(), prepare, workers)
        while pending:
            yield from _results(*pending.popleft(), prepare, workers)


def _is_encoded(source: Any) -> bool:
    return isinstance(source, str | os.PathLike | bytes)


@cache
def _pool(workers: int):
    """Return the pool for this number of workers; its processes end when idle."""
    from joblib.externals.loky import ProcessPoolExecutor

    return ProcessPoolExecutor(workers, timeout=IDLE_SECONDS)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # a forked process starts its own


def _results(chunk: list[Any], future: Future, prepare: Prepare, workers: int) -> list[Any]:
    try:
        return future.result()
    except BrokenProcessPool:  # a decoder crashed: find the file that did it
        _pool.cache_clear()
        return [_alone(source, prepare, workers) for source in chunk]


def _alone(source: Any, prepare: Prepare, workers: int) -> Any:
    try:
        return _pool(workers).submit(_prepare_all, [source], prepare).result()[0]
    except BrokenProcessPool:
        _pool.cache_clear()
        return UnreadableImageError("it crashed the decoder")


def _prepare_all(
    chunk: list[Any], prepare: Prepare
) -> list[np.ndarray | UnreadableImageError | None]:
    return [_prepare(source, prepare) for source in chunk]


def _prepare(source: Any, prepare: Prepare) -> np.ndarray | UnreadableImageError | None:
    if source is None:
        return None
    try:
        return prepare(open_image(source))
    except UnreadableImageError as error:
        return error
    except InputError:  # an array that is no image is a mistake of the caller's
        raise
    except Exception as error:
        return UnreadableImageError(f"it could not be prepared ({type(error).__name__}: {error})")
