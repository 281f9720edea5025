"""``fa-ir``: no prefix of a page has improbably few of a group (Zehlike et al. 2017).

A group's images come before better ones only where their number would otherwise be improbably small
for draws with the group's share. The probability is that of any prefix failing, so the level of a
single prefix is smaller.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np

from equipoise.errors import InputError
from equipoise.geometry import Float64
from equipoise.methods._context import FitContext
from equipoise.methods._registry import Method
from equipoise.methods._reranking import Places, Rerank, RerankOperator, places_of

HALVINGS = 30  # of the interval in which the level of a single prefix is looked for


@dataclass(frozen=True)
class FaIr(Rerank):
    """k: the page that is served.

    alpha: how often pages of fair draws may be held unfair. Every group is protected; the paper
    has one.
    """

    alpha: float = 0.1

    name: ClassVar[str] = "fa-ir"
    summary: ClassVar[str] = "no prefix of a page holds improbably few of a predicted group"
    source: ClassVar[str] = "Zehlike et al. 2017"
    licence: ClassVar[str] = "Apache 2.0"
    code: ClassVar[str] = "one group is protected; here every group is, each by a test of its own"

    def fit(self, context: FitContext) -> RerankOperator:
        if not 0 < self.alpha < 0.5:
            raise InputError(f"alpha={self.alpha} is not legal; pass a number between 0 and 0.5")
        return super().fit(context)

    def places(self, best: Sequence[Float64], shares: Float64) -> Places:
        """Give each place to the best image, unless a group's numbers leave no choice."""
        sizes = np.array([len(scores) for scores in best])
        size = min(self.k, int(sizes.sum()))
        needed = np.stack([at_least(size, float(share), self.alpha) for share in shares])
        needed = np.minimum(needed, sizes[:, None])
        taken = np.zeros(len(best), int)
        order = []
        for place in range(size):
            group = _next(best, taken, sizes, needed[:, place:])
            order.append(group)
            taken[group] += 1
        return places_of(order, len(best))


def _next(best: Sequence[Float64], taken: np.ndarray, sizes: np.ndarray, needed: np.ndarray) -> int:
    """Return the group of the next place.

    needed (groups, places): how many of each group must be there after this place and each later
    one. Where what is missing fills all places up to a deadline, only those groups may come.
    """
    missing = np.maximum(needed - taken[:, None], 0)
    full = np.flatnonzero(missing.sum(0) >= np.arange(1, needed.shape[1] + 1))
    legal = taken < sizes
    if full.size:
        legal &= missing[:, full[0]] > 0
    groups = np.flatnonzero(legal).tolist()
    return max(groups, key=lambda group: best[group][taken[group]])


@lru_cache(256)
def at_least(places: int, share: float, alpha: float) -> np.ndarray:
    """Return how many of a group of this share each prefix (places,) must hold at least.

    With the corrected level, pages of fair draws fail somewhere with a probability of at most
    alpha.
    """
    from scipy.stats import binom

    prefixes = np.arange(1, places + 1)
    low, high = 0.0, alpha
    table = np.zeros(places, int)
    for _ in range(HALVINGS):
        level = (low + high) / 2
        tried = np.maximum(binom.ppf(level, prefixes, share), 0).astype(int)
        if failing(tried, share) <= alpha:
            low, table = level, tried
        else:
            high = level
    return table


def failing(table: np.ndarray, share: float) -> float:
    """Return how probably draws with this share have fewer in some prefix than a table says."""
    passing = np.zeros(len(table) + 1)  # by how many of the group there are so far
    passing[0] = 1
    for least in table:
        drawn = passing * (1 - share)
        drawn[1:] += passing[:-1] * share
        drawn[:least] = 0
        passing = drawn
    return 1 - float(passing.sum())


class FaIrOperator(RerankOperator):
    """Pages that pass the test at every prefix."""

    method = "fa-ir"
    rule = FaIr


FaIr.operator = FaIrOperator
METHOD: type[Method] = FaIr
