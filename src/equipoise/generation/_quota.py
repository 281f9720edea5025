"""``Quota``: an endless sequence of groups in given shares, with little discrepancy.

Any ``WINDOW`` in a row hold each group as often as its share asks, to within one. The first
``WINDOW`` are filled so. After that a group takes the place of the one that leaves the window: the
same group, or one that the window holds too little of in place of one that it holds too much of.
Neither step takes a count further than one from its share, which is the whole proof.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

WINDOW = 100


class Quota:
    """The sequence for some shares, which sum to one; ``quota[i]`` is the place of a group."""

    def __init__(self, shares: Sequence[Fraction]):
        self.shares: tuple[Fraction, ...] = tuple(shares)
        self._drawn: list[int] = []
        self._first = whole_counts(self.shares, WINDOW)
        self._total = [0] * len(self.shares)
        self._window = [0] * len(self.shares)

    def __getitem__(self, position: int) -> int:
        while len(self._drawn) <= position:
            self._draw()
        return self._drawn[position]

    def _draw(self) -> None:
        """Draw the next group: of those that may come, the one that is furthest behind."""
        position = len(self._drawn)
        if position < WINDOW:
            eligible = self._unfilled()
        else:
            leaving = self._drawn[position - WINDOW]
            eligible = self._in_place_of(leaving)
            self._window[leaving] -= 1
        chosen = max(eligible, key=self._behind)
        self._drawn.append(chosen)
        self._total[chosen] += 1
        self._window[chosen] += 1

    def _unfilled(self) -> list[int]:
        return [g for g, count in enumerate(self._window) if count < self._first[g]]

    def _in_place_of(self, leaving: int) -> list[int]:
        """Return the groups that keep every count of the window within one of its share."""
        if self._window[leaving] <= WINDOW * self.shares[leaving]:
            return [leaving]
        short = [g for g, count in enumerate(self._window) if count < WINDOW * self.shares[g]]
        return [leaving, *short]

    def _behind(self, group: int) -> tuple[Fraction, int]:
        """Return how much a group lacks of its share of all that is drawn; ties by its place."""
        wanted = self.shares[group] * (len(self._drawn) + 1)
        return wanted - self._total[group], -group


def whole_counts(shares: Sequence[Fraction], total: int) -> list[int]:
    """Return whole counts that sum to the total, each within one of its share.

    The largest remainders are rounded up.
    """
    wanted = [share * total for share in shares]
    counts = [int(number) for number in wanted]
    rest = total - sum(counts)
    order = sorted(range(len(shares)), key=lambda g: counts[g] - wanted[g])
    for group in order[:rest]:
        counts[group] += 1
    return counts
