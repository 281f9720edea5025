"""Operations that operators need on rows of any framework.

They give unit length, the framework's own functions, and constants of the rows' own kind.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import Any

import numpy as np

from equipoise import kernels
from equipoise._array_types import SameRows
from equipoise.kernels import LowRank
from equipoise.kernels._recipe import PROJECT


def normalised(rows: SameRows) -> SameRows:
    """Return rows (..., d) of unit length, in their own type.

    Zero, NaN and infinite rows stay as they are.
    """
    return kernels.debias(rows, _nothing(rows.shape[-1]), PROJECT, "unit")


def unit_and_bad(rows: Any) -> tuple[Any, Any]:
    """Return a new array of unit rows, and the mask (...,) of rows that have no direction.

    The kernels do it, with a projection that takes nothing away.
    """
    unit, invalid = kernels.debias_and_count(rows, _nothing(rows.shape[-1]), PROJECT, "unit")
    return unit, invalid.mask()


def namespace(rows: Any) -> Any:
    """Return the module that has the functions of the rows' framework, such as ``where``."""
    framework = kernels.framework(rows)
    if framework == "numpy":
        return np
    if framework == "torch":
        return sys.modules["torch"]
    return sys.modules["jax"].numpy


def constant(values: np.ndarray, like: Any) -> Any:
    """Return numbers as an array of the framework, type and device of ``like``."""
    if kernels.framework(like) == "torch":
        return like.new_tensor(values)
    return values.astype(like.dtype)


def to_numpy(rows: Any) -> np.ndarray:
    """Return rows of any framework as a numpy array."""
    if kernels.framework(rows) == "torch":
        return rows.detach().cpu().numpy()
    return np.asarray(rows)


def like(values: np.ndarray, rows: SameRows) -> SameRows:
    """Return numbers as an array of the framework and type of ``rows``."""
    if isinstance(rows, np.ndarray):
        return values.astype(rows.dtype)
    return namespace(rows).asarray(constant(values, rows))


@lru_cache(8)
def _nothing(dim: int) -> LowRank:
    return LowRank.projection(np.zeros((dim, 1)))
