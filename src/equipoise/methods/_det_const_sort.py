"""``det-const-sort``: every prefix of a page has each group's share (Geyik et al. 2019).

An image enters the page when its group's share demands one more. It then moves up past images that
score less, as far as their own deadlines allow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from equipoise.geometry import Float64
from equipoise.methods._registry import Method
from equipoise.methods._reranking import Places, Rerank, RerankOperator, places_of

ROUNDING = 1e-9  # of a share times a number of places


@dataclass(frozen=True)
class DetConstSort(Rerank):
    """k: the page that is served. target: "collection", "equal", or a share for each group."""

    name: ClassVar[str] = "det-const-sort"
    summary: ClassVar[str] = (
        "every prefix of a page holds each predicted group's share, rounded down"
    )
    source: ClassVar[str] = "Geyik et al. 2019"

    def places(self, best: Sequence[Float64], shares: Float64) -> Places:
        """Return the places that each group's share demands, better images first where it can."""
        size = min(self.k, sum(len(scores) for scores in best))
        page: list[tuple[float, int, int]] = []  # the score, the last legal place, the group
        taken = np.zeros(len(best), int)
        sizes = np.array([len(scores) for scores in best])
        prefix = 0
        while len(page) < size:
            prefix += 1
            due = np.floor(shares * prefix + ROUNDING).astype(int)
            late = np.flatnonzero((taken < due) & (taken < sizes)).tolist()
            if prefix > size and not late:
                late = np.flatnonzero(taken < sizes).tolist()  # a group that has run out
            late.sort(key=lambda group: -best[group][taken[group]])
            for group in late:
                _insert(page, (float(best[group][taken[group]]), prefix - 1, group))
                taken[group] += 1
        return places_of([group for _, _, group in page[:size]], len(best))


def _insert(page: list[tuple[float, int, int]], image: tuple[float, int, int]) -> None:
    """Put an image last, and move it up past those that score less and may come later."""
    place = len(page)
    while place and page[place - 1][1] >= place and page[place - 1][0] < image[0]:
        place -= 1
    page.insert(place, image)


class DetConstSortOperator(RerankOperator):
    """Pages on which the first 1, 2, 3, ... results all keep the shares."""

    method = "det-const-sort"
    rule = DetConstSort


DetConstSort.operator = DetConstSortOperator
METHOD: type[Method] = DetConstSort
