"""``RecentPages``: the solved pages of the texts that were asked for last.

A measurement asks an operator several times for the same texts: to rank, to compare, to certify.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np

from equipoise.geometry import Float64
from equipoise.methods._search_rounds import Solved

KEPT = 2  # lists of texts
LIMIT = 1 << 27  # bytes of candidates that one list of texts may hold


class RecentPages:
    """The pages of the last lists of texts, all on one index.

    A list is solved together, so it is kept and asked for as a whole.
    """

    def __init__(self) -> None:
        self._kept: deque[tuple[Float64, list[Solved]]] = deque(maxlen=KEPT)

    def of(self, texts: Float64, solve: Callable[[], list[Solved]]) -> list[Solved]:
        """Return the pages of these texts (n, d): those that are kept, or else what solving gives.

        Pages whose candidates take more memory than ``LIMIT`` are not kept.
        """
        for known, pages in self._kept:
            if np.array_equal(known, texts):
                return pages
        solved = solve()
        if sum(map(_bytes, solved)) <= LIMIT:
            self._kept.append((texts.copy(), solved))
        return solved


def _bytes(solved: Solved) -> int:
    found = solved.pool.all
    arrays = found.ids, found.scores, found.memberships, found.groups
    return sum(array.nbytes for array in arrays)
