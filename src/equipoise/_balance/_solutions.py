"""What a solution is: ``Balance``, and the bounds that prove it over a whole collection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from equipoise._balance._pages import Index
from equipoise.geometry import Float64


class Bounds(NamedTuple):
    """The smallest and the largest membership of a collection, in each of r coordinates."""

    low: Float64
    high: Float64

    @classmethod
    def of(cls, memberships: Float64) -> Bounds:
        return cls(memberships.min(axis=0), memberships.max(axis=0))

    def gain(self, lam: Float64, target: Float64) -> float:
        """Return the most that ``-lam . (a - m)`` can add to a score inside these bounds."""
        at_low = -lam * (self.low - target)
        at_high = -lam * (self.high - target)
        return float(np.maximum(at_low, at_high).sum())


class Searched(NamedTuple):
    """Candidates were the best by ``s - lam . (a - m)``; whatever is not among them has at most
    ``highest``.
    """

    lam: Float64
    highest: float


@dataclass(frozen=True, eq=False)
class Balance:
    """The solution of (P) and (D) for one query.

    lam (r,): the minimiser of Phi. shift (r,): what the ranking goes by. It is lam, or with one
    membership a point beside it at which nothing is tied. target (r,): the mean membership that was
    asked for. page (k,): the first k images by ``s - shift . a``, best first; ``mean`` (r,) is
    their mean membership.
    bound: Phi(lam), the largest total score of k images of that mean membership. gap: how far Phi
    is above the value of (P), which is zero but for rounding. edge: the k-th adjusted score,
    ``s - lam . (a - m)``. score and plain_score: the total scores of this page, and of the first k
    before. strength: how far the target lies on the way from the plain page's mean. nearest: that
    target was out of reach, and ``target`` is the nearest mean membership that is not.
    """

    lam: Float64
    shift: Float64
    target: Float64
    page: Index
    mean: Float64
    bound: float
    gap: float
    edge: float
    score: float
    plain_score: float
    strength: float = 1.0
    nearest: bool = False

    @property
    def kept(self) -> float:
        """Return the score of the page as a share of that of the undebiased page."""
        return _ratio(self.score, self.plain_score)

    @property
    def kept_of_bound(self) -> float:
        """Return the score of the page as a share of the largest that a balanced page can have.

        It may be above 1 by what the tied images at the edge differ, since the page takes them
        whole.
        """
        return _ratio(self.score, self.bound)

    def exact(self, searched: Sequence[Searched], bounds: Bounds) -> bool:
        """Return whether no image outside the candidates of these searches could change the answer,
        if all memberships are inside ``bounds``.

        An image outside scores at most ``highest`` at the search's own lam, and at this lam at most
        ``gain`` more.
        """
        return any(
            one.highest + bounds.gain(self.lam - one.lam, self.target) <= self.edge
            for one in searched
        )


def _ratio(value: float, whole: float) -> float:
    return value / whole if whole else float("nan")
