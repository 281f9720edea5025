"""The rows of one call without a direction (zero, NaN, infinite), which come back as they were."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np


class InvalidRows(Protocol):
    """What a kernel knows of the rows without a direction."""

    def count(self) -> Any:
        """Return their number: an int, or what ``int`` makes one when the device is done."""
        ...

    def mask(self) -> Any:
        """Return which rows they are, (...,), in the rows' own framework."""
        ...


class MarkedRows:
    """A kernel that marks each row."""

    def __init__(self, mask: Any):
        self._mask = mask

    def count(self) -> Any:
        if isinstance(self._mask, np.ndarray):
            return int(np.count_nonzero(self._mask))
        return self._mask.sum()

    def mask(self) -> Any:
        return self._mask


class CountedRows:
    """A kernel that only counts them; to find them, the rows (..., d) are looked at again."""

    def __init__(self, number: Any, rows: Any):
        self._number, self._rows = number, rows

    def count(self) -> Any:
        return self._number

    def mask(self) -> Any:
        return without_direction(self._rows)


def without_direction(rows: Any) -> Any:
    """Return which rows (..., d) are zero or hold NaN or infinity, in their own framework."""
    size = abs(rows)
    largest = size.amax(-1) if hasattr(size, "amax") else size.max(-1)
    return ~((largest > 0) & (largest < float("inf")))
