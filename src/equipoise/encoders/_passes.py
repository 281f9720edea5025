"""One item per pass, one thread per pass: a row then depends on its item and on the model alone.

Libraries round differently for other shapes and for other numbers of threads, so a row would
otherwise change with its neighbours, with padding and with the machine's cores.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np


def one_by_one(
    function: Callable[[Any], np.ndarray],
    items: Sequence[Any],
    begin: Callable[[], Any] | None = None,
) -> np.ndarray:
    """Return the rows (n, dim) of items; ``function`` takes one item and returns (1, dim).

    As many threads as there are cores take items in turn, and each calls ``begin`` first. The
    function must use no threads of its own.
    """
    threads = min(cores(), len(items))
    with ThreadPoolExecutor(threads, initializer=begin) as pool:
        return np.concatenate(list(pool.map(function, items)))


def cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
