"""``PageSolver``: balanced pages of an index that can be searched here, or of what a database
finds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from equipoise import _balance as balance
from equipoise import geometry
from equipoise._balance import Balance, Bounds, InfeasibleTargetError
from equipoise.errors import InputError
from equipoise.geometry import Float64, limits
from equipoise.methods._candidates import Found, Pool, read
from equipoise.methods._memberships import Memberships, Moments, closest
from equipoise.methods._recent_pages import RecentPages
from equipoise.methods._search_rounds import (
    ROUNDS,
    WIDER,
    Rest,
    Search,
    Solved,
    Wanted,
    solve_in_rounds,
)
from equipoise.methods._served_index import Served

More = Callable[[np.ndarray, int], Any]
"""Called with a query (d,) and a number, it returns the best of that query in a database."""

DOUBT = 0.02
"""Of the index: where more images are in doubt, a search is quicker than to score each of them."""


@dataclass(frozen=True, eq=False)
class PageSolver:
    """Finds the page of k images whose mean membership is ``target`` (r,), for any query.

    groups: their names, for errors. bounds: of the memberships of the collection, seen or not.
    served: the index to search; without one, candidates must be given. recent: keeps pages of that
    index for who asks for the same texts again.
    """

    groups: tuple[str, ...]
    moments: Moments
    memberships: Memberships
    target: Float64
    bounds: Bounds
    k: int
    strength: float
    nearest: bool
    served: Served | None = None
    recent: RecentPages | None = None

    @property
    def linear(self) -> bool:
        """Return whether one shifted query ranks by adjusted scores."""
        return self.memberships.weights is not None

    @property
    def _weights(self) -> Float64:
        if self.memberships.weights is None:
            raise InputError("a re-ranking has no shifted query; use op.scores or op.balance")
        return self.memberships.weights

    def require_served(self) -> Served:
        """Return the index; raise where there is none."""
        if self.served is None:
            raise InputError(
                "this balanced operator holds no index, and a page is balanced on the index that is"
                " served; pass it with op.bind(index=rows), or pass what a database found to"
                " op.balance"
            )
        return self.served

    def query(self, text: Float64, shift: Float64, row: Float64) -> Float64:
        """Return the unit query that ranks by adjusted scores; ``row`` where nothing is shifted."""
        if not shift.any() and abs(row @ row - 1) <= limits("float32").unit:
            return row
        moved = text - self._weights @ shift
        if np.linalg.norm(moved) <= geometry.IDENTICAL:  # nothing but membership
            return text
        return geometry.unit(moved)

    # --- Pages of the index

    def on_index(self, texts: Float64, shown: np.ndarray | None = None) -> Iterator[Solved]:
        """Solve (P) on the index for each text, without the images (n, shown) that it has shown."""
        served = self.require_served()
        if shown is None:
            shown = np.empty((len(texts), 0), np.int64)
        if self.linear and self.recent is not None and not shown.size:
            return iter(self.recent.of(texts, lambda: self._by_search(texts, shown, served)))
        if self.linear:
            return iter(self._by_search(texts, shown, served))
        pairs = zip(texts, shown, strict=True)  # one at a time: each holds all scores
        return (self._by_all_scores(text, seen, served) for text, seen in pairs)

    def _by_all_scores(self, text: Float64, shown: np.ndarray, served: Served) -> Solved:
        """Solve a re-ranking, whose memberships are no query: over the scores of all images."""
        wanted = self._wanted(len(shown))
        free = served.groups >= 0
        free[shown] = False
        there = np.flatnonzero(free)
        scores = served.scores(text)[there]
        nothing = np.zeros(len(self.target))
        pool = Pool(_found(served, there, scores, nothing, float(scores.min())))
        return Solved(self._answer(pool, nothing, wanted), pool, True)

    def _by_search(self, texts: Float64, shown: np.ndarray, served: Served) -> list[Solved]:
        """Solve by searches of the index.

        ``t - W lam`` has the same balanced page as t, whatever lam is: (P) holds the mean
        membership, so that all its pages lose the same. So the first search is already at a lam
        that is likely. The plain page comes out of the same product of texts and images.
        """
        wanted = self._wanted(shown.shape[1])

        def search(left: list[int], lams: Float64, count: int) -> list[list[Found]]:
            counts = min(wanted.k, count) + shown.shape[1], count + shown.shape[1]
            if counts[1] >= served.count:  # all: rows of zeros have places among them
                counts = counts[0], len(served.groups)
            rankings = served.search_adjusted(texts[left], lams[None], self._weights, counts)
            asked = np.zeros_like(lams), lams
            found = [[] for _ in left]
            for (places, values), at in zip(rankings, asked, strict=True):
                for i, searches in enumerate(found):
                    one = _searched(served, places[i], values[i], at[i])
                    searches.append(one.without(shown[left[i]]))
            return found

        def rest(i: int, pool: Pool, answer: Balance) -> Found | None:
            found = _in_doubt(served, texts[i], pool, answer)
            return None if found is None else found.without(shown[i])

        return self._in_rounds(search, texts @ self._regression.T, wanted, ROUNDS, rest)

    @cached_property
    def _regression(self) -> Float64:
        """Return the map (r, d) from a text to a first guess of lam: the regression of its scores
        on memberships, from the images' covariance.
        """
        together = self._weights.T @ self.moments.covariance
        found = np.linalg.lstsq(together @ self._weights, together, rcond=None)[0]
        return np.asarray(found, np.float64)

    # --- Pages of what a database found

    def of_candidates(
        self, text: Float64, candidates: Any, more: More | None, shown: np.ndarray, as_it_is: bool
    ) -> Solved:
        """Solve (P) over candidates, and over what ``more`` finds, without what was shown.

        as_it_is: the page by the plain scores.
        """
        wanted = self._wanted(len(shown))
        if as_it_is:
            wanted = wanted._replace(strength=0.0)
        search = self._candidate_search(text, candidates, more, shown)
        rounds = 1 if more is None else ROUNDS
        nothing = np.zeros((1, len(self.target)))
        return self._in_rounds(search, nothing, wanted, rounds)[0]

    def _candidate_search(
        self, text: Float64, candidates: Any, more: More | None, shown: np.ndarray
    ) -> Search:
        """Return a search whose first answer are the candidates, and the others what ``more``
        gives.
        """
        asked = 0

        def search(left: list[int], lams: Float64, count: int) -> list[list[Found]]:
            nonlocal asked
            lam = lams[0]
            asked += 1
            if asked == 1 or more is None:
                return [[self._read(text, candidates, np.zeros_like(lam)).without(shown)]]
            if not self.linear:  # no query ranks by adjusted scores: more of the same one
                lam = np.zeros_like(lam)
                count = min(count * WIDER ** (asked - 1), self._total)
            query = self.query(text, lam, text) if self.linear else text
            return [[self._read(text, more(query, count + len(shown)), lam).without(shown)]]

        return search

    def _read(self, text: Float64, given: Any, lam: Float64) -> Found:
        """Read candidates, which are the best of ``t - W lam``."""
        ids, values, vectors = read(given, self.memberships.prototypes.shape[1])
        if vectors:
            rows = geometry.unit(values)
            memberships = self.memberships(rows)
            groups = closest(rows, self.memberships.prototypes)
            scores = rows @ text
        else:
            memberships, groups = self._of_places(ids)
            scores = values
            if lam.any():  # they are scores of the shifted query, which has unit length
                length = np.linalg.norm(text - self._weights @ lam)
                scores = scores * length + memberships @ lam
        lowest = float((scores - memberships @ lam).min())
        return Found(ids, scores, memberships, groups, lam, lowest)

    def _of_places(self, ids: np.ndarray) -> tuple[Float64, np.ndarray]:
        """Return the memberships and groups of images of the index."""
        if self.served is None:
            raise InputError(
                "candidates have ids and scores, and without vectors their memberships are not"
                " known; pass (ids, vectors), or bind the index that the ids are places in"
            )
        count = len(self.served.groups)
        if ids.dtype.kind not in "iu" or ids.min() < 0 or ids.max() >= count:
            raise InputError(
                f"ids must be places in the bound index, from 0 to {count - 1}; pass (ids, vectors)"
                " for ids of another kind"
            )
        groups = self.served.groups[ids]
        if (groups < 0).any():
            lost = ids[groups < 0]
            raise InputError(
                f"{len(lost)} candidates have no direction in the index (first: {lost[0]}); leave"
                " them out"
            )
        return self.served.memberships[ids].astype(np.float64), groups

    # --- One page

    @property
    def _total(self) -> int:
        """Return how many images the collection has."""
        return self.moments.count if self.served is None else self.served.count

    def _wanted(self, shown: int) -> Wanted:
        """Return what the page after that many images is held to.

        A page of all that is left is as it is. Later pages take the nearest shares where what is
        left no longer reaches the target: an error would lose the rest of the results.
        """
        left = self._total - shown
        if left <= self.k and shown:
            return Wanted(left, left, strength=0.0, nearest=True)
        return Wanted(self.k, left, self.strength, self.nearest or shown > 0)

    def _in_rounds(
        self, search: Search, starts: Float64, wanted: Wanted, rounds: int, rest: Rest | None = None
    ) -> list[Solved]:
        count = balance.few(wanted.k, len(self.target))
        bounds = self.bounds if self.served is None else self.served.bounds

        def answer(pool: Pool, guess: Float64) -> Balance:
            return self._answer(pool, guess, wanted)

        return solve_in_rounds(search, answer, starts, count, wanted, bounds, rounds, rest)

    def _answer(self, pool: Pool, guess: Float64, wanted: Wanted) -> Balance:
        """Solve (P) over the candidates; over all images, a target may be out of reach."""
        whole = len(pool) >= wanted.total
        try:
            return balance.solve(
                pool.all.scores,
                pool.all.memberships,
                self.target,
                wanted.k,
                strength=wanted.strength,
                nearest=whole and wanted.nearest,
                guess=guess if guess.any() else None,
            )
        except InfeasibleTargetError as error:
            raise self._out_of_reach(error) if whole else error from None

    def _out_of_reach(self, error: InfeasibleTargetError) -> InfeasibleTargetError:
        nearest = self.memberships.shares(error.nearest)
        named = zip(self.groups, nearest, strict=True)
        shares = ", ".join(f"{group} {share:.1%}" for group, share in named)
        return InfeasibleTargetError(
            f"no {self.k} images of the index reach the target; the nearest shares that some reach"
            f" are {shares}. Pass nearest=True to take them, a smaller k or another target",
            error.nearest,
        )


def _found(
    served: Served, places: np.ndarray, scores: Float64, lam: Float64, lowest: float
) -> Found:
    """Return images of the index as candidates."""
    memberships = served.memberships[places].astype(np.float64)
    return Found(places, scores, memberships, served.groups[places], lam, lowest)


def _searched(served: Served, places: np.ndarray, values: np.ndarray, lam: Float64) -> Found:
    """Return what a search of the index found, whose values are ``s - lam . a``."""
    lowest = float(values[-1])
    known = served.groups[places] >= 0  # a row of zeros has a score, and no membership
    found = _found(served, places[known], values[known], lam, lowest)
    return found._replace(scores=found.scores + found.memberships @ lam)


def _in_doubt(served: Served, text: Float64, pool: Pool, answer: Balance) -> Found | None:
    """Return the images outside a pool that are over the edge of the page; None where too many of
    them may be, or the index gives no single rows.

    A search at its own lam left out what scored at most ``lowest`` there. So such an image needs
    ``lowest - (lam* - lam) . a`` above the edge, for each of the searches. Few are in doubt then,
    and those are scored.
    """
    edge = answer.edge - float(answer.lam @ answer.target)
    places = None
    for lam, lowest in reversed(pool.searched):
        places = served.lifted(answer.lam - lam, edge - lowest, places)
    assert places is not None
    places = places[served.groups[places] >= 0]
    places = places[~np.isin(places, pool.all.ids)]
    if len(places) > DOUBT * len(served.groups):
        return None
    memberships = served.memberships[places].astype(np.float64)
    above = served.scores_above(places, text, edge + memberships @ answer.lam)
    if above is None:
        return None
    lam, lowest = pool.searched[-1]
    return _found(served, *above, lam, lowest)
