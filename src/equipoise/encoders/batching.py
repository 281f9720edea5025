"""How many items the model takes at once: found by trying, while the work goes on."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from equipoise.errors import InputError

FIRST, LARGEST = 8, 1024
WORTH_IT = 1.05  # a larger batch must be this much faster to be kept
TRIES = 2  # batches timed at each size: the first may pay for a warm-up


class Batches:
    """Doubles the batch while items a second grow, and halves it when the device has no room."""

    def __init__(self, size: int | None = None, largest: int = LARGEST):
        if size is not None and (not isinstance(size, int) or size < 1):
            raise InputError(
                f"batch_size={size!r} is not legal; pass a whole number from 1, or None to have it"
                " found"
            )
        self.size = size or FIRST
        self._largest = largest
        self._settled = size is not None
        self._seconds: list[float] = []
        self._previous = np.inf  # seconds an item at half this size

    def run(self, function: Callable[[Any], np.ndarray], items: Any) -> np.ndarray:
        """The function's rows for one batch, in halves where the whole does not fit."""
        started = time.perf_counter()
        try:
            rows = function(items)
        except Exception as error:  # every runtime has a class of its own for it
            if not _out_of_memory(error) or len(items) == 1:
                raise
            half = len(items) // 2
            self.size, self._settled = half, True
            return np.concatenate(
                [self.run(function, items[:half]), self.run(function, items[half:])]
            )
        if len(items) == self.size and not self._settled:
            self._learn((time.perf_counter() - started) / len(items))
        return rows

    def _learn(self, seconds: float) -> None:
        self._seconds.append(seconds)
        if len(self._seconds) < TRIES:
            return
        best = min(self._seconds)
        self._seconds = []
        if best * WORTH_IT > self._previous:
            self.size, self._settled = self.size // 2, True
        elif self.size >= self._largest:
            self._settled = True
        else:
            self.size, self._previous = self.size * 2, best


def _out_of_memory(error: Exception) -> bool:
    message = str(error).lower()
    return isinstance(error, MemoryError) or any(
        word in message for word in ("out of memory", "allocate memory", "failed to allocate")
    )
