"""``interleave``: each place of a page goes to the group that is furthest below its share, and in
the group to the image that scores highest.

Quotas of predicted groups, as fair re-ranking has it (PBM, Kong et al. 2023): no query ranks so, it
needs the group of every image, and the page has no proof of its price. The rival of ``balanced``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from equipoise.geometry import Float64
from equipoise.methods._registry import Method
from equipoise.methods._reranking import Places, Rerank, RerankOperator


@dataclass(frozen=True)
class Interleave(Rerank):
    """k: the page that is served.

    target: "collection", "equal", or a share for each group.
    """

    name: ClassVar[str] = "interleave"
    summary: ClassVar[str] = "places of a page given out by quotas of predicted groups"
    source: ClassVar[str] = "after Kong et al. 2023"

    def places(self, best: Sequence[Float64], shares: Float64) -> Places:
        """Return the places that quotas give to the images of each group."""
        return interleaved(best, shares, self.k)


def interleaved(best: Sequence[Float64], shares: Float64, k: int) -> Places:
    """Return the places, from 0, that the images of each group get among the first k.

    best: the scores of each group's images, best first. The next place goes to the group whose
    images are the most below its share of the places so far; of equal ones, to the better image.
    """
    taken = np.zeros(len(best), int)
    sizes = np.array([len(scores) for scores in best])
    places: list[list[int]] = [[] for _ in best]
    for place in range(min(k, int(sizes.sum()))):
        missing = np.where(taken < sizes, shares * (place + 1) - taken, -np.inf)
        ties = np.flatnonzero(missing >= missing.max() - 1e-9)
        group = max(ties.tolist(), key=lambda group: best[group][taken[group]])
        places[group].append(place)
        taken[group] += 1
    return [np.array(there, int) for there in places]


class InterleaveOperator(RerankOperator):
    """Pages by quotas."""

    method = "interleave"
    rule = Interleave


Interleave.operator = InterleaveOperator
METHOD: type[Method] = Interleave
