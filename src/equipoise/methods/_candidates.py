"""Candidates: what searches found for a query, and the rounds of searching until the answer over
them is the answer over the whole index.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from equipoise._balance import Balance, Bounds, InfeasibleTargetError, Searched
from equipoise.errors import InputError
from equipoise.geometry import Float64

ROUNDS = 10  # searches for one query at most
WIDER = 8  # times as many candidates where those at hand cannot reach the target


class Found(NamedTuple):
    """What one search found: images, each with its score for t, memberships and group.

    They are the best by ``s - lam . a``, of which the last has ``lowest``.
    """

    ids: np.ndarray
    scores: Float64
    memberships: Float64
    groups: np.ndarray
    lam: Float64
    lowest: float

    def only(self, chosen: np.ndarray) -> Found:
        """Return some of what was found."""
        return self._replace(
            ids=self.ids[chosen],
            scores=self.scores[chosen],
            memberships=self.memberships[chosen],
            groups=self.groups[chosen],
        )

    def joined(self, other: Found) -> Found:
        """Return what either found."""
        return self._replace(
            ids=np.concatenate([self.ids, other.ids]),
            scores=np.concatenate([self.scores, other.scores]),
            memberships=np.concatenate([self.memberships, other.memberships]),
            groups=np.concatenate([self.groups, other.groups]),
        )


class Pool:
    """The candidates of one query, each once, and the searches that found them."""

    def __init__(self, found: Found) -> None:
        self.all = found
        self.searched = [(found.lam, found.lowest)]

    def add(self, found: Found) -> int:
        """Take in the candidates that are new, and return how many they are."""
        new = np.flatnonzero(~np.isin(found.ids, self.all.ids))
        self.all = self.all.joined(found.only(new))
        self.searched.append((found.lam, found.lowest))
        return len(new)

    def __len__(self) -> int:
        return len(self.all.ids)

    def proves(self, answer: Balance, bounds: Bounds) -> bool:
        """Return whether no image outside could change the answer."""
        searched = [
            Searched(lam, lowest + float(lam @ answer.target)) for lam, lowest in self.searched
        ]
        return answer.exact(searched, bounds)


class Solved(NamedTuple):
    """The answer over a pool, and whether it is that over the whole index."""

    answer: Balance
    pool: Pool
    exact: bool


Search = Callable[[list[int], Float64, int], list[Found]]
"""Called with the numbers of the queries (q,), a lam (q, r) for each and a count, it returns the
best by ``s - lam . a``, one ``Found`` for each.
"""


def solve_in_rounds(
    search: Search,
    answer: Callable[[Pool, Float64], Balance],
    starts: Float64,
    count: int,
    total: int,
    bounds: Bounds,
    rounds: int = ROUNDS,
) -> list[Solved]:
    """Search, solve over what was found, and search where that leads, until nothing outside can
    change the answer, or for as many rounds.

    starts (q, s, r): the s lams at which each query is searched first, the likeliest last. count:
    of candidates in a search. total: of images in the index.
    """
    lams = starts[:, -1].copy()
    pools: dict[int, Pool] = {}
    solved: dict[int, Solved] = {}
    left = list(range(len(lams)))
    for _ in range(rounds):
        count = min(count, total)
        new = _search_into(pools, search, left, starts, count)
        for i in left:
            whole = len(pools[i]) >= total
            try:
                reply = answer(pools[i], lams[i])
            except InfeasibleTargetError:
                if whole or not new[i]:
                    raise
                continue
            lams[i] = reply.lam
            solved[i] = Solved(reply, pools[i], whole or pools[i].proves(reply, bounds))
        left = [i for i in left if i not in solved or not solved[i].exact]
        if not left:
            break
        if any(i not in solved for i in left):
            count *= WIDER
        starts = lams[:, None]
    if len(solved) < len(lams):
        most = max(map(len, pools.values()))
        raise InputError(
            f"the {most} candidates at hand cannot reach the target, and the collection may; pass"
            " more candidates, or a callback that finds them"
        )
    return [solved[i] for i in range(len(lams))]


def _search_into(
    pools: dict[int, Pool], search: Search, left: list[int], starts: Float64, count: int
) -> dict[int, int]:
    """Search once for all queries that are left; return how many new candidates each pool got."""
    asked = np.repeat(left, starts.shape[1]).tolist()
    lams = starts[left].reshape(len(asked), -1)
    new = dict.fromkeys(left, 0)
    for i, found in zip(asked, search(asked, lams, count), strict=True):
        if i in pools:
            new[i] += pools[i].add(found)
        else:
            pools[i] = Pool(found)
            new[i] = len(found.ids)
    return new


def read(given: Any, dim: int) -> tuple[np.ndarray, Float64, bool]:
    """Return ids (c,), and vectors (c, d) or scores (c,), of candidates; True for vectors."""
    ids, values = given if isinstance(given, tuple) else (None, given)
    values = np.asarray(values, np.float64)
    ids = np.arange(len(values)) if ids is None else np.asarray(ids)
    if ids.ndim != 1 or len(ids) != len(values) or values.ndim not in (1, 2) or not len(ids):
        raise InputError(
            f"candidates have ids of shape {ids.shape} and values of shape {values.shape}; pass"
            " (ids, vectors), (ids, scores) or vectors (c, d)"
        )
    unique = len(np.unique(ids))
    if unique < len(ids):
        raise InputError(
            f"{len(ids) - unique} of {len(ids)} candidates have the id of another; pass each once"
        )
    wrong = ~np.isfinite(values.reshape(len(values), -1)).all(axis=1)
    if wrong.any():
        raise InputError(
            f"{wrong.sum()} candidates hold NaN or infinity (first: {ids[wrong][0]!r}); leave them"
            " out"
        )
    vectors = values.ndim == 2
    if vectors and (values.shape[1] != dim or not (values != 0).any(axis=1).all()):
        raise InputError(
            f"the candidates' vectors have shape {values.shape}; pass rows of width {dim}, none of"
            " them zero"
        )
    return ids, values, vectors
