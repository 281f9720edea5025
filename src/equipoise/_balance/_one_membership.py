"""One membership: Phi is smallest where two lines meet."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from equipoise._balance._pages import ROUNDING, Index, Minimum, first_unordered, kth_largest
from equipoise.geometry import Float64

APART = 1e-6
"""Of the largest score: how far apart two tied images are taken, so that float32 tells which one is
on the page."""

FEW = 64
"""Images that are as quick to look at as fewer are."""


class Line(NamedTuple):
    """The total adjusted score of one page as a function of lam: ``score - lam * drift``.

    Phi is the highest of all pages' lines.
    """

    score: float
    drift: float

    def meets(self, other: Line) -> float:
        return (self.score - other.score) / (self.drift - other.drift)


class Pages(NamedTuple):
    """The first k of some images, as lam grows. ``sure``: the sums of images that are on every page
    and need no more looking at.
    """

    scores: Float64
    offsets: Float64
    k: int
    sure: Line = Line(0.0, 0.0)

    def at(self, lam: float) -> Line:
        """Return the line of the page at lam."""
        if self.k == 0:
            return self.sure
        return self._line(first_unordered(self.scores - lam * self.offsets, self.k))

    def last(self) -> Line:
        """Return the line of the page as lam goes to infinity."""
        return self._line(np.lexsort((-self.scores, self.offsets))[: self.k])

    def _line(self, page: Index) -> Line:
        page = np.sort(page)  # the same images always give the same sums
        score, drift = float(self.scores[page].sum()), float(self.offsets[page].sum())
        return Line(self.sure.score + score, self.sure.drift + drift)

    def between(self, low: float, high: float) -> Pages:
        """Return the same pages for lam from low to high alone, with fewer images to look at.

        An adjusted score is linear in lam, so that it lies between those at the two ends. So does
        the k-th largest, between the k-th largest of all lower and of all upper ends.
        """
        at_low = self.scores - low * self.offsets
        at_high = self.scores - high * self.offsets
        least, most = np.minimum(at_low, at_high), np.maximum(at_low, at_high)
        on_page = least > kth_largest(most, self.k)
        unsure = ~on_page & (most >= kth_largest(least, self.k))
        left = self.k - int(on_page.sum())
        sure = self._line(np.flatnonzero(on_page))
        return Pages(self.scores[unsure], self.offsets[unsure], left, sure)


def minimise_one(scores: Float64, offsets: Float64, k: int, guess: float = 0.0) -> Minimum | None:
    """Return the minimum for one membership, ``offsets`` (n,) = a - m; None where the target cannot
    be reached.

    The drift of the first k falls as lam grows, and Phi is smallest where it changes sign. Two
    pages meet there, and both are optimal. The shift goes on to where the one with the smaller
    drift is alone, so that rounding does not choose between the two. A guess of lam makes the
    bracket narrow from the start.
    """
    zero = ROUNDING * k * float(np.abs(offsets).max())
    start = Pages(scores, offsets, k).at(0.0)
    if abs(start.drift) <= zero:
        return Minimum(np.zeros(1), np.zeros(1), start.score)
    sign = 1.0 if start.drift > 0 else -1.0  # so that lam is to grow
    pages = Pages(scores, sign * offsets, k)
    low, high = _bracket(pages, zero, sign * guess)
    if np.isinf(high):
        left, right = pages.at(low), pages.last()
        if right.drift > zero:
            return None
    else:
        pages, low, high = _narrowed(pages, low, high, zero)
        left, right = pages.at(low), pages.at(high)
    lam, left, right, inside = _meeting(pages, low, left, high, right, zero)
    apart = APART * float(np.abs(scores).max()) / (left.drift - right.drift)
    shift = lam + float(np.clip(inside - lam, -apart, apart))
    if abs(right.drift) <= zero:  # this page has the target itself: Phi is flat as long as it lasts
        lam = shift
    share = left.drift / (left.drift - right.drift)
    value = (1 - share) * left.score + share * right.score
    return Minimum(np.array([sign * lam]), np.array([sign * shift]), value)


def _bracket(pages: Pages, level: float, guess: float) -> tuple[float, float]:
    """Return a lam on either side of the minimum, near a guess if they are; infinity where none
    was found above it.
    """
    low, high = 0.0, np.inf
    for lam in (guess, 0.9 * guess, 1.1 * guess):
        if not low < lam < high:
            continue
        if pages.at(lam).drift > level:
            low = lam
        else:
            high = lam
    return low, high


def _narrowed(pages: Pages, low: float, high: float, level: float) -> tuple[Pages, float, float]:
    """Return a bracket of the minimum inside this one, and the few images that change places in it.

    The bracket is cut where the lines at its ends meet.
    """
    before = np.inf
    while len(pages.scores) > FEW and len(pages.scores) < before / 2:
        before = len(pages.scores)
        pages = pages.between(low, high)
        lam = pages.at(low).meets(pages.at(high))
        if not low < lam < high:
            break
        if pages.at(lam).drift > level:
            low = lam
        else:
            high = lam
    return pages, low, high


def _meeting(
    pages: Pages, low: float, begin: Line, high: float, end: Line, zero: float
) -> tuple[float, Line, Line, float]:
    """Return the lam at which the drift comes to zero, the two lines that meet, and a lam at which
    the nearer of their pages is alone.

    begin, end: the lines at low and high, which are on either side.
    """
    lam, left, right = _kink(pages, begin, end, zero)
    if abs(right.drift) > left.drift:
        beside = low
        if left.drift < begin.drift:
            beside = _kink(pages, begin, left, left.drift)[0]
    elif end.drift < right.drift:
        beside = _kink(pages, right, end, float(np.nextafter(right.drift, -np.inf)))[0]
    else:  # it stays to the end, or for ever
        beside = min(high, lam + 2 * max(lam, float(np.ptp(pages.scores))))
    return lam, left, right, (lam + beside) / 2


def _kink(pages: Pages, left: Line, right: Line, level: float) -> tuple[float, Line, Line]:
    """Return the lam at which the drift of the first k falls to ``level``, and the lines that meet.

    Two lines bracket it. Where they meet, either no page is better, and this is the place, or a
    page is, and its line takes the place of one of them. Its drift lies strictly between theirs, so
    that no page comes twice and the search ends without a tolerance.
    """
    while True:
        lam = left.meets(right)
        middle = pages.at(lam)
        if not right.drift < middle.drift < left.drift:
            return lam, left, right
        if middle.drift > level:
            left = middle
        else:
            right = middle
