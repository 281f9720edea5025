"""Operations that operators need on rows of any framework: unit length, a choice, and constants of the rows' own kind."""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import Any

import numpy as np

from equipoise import kernels
from equipoise.kernels import LowRank
from equipoise.kernels.recipe import PROJECT


def normalised(rows: Any) -> Any:
    """Rows (..., d) of unit length, in their own type; zero, NaN and infinite rows stay as they are."""
    return unit_and_bad(rows)[0]


def unit_and_bad(rows: Any) -> tuple[Any, Any]:
    """Rows of unit length, a new array, and the mask (...,) of those that have none: by the kernels, from which nothing is taken."""
    return kernels.debias(rows, _nothing(rows.shape[-1]), PROJECT, "unit")


def where(chosen: Any, rows: Any, others: Any) -> Any:
    """``rows`` where chosen, else ``others``; an array of their framework."""
    if kernels.framework(rows) == "torch":
        return rows.where(chosen, others)
    return (np if isinstance(rows, np.ndarray) else sys.modules["jax"].numpy).where(chosen, rows, others)


def constant(values: np.ndarray, like: Any) -> Any:
    """Numbers as an array of the framework, type and device of ``like``."""
    return like.new_tensor(values) if kernels.framework(like) == "torch" else values.astype(like.dtype)


@lru_cache(8)
def _nothing(dim: int) -> LowRank:
    return LowRank.projection(np.zeros((dim, 1)))
