"""Batches: how many items the model takes at once, fewer where the device runs out of memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from equipoise.errors import InputError

SIZE = 64


class ShrinkingBatches:
    """Batches of a fixed size, halved when the device runs out of memory.

    The size is never chosen by timing: the size of a batch may show in the last digits of its rows,
    and a busy machine would then give other rows than an idle one.
    """

    def __init__(self, size: int | None = None, default: int = SIZE):
        if size is not None and (not isinstance(size, int) or size < 1):
            raise InputError(
                f"batch_size={size!r} is not legal; pass a whole number from 1, or None for"
                f" {default}"
            )
        self.size = size or default

    def run(self, function: Callable[[Any], np.ndarray], items: Any) -> np.ndarray:
        """Return the function's rows for one batch, in halves where the whole does not fit."""
        try:
            return function(items)
        except Exception as error:  # each runtime raises a class of its own
            if not _out_of_memory(error) or len(items) == 1:
                raise
        half = len(items) // 2
        self.size = half
        return np.concatenate([self.run(function, items[:half]), self.run(function, items[half:])])


def _out_of_memory(error: Exception) -> bool:
    message = str(error).lower()
    words = ("out of memory", "allocate memory", "failed to allocate")
    return isinstance(error, MemoryError) or any(word in message for word in words)
