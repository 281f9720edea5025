"""``ShareController``: which shares to draw for a prompt, so that an annotator sees those wanted.

A picture that is drawn for group h is seen as group g with some chance C[h, g], whatever else is
drawn. So drawn shares q are seen as C^T q, and each picture of a pilot, whichever shares it was
drawn with, tells of C. After each round the shares are chosen anew: those with C^T q nearest to
what is wanted. The strength of a choice is a number from 0 (the wanted shares themselves are drawn)
to 1 (a group is drawn no more).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, Literal, NamedTuple

import numpy as np

from equipoise.generation._quota import whole_counts
from equipoise.generation._shares import GroupShares

LEVEL = 0.95
STEPS = 1000  # drawn shares are whole thousandths, which print as they are
ROUNDING = 1e-12  # of an interval's end that is exactly 0 or 1
HEAVY = 1e3  # the weight of "shares sum to one" beside what is seen, which is at most one

PilotEnd = Literal["settled", "flat", "saturated", "unsure", "spent"]
"""How a pilot ended.

settled: the wanted shares are in the interval of what was seen. flat: the annotator sees the same
whichever group is drawn. saturated: a group is drawn no more, and that does not suffice. unsure:
the annotator named no group. spent: none of these, and the budget is spent.
"""


class SeenShare(NamedTuple):
    """The share of a group among the pictures that an annotator was sure of, with its interval."""

    value: float
    low: float
    high: float

    def holds(self, share: float) -> bool:
        """Return whether a share is in the interval."""
        return self.low - ROUNDING <= share <= self.high + ROUNDING


def seen_shares(counts: Sequence[int], level: float = LEVEL) -> list[SeenShare]:
    """Return a share per group with Wilson's interval; [] where no picture counts.

    The intervals of one prompt hold all its shares at once, with the chance ``level``: two groups
    have one number between them, and of more groups each has its part of what may be missed. Groups
    are drawn in fixed numbers, which vary less than chance does, so the true chance is larger.
    """
    from scipy.special import ndtri

    total = int(sum(counts))
    if not total:
        return []
    missed = 1 - level if len(counts) == 2 else (1 - level) / len(counts)
    z = float(ndtri(1 - missed / 2))
    return [_wilson(count / total, total, z) for count in counts]


def _wilson(share: float, total: int, z: float) -> SeenShare:
    """Return a share with the ends at which it lies z standard deviations from them."""
    middle = (share + z * z / (2 * total)) / (1 + z * z / total)
    spread = np.sqrt(share * (1 - share) / total + (z / (2 * total)) ** 2)
    half = z * float(spread) / (1 + z * z / total)
    return SeenShare(share, max(0.0, middle - half), min(1.0, middle + half))


def strength_of(shares: Mapping[str, float], wanted: Mapping[str, float]) -> float:
    """Return how much of the drawing makes up for what is not seen: the least s for which
    ``shares = (1 - s) wanted + s others``, with some other shares.
    """
    kept = min(shares[group] / share for group, share in wanted.items() if share > 0)
    return round(max(0.0, 1 - kept), 6)


class ShareController:
    """The controller of one prompt.

    wanted: group -> share. enough: pictures that it must have seen before it may settle. A pilot
    that is smaller than the run settles on what the run can still tell from the wanted shares.
    """

    def __init__(self, wanted: GroupShares, enough: int = 0, level: float = LEVEL):
        self.wanted: GroupShares = dict(wanted)
        self.enough: int = enough
        self.level: float = level
        self.shares: GroupShares = dict(wanted)
        self.settled: bool = False
        self._counts = np.zeros((len(wanted), len(wanted)), int)

    @property
    def strength(self) -> float:
        """Return the strength of the shares that are to be drawn now."""
        return strength_of(self.shares, self.wanted)

    def see(self, counts: np.ndarray) -> None:
        """Take in a round: how many pictures (groups, groups) of a drawn group show each group.

        Pictures that the annotator is unsure of are not in it.
        """
        self._counts = self._counts + np.asarray(counts, int)
        seen = seen_shares(np.asarray(counts).sum(0).tolist(), self.level)
        within = bool(seen) and all(
            share.holds(wanted) for share, wanted in zip(seen, self.wanted.values(), strict=True)
        )
        self.settled = within and self._counts.sum() >= self.enough
        if not self.settled:
            self.shares = self._chosen()

    def end(self) -> PilotEnd:
        """Return how the pilot ended."""
        if self.settled:
            return "settled"
        if not self._counts.sum():
            return "unsure"
        if self._flat():
            return "flat"
        alone = sum(share > 0 for share in self.wanted.values()) == 1
        return "saturated" if alone or self.strength >= 1 else "spent"

    def _chosen(self) -> GroupShares:
        """Return the shares whose pictures are expected to be seen nearest to what is wanted.

        A group that is not wanted is not drawn. Of shares that are as good, those nearest to the
        wanted ones are chosen: the weight of that is the variance of a difference of two shares.
        Each row of C begins with one imagined picture that shows what was drawn.
        """
        from scipy.optimize import nnls

        wanted = np.array(list(self.wanted.values()))
        drawable = wanted > 0
        obeyed = self._counts + np.eye(len(wanted))
        seen = (obeyed / obeyed.sum(1, keepdims=True))[drawable].T
        least = 1 / np.sqrt(max(self._counts.sum(), 1))
        count = int(drawable.sum())
        system = np.vstack([seen, least * np.eye(count), np.full((1, count), HEAVY)])
        aims = np.concatenate([wanted, least * wanted[drawable], [HEAVY]])
        shares = np.zeros(len(wanted))
        shares[drawable] = nnls(system, aims)[0]
        return _thousandths(dict(zip(self.wanted, shares.tolist(), strict=True)))

    def _flat(self) -> bool:
        """Return whether what is seen does not depend on what is drawn, as far as can be told."""
        from scipy.stats import chi2_contingency

        rows = self._counts[self._counts.sum(1) > 0]
        table = rows[:, rows.sum(0) > 0]
        if len(table) < 2:
            return False  # one group was drawn, which tells nothing
        if table.shape[1] < 2:
            return True
        found: Any = chi2_contingency(table, correction=False)
        return bool(found.pvalue >= 1 - self.level)


Observe = Callable[[GroupShares, int], np.ndarray]
"""Draw pictures in some shares and have them labelled: see ``ShareController.see``."""


def round_sizes(budget: int, rounds: int) -> list[int]:
    """Return how many pictures each round has; together no more than the budget."""
    return [(budget + place) // rounds for place in range(rounds)]


def control(controller: ShareController, sizes: Sequence[int], observe: Observe) -> None:
    """Draw and adjust, round by round, until the prompt is settled or the budget is spent."""
    for size in sizes:
        controller.see(observe(controller.shares, size))
        if controller.settled:
            return


def _thousandths(shares: GroupShares) -> GroupShares:
    exact = [Fraction(share) for share in shares.values()]
    total = sum(exact, Fraction(0))
    counts = whole_counts([share / total for share in exact], STEPS)
    return {group: count / STEPS for group, count in zip(shares, counts, strict=True)}
