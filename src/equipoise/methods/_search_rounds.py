"""Search, solve over what was found, and search where that leads, until the answer over the
candidates is the answer over the whole index.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from equipoise._balance import Balance, Bounds, InfeasibleTargetError, adjusted
from equipoise.errors import InputError
from equipoise.geometry import Float64
from equipoise.methods._candidates import Found, Pool

ROUNDS = 10  # searches for one query at most
WIDER = 8  # times as many candidates where those at hand cannot reach the target


class Wanted(NamedTuple):
    """What one page is held to: ``k`` images of the ``total`` that are left."""

    k: int
    total: int
    strength: float
    nearest: bool


class Solved(NamedTuple):
    """The answer over a pool, and whether it is that over the whole index."""

    answer: Balance
    pool: Pool
    exact: bool

    @property
    def ranked(self) -> Float64:
        """Return what the candidates are ranked by."""
        found = self.pool.all
        return adjusted(found.scores, found.memberships, self.answer.shift)


Search = Callable[[list[int], Float64, int], list[list[Found]]]
"""Called with the numbers of the queries (q,), a lam (q, r) for each and a count, it returns for
each query what one or more searches found, the best by ``s - lam . a`` among them.
"""

Answer = Callable[[Pool, Float64], Balance]
"""Called with a pool and a likely lam, it solves (P) over the pool."""

Rest = Callable[[int, Pool, Balance], Found | None]
"""Called with the number of a query, its pool and an answer, it returns all images outside the pool
that are over the edge of the page; None where too many are in doubt.
"""


def solve_in_rounds(
    search: Search,
    answer: Answer,
    starts: Float64,
    count: int,
    wanted: Wanted,
    bounds: Bounds,
    rounds: int = ROUNDS,
    rest: Rest | None = None,
) -> list[Solved]:
    """Search and solve until nothing outside can change the answer, or for as many rounds.

    starts (q, r): the lam at which each query is searched first. count: of candidates in a search.
    rest: saves another search where few images are in doubt.
    """
    lams = starts.copy()
    pools: dict[int, Pool] = {}
    solved: dict[int, Solved] = {}
    left = list(range(len(lams)))
    for _ in range(rounds):
        count = min(count, wanted.total)
        new = _search_into(pools, search, left, lams, count)
        for i in left:
            reply = _answer_over(pools[i], answer, lams[i], wanted, new[i])
            if reply is None:
                continue
            exact = len(pools[i]) >= wanted.total or pools[i].proves(reply, bounds)
            if not exact and rest is not None:
                reply, exact = _with_the_rest(rest, answer, i, pools[i], reply)
            lams[i] = reply.lam
            solved[i] = Solved(reply, pools[i], exact)
        left = [i for i in left if i not in solved or not solved[i].exact]
        if not left:
            break
        if any(i not in solved for i in left):
            count *= WIDER
    if len(solved) < len(lams):
        raise _too_few(max(map(len, pools.values())), wanted.k)
    return [solved[i] for i in range(len(lams))]


def _answer_over(
    pool: Pool, answer: Answer, lam: Float64, wanted: Wanted, new: int
) -> Balance | None:
    """Return the answer over a pool; None where a wider search may bring what the pool lacks."""
    may_grow = new > 0 and len(pool) < wanted.total
    if len(pool) < wanted.k and new:
        return None
    try:
        return answer(pool, lam)
    except InfeasibleTargetError:
        if may_grow:
            return None
        raise


def _search_into(
    pools: dict[int, Pool], search: Search, left: list[int], lams: Float64, count: int
) -> dict[int, int]:
    """Search once for all queries that are left; return how many new candidates each pool got."""
    new = dict.fromkeys(left, 0)
    for i, searches in zip(left, search(left, lams[left], count), strict=True):
        for found in searches:
            if i in pools:
                new[i] += pools[i].add(found)
            else:
                pools[i] = Pool(found)
                new[i] = len(found.ids)
    return new


def _with_the_rest(
    rest: Rest, answer: Answer, i: int, pool: Pool, reply: Balance
) -> tuple[Balance, bool]:
    """Return the answer over a pool and the images over its edge, and whether it is that over the
    whole index.

    Where no image is over the edge, the answer stays as it is: that is the proof.
    """
    for _ in range(ROUNDS):
        found = rest(i, pool, reply)
        if found is None:
            return reply, False
        if not len(found.ids):
            return reply, True
        pool.join(found)
        reply = answer(pool, reply.lam)
    return reply, False


def _too_few(most: int, k: int) -> InputError:
    advice = "pass more candidates, or a callback that finds them"
    if most < k:
        return InputError(f"k={k} images were asked for, and there are {most} candidates; {advice}")
    return InputError(
        f"the {most} candidates at hand cannot reach the target, and the collection may; {advice}"
    )
