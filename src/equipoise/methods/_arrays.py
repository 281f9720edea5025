"""Operations that operators need on rows of any framework: unit length, its own functions,
constants of the rows' own kind.
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
    """Rows (..., d) of unit length, in their own type; zero, NaN and infinite rows stay as they
    are.
    """
    return unit_and_bad(rows)[0]


def unit_and_bad(rows: Any) -> tuple[Any, Any]:
    """Rows of unit length, a new array, and the mask (...,) of those that have none: by the
    kernels, from which nothing is taken.
    """
    return kernels.debias(rows, _nothing(rows.shape[-1]), PROJECT, "unit")


def namespace(rows: Any) -> Any:
    """The functions of the rows' framework: ``where``, ``cos``, ..."""
    framework = kernels.framework(rows)
    return (
        np
        if framework == "numpy"
        else sys.modules["torch"]
        if framework == "torch"
        else sys.modules["jax"].numpy
    )


def constant(values: np.ndarray, like: Any) -> Any:
    """Numbers as an array of the framework, type and device of ``like``."""
    return (
        like.new_tensor(values) if kernels.framework(like) == "torch" else values.astype(like.dtype)
    )


@lru_cache(8)
def _nothing(dim: int) -> LowRank:
    return LowRank.projection(np.zeros((dim, 1)))
