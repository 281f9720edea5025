"""Pages: the first k images by a score, and what a minimum of Phi is."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from equipoise.geometry import Float64

Index = NDArray[np.int64]

ROUNDING = 1e-12
"""A page whose mean membership is this close to the target, as a share of the largest distance, has
reached it.
"""


class Minimum(NamedTuple):
    """The minimiser of Phi, a point beside it for the ranking, and the value of (P)."""

    lam: Float64
    shift: Float64
    value: float


def adjusted(scores: Float64, memberships: Float64, lam: Float64) -> Float64:
    """Return the scores (n,) that the balanced ranking goes by: ``s_i - lam . a_i``."""
    return scores - memberships @ lam


def first(scores: Float64, k: int) -> Index:
    """Return the places (k,) of the largest scores, best first; of equal ones, the lower place."""
    chosen = first_unordered(scores, k)
    return chosen[np.argsort(-scores[chosen], kind="stable")]


def first_unordered(scores: Float64, k: int) -> Index:
    """Return the same places: those above the edge as they lie, then those that are tied at it."""
    cut = kth_largest(scores, k)
    above = np.flatnonzero(scores > cut)
    tied = np.flatnonzero(scores == cut)[: k - len(above)]
    return np.concatenate([above, tied])


def kth_largest(lifted: Float64, k: int) -> float:
    """Return the k-th largest score."""
    return float(np.partition(lifted, len(lifted) - k)[len(lifted) - k])
