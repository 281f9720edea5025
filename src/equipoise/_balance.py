"""The balanced page: the k images of the largest total score whose mean membership is a target.

Image i has the score ``s_i`` and the membership ``a_i`` in R^r. Wanted are weights w that solve

    max  sum w_i s_i    subject to  0 <= w_i <= 1,  sum w_i = k,  sum w_i (a_i - m) = 0        (P)

and linear programming's duality turns the question into one about r numbers:

    min over lam  of  Phi(lam) = the sum of the k largest of  s_i - lam . (a_i - m)            (D)

Both have the same value. At the minimiser lam* the first k by ``s_i - lam* . a_i`` solve (P), but
for at most r + 1 images that are tied at the edge of the page, which (P) takes in fractions. For
any k images S whatever, ``sum_S s_i <= Phi(lam*) + lam* . sum_S (a_i - m)``: no page that is as
balanced has a larger total score. No I/O, no framework.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from equipoise.errors import InputError
from equipoise.geometry import Float64

Index = NDArray[np.int64]

ROUNDING = 1e-12
"""A page whose mean membership is this close to the target, as a share of the largest distance, has
reached it.
"""

WHOLE = 1e-6
"""The same where the page is the whole collection, whose mean may be that of float32 numbers."""

SAMPLE = 10_000
"""Images that a first guess is made from. The answer does not depend on it."""

TIGHT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
"""Of the linear programme: the smallest that HiGHS takes."""

STEPS = 80
"""Of Newton's method at most, before the linear programme; ten to twenty are usual."""


class InfeasibleTargetError(InputError):
    """No k images have the target as their mean membership.

    ``nearest``: the mean membership (r,) that some have, and that is closest to it.
    """

    def __init__(self, message: str, nearest: Float64):
        super().__init__(message)
        self.nearest = nearest


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

    lam (r,): the minimiser of Phi. target (r,): the mean membership that was asked for. page (k,):
    the first k images by adjusted score, best first; ``mean`` (r,) is their mean membership.
    bound: Phi(lam), the largest total score of k images of that mean membership. gap: how far Phi
    is above the value of (P), which is zero but for rounding. edge: the k-th adjusted score,
    ``s - lam . (a - m)``. score and plain_score: the total scores of this page, and of the first k
    before.
    """

    lam: Float64
    target: Float64
    page: Index
    mean: Float64
    bound: float
    gap: float
    edge: float
    score: float
    plain_score: float

    @property
    def kept(self) -> float:
        """The score of the page as a share of that of the undebiased page."""
        return _ratio(self.score, self.plain_score)

    @property
    def kept_of_bound(self) -> float:
        """The score of the page as a share of the largest that a balanced page can have.

        It may be above 1 by what the tied images at the edge differ, since the page takes them
        whole.
        """
        return _ratio(self.score, self.bound)

    def exact(self, searched: Sequence[Searched], bounds: Bounds) -> bool:
        """Return whether no image outside the candidates of these searches could change the answer,
        if all memberships are inside ``bounds``.

        An image outside has at most ``highest`` at the search's own lam, and at most what ``gain``
        says more at this one.
        """
        return any(
            one.highest + bounds.gain(self.lam - one.lam, self.target) <= self.edge
            for one in searched
        )


# --- Scores, pages, and Phi
# --------------------------------------------------------------------------------------------


def adjusted(scores: Float64, memberships: Float64, lam: Float64) -> Float64:
    """Return the scores (n,) that the balanced ranking goes by: ``s_i - lam . a_i``."""
    return scores - memberships @ lam


def first(scores: Float64, k: int) -> Index:
    """Return the places (k,) of the largest scores, best first; of equal ones, the lower place."""
    chosen = _first_unordered(scores, k)
    return chosen[np.lexsort((chosen, -scores[chosen]))]


def _first_unordered(scores: Float64, k: int) -> Index:
    cut = _edge(scores, k)
    above = np.flatnonzero(scores > cut)
    tied = np.flatnonzero(scores == cut)[: k - len(above)]
    return np.concatenate([above, tied])


def dual(scores: Float64, memberships: Float64, target: Float64, k: int, lam: Float64) -> float:
    """Return Phi(lam), an upper bound of every page of that mean membership, whatever lam is."""
    lifted = adjusted(scores, memberships - target, lam)
    return float(lifted[first(lifted, k)].sum())


# --- The programme
# --------------------------------------------------------------------------------------------


def solve(
    scores: Float64,
    memberships: Float64,
    target: Float64,
    k: int,
    *,
    strength: float = 1.0,
    nearest: bool = False,
    bounds: Bounds | None = None,
    guess: Float64 | None = None,
) -> Balance:
    """Solve (P) for scores (n,), memberships (n, r) and a target (r,).

    strength: how far the target lies on the way from the mean membership of the undebiased page, at
    0, to ``target``, at 1. The answer is the optimum of (P) for its own target at every strength;
    0 leaves everything as it is. nearest: where no k images reach the target, take the mean
    membership closest to it; without that, it is an ``InfeasibleTargetError``. bounds: of the
    memberships, where they are known. guess (r,): a lam that is likely; it changes the time, not
    the answer.
    """
    scores, memberships, target = checked(scores, memberships, target, k)
    if not 0 <= strength <= 1:
        raise InputError(f"strength={strength!r} is not legal; pass a number from 0 to 1")
    plain = first(scores, k)
    start = memberships[plain].mean(axis=0)
    goal = target if strength == 1 else start + strength * (target - start)
    tolerance = WHOLE if k == len(scores) else ROUNDING
    if strength == 0 or _reached(start - goal, memberships[plain] - goal, tolerance):
        return _answer(scores, memberships, goal, plain, np.zeros(len(goal)), None)
    with _blas().limit(limits=1, user_api="blas"):
        try:
            return _solve_by_candidates(scores, memberships, goal, plain, bounds, guess)
        except InfeasibleTargetError as error:
            if not nearest:
                raise
            return _solve_by_candidates(scores, memberships, error.nearest, plain, bounds, guess)


@cache
def _blas() -> Any:
    """Return what limits the BLAS to one thread: on matrices this small, threads only wait."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def checked(
    scores: Float64, memberships: Float64, target: Float64, k: int
) -> tuple[Float64, Float64, Float64]:
    """Return the three arrays in float64; raise for what is no question of this kind."""
    scores = np.asarray(scores, np.float64)
    memberships = np.asarray(memberships, np.float64)
    if memberships.ndim == 1:
        memberships = memberships[:, None]
    target = np.atleast_1d(np.asarray(target, np.float64))
    if scores.ndim != 1 or memberships.ndim != 2 or len(scores) != len(memberships):
        raise InputError(
            f"scores have shape {scores.shape} and memberships {memberships.shape}; pass (n,) and"
            " (n, r)"
        )
    if target.shape != memberships.shape[1:] or not target.size:
        raise InputError(
            f"the target has shape {target.shape} and memberships are {memberships.shape[1]} wide;"
            " pass one number for each"
        )
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        raise InputError(f"k={k!r} is not legal; pass a whole number from 1")
    if k > len(scores):
        raise InputError(
            f"k={k} images were asked for, and there are {len(scores)}; pass a k of at most that"
        )
    for name, values in (("scores", scores), ("memberships", memberships), ("target", target)):
        if not np.isfinite(values.sum()):
            bad = np.flatnonzero(~np.isfinite(values.reshape(len(values), -1)).all(axis=1))
            raise InputError(
                f"{name} hold NaN or infinity in {bad.size} rows (first: {bad[0]}); leave those"
                " rows out"
            )
    return scores, memberships, target


def _solve_by_candidates(
    scores: Float64,
    memberships: Float64,
    target: Float64,
    plain: Index,
    bounds: Bounds | None,
    guess: Float64 | None,
) -> Balance:
    """Solve (P) over a few images, and add those that beat its edge until there are none.

    Where no image outside the candidates C is above the edge, Phi over all images is Phi over C at
    lam. The optimum over C is then the optimum: (P) over C <= (P) over all <= Phi.
    """
    k = len(plain)
    bounds = bounds or Bounds.of(memberships)
    guess = tilt(scores, memberships) if guess is None else guess
    likely = adjusted(scores, memberships, guess)
    chosen = np.sort(_first_unordered(likely, min(len(scores), few(k, len(target)))))
    while True:
        found = _solve_over(chosen, scores, memberships, target, k, guess)
        if found is None:
            chosen = _wider(chosen, scores, memberships, target, k)
            continue
        lam, value = found
        edge = _edge(adjusted(scores[chosen], memberships[chosen] - target, lam), k)
        possible = np.flatnonzero(scores > edge - bounds.gain(lam, target))
        lifted = adjusted(scores[possible], memberships[possible] - target, lam)
        above = lifted > edge
        missing = np.setdiff1d(possible[above], chosen)
        if not missing.size:
            return _answer(scores, memberships, target, plain, lam, value, chosen)
        chosen = np.union1d(chosen, missing)


def few(k: int, r: int) -> int:
    """Return how many images to begin with: enough for most queries, few enough to be quick."""
    return 4 * k + 100 * (r + 1)


def tilt(scores: Float64, memberships: Float64) -> Float64:
    """Return a first guess of lam (r,): the regression of scores on memberships, over a sample.

    Were scores and memberships normal, it would be lam*. Scores that do not vary with memberships
    have no tail in which a group is more frequent.
    """
    step = 1 + len(scores) // SAMPLE
    sampled = memberships[::step] - memberships[::step].mean(axis=0)
    products = sampled.T @ sampled
    return np.linalg.lstsq(products, sampled.T @ scores[::step], rcond=ROUNDING)[0]


def _edge(lifted: Float64, k: int) -> float:
    return float(np.partition(lifted, len(lifted) - k)[len(lifted) - k])


def _solve_over(
    chosen: Index, scores: Float64, memberships: Float64, target: Float64, k: int, guess: Float64
) -> tuple[Float64, float] | None:
    """Return lam (r,) and the value of (P) over the chosen images; None where there is none."""
    offsets = memberships[chosen] - target
    if offsets.shape[1] == 1:
        return minimise_one(scores[chosen], offsets[:, 0], k, float(guess[0]))
    return minimise_many(scores[chosen], offsets, k, guess)


def _wider(chosen: Index, scores: Float64, memberships: Float64, target: Float64, k: int) -> Index:
    """Return more candidates where the target cannot be reached: the extremes, then all of them."""
    if len(chosen) == len(scores):
        raise _infeasible(memberships, target, k)
    extremes = [chosen]
    for column in memberships.T:
        extremes += [first(column, k), first(-column, k)]
    wider = np.unique(np.concatenate(extremes))
    if len(wider) > len(chosen):
        return wider
    if memberships.shape[1] == 1:  # the k smallest and the k largest decide
        raise _infeasible(memberships, target, k)
    return np.arange(len(scores))


def _answer(
    scores: Float64,
    memberships: Float64,
    target: Float64,
    plain: Index,
    lam: Float64,
    value: float | None,
    among: Index | None = None,
) -> Balance:
    """Return what lam gives; ``among``: the images that can be on its page."""
    k = len(plain)
    page = plain
    if among is not None:
        page = among[first(adjusted(scores[among], memberships[among], lam), k)]
    offsets = memberships[page] - target
    lifted = adjusted(scores[page], offsets, lam)
    bound = float(lifted.sum())
    return Balance(
        lam,
        target,
        page,
        memberships[page].mean(axis=0),
        bound,
        0.0 if value is None else bound - value,
        float(lifted.min()),
        float(scores[page].sum()),
        float(scores[plain].sum()),
    )


def _reached(distance: Float64, offsets: Float64, tolerance: float) -> bool:
    return bool((np.abs(distance) <= tolerance * np.abs(offsets).max(axis=0)).all())


def _ratio(value: float, whole: float) -> float:
    return value / whole if whole else float("nan")


# --- One membership: where two lines meet
# --------------------------------------------------------------------------------------------


class Line(NamedTuple):
    """The total adjusted score of one page as a function of lam: ``score - lam * drift``.

    Phi is the highest of all pages' lines.
    """

    score: float
    drift: float

    @classmethod
    def of(cls, page: Index, scores: Float64, offsets: Float64) -> Line:
        page = np.sort(page)  # the same images always give the same sums
        return cls(float(scores[page].sum()), float(offsets[page].sum()))

    def meets(self, other: Line) -> float:
        return (self.score - other.score) / (self.drift - other.drift)


def minimise_one(
    scores: Float64, offsets: Float64, k: int, guess: float = 0.0
) -> tuple[Float64, float] | None:
    """Return lam (1,) and the value of (P) for one membership, ``offsets`` (n,) = a - m; None where
    the target cannot be reached.

    The drift of the first k falls as lam grows, and Phi is smallest where it changes sign. A guess
    of lam makes the bracket narrow from the start.
    """
    zero = ROUNDING * k * float(np.abs(offsets).max())
    start = Line.of(_first_unordered(scores, k), scores, offsets)
    if abs(start.drift) <= zero:
        return np.zeros(1), start.score
    sign = 1.0 if start.drift > 0 else -1.0  # so that lam is to grow
    offsets = sign * offsets
    start = Line(start.score, sign * start.drift)
    smallest = np.lexsort((-scores, offsets))[:k]  # the first k as lam goes to infinity
    end = Line.of(smallest, scores, offsets)
    if end.drift > zero:
        return None
    left, right = _bracket(scores, offsets, k, start, end, zero, sign * guess)
    low, left, right = _kink(scores, offsets, k, left, right, zero)
    high = low
    if abs(right.drift) <= zero:  # this page has the target itself: Phi is flat as long as it lasts
        high = _last(scores, offsets, k, right, end, -zero)
    share = left.drift / (left.drift - right.drift)
    value = (1 - share) * left.score + share * right.score
    return np.array([sign * (low + high) / 2]), value


def _bracket(
    scores: Float64,
    offsets: Float64,
    k: int,
    left: Line,
    right: Line,
    level: float,
    guess: float,
) -> tuple[Line, Line]:
    """Return two lines on either side of the minimum: those of pages near a guess, if they are."""
    for lam in (guess, 0.9 * guess, 1.1 * guess):
        if lam <= 0:
            break
        page = _first_unordered(scores - lam * offsets, k)
        middle = Line.of(page, scores, offsets)
        if not right.drift < middle.drift < left.drift:
            continue
        if middle.drift > level:
            left = middle
        else:
            right = middle
    return left, right


def _kink(
    scores: Float64, offsets: Float64, k: int, left: Line, right: Line, level: float
) -> tuple[float, Line, Line]:
    """Return the lam at which the drift of the first k falls to ``level``, and the lines that meet.

    Two lines bracket it. Where they meet, either no page is better, and this is the place, or a
    page is, and its line takes the place of one of them. Its drift lies strictly between theirs, so
    that no page comes twice and the search ends without a tolerance.
    """
    while True:
        lam = left.meets(right)
        page = _first_unordered(scores - lam * offsets, k)
        middle = Line.of(page, scores, offsets)
        if not right.drift < middle.drift < left.drift:
            return lam, left, right
        if middle.drift > level:
            left = middle
        else:
            right = middle


def _last(scores: Float64, offsets: Float64, k: int, flat: Line, end: Line, level: float) -> float:
    """Return the lam up to which a page of no drift stays the first k."""
    if end.drift < level:
        return _kink(scores, offsets, k, flat, end, level)[0]
    # It stays for ever: a little beyond where it begins, so that nothing is tied.
    begin = _kink(
        scores, offsets, k, Line.of(_first_unordered(scores, k), scores, offsets), flat, -level
    )[0]
    return begin + max(begin, float(np.ptp(scores)))


# --- Several memberships: a linear programme
# --------------------------------------------------------------------------------------------


def minimise_many(
    scores: Float64, offsets: Float64, k: int, guess: Float64 | None = None
) -> tuple[Float64, float] | None:
    """Return lam (r,) and the value of (P) for memberships ``offsets`` (n, r) = a - m; None where
    the target cannot be reached.

    With the edge of the page tau, Phi(lam) is the least of ``k tau + sum max(0, s_i - lam . (a_i -
    m) - tau)``. A smooth neighbour of that tells which images are sure to be on the page and which
    are sure not to be. A linear programme over the few others gives lam and tau exactly, and an
    image that it proves wrong joins them.
    """
    scale = np.abs(offsets).max(axis=0)
    scale[scale == 0] = 1
    rows = np.column_stack([np.ones(len(scores)), offsets / scale])
    start = np.zeros(rows.shape[1])
    if guess is not None:
        start[1:] = guess * scale
    margins = scores - rows @ _smooth_minimum(scores, rows, k, start)
    nearest = np.argsort(np.abs(margins), kind="stable")
    unsure = np.zeros(len(scores), bool)
    unsure[nearest[: 4 * rows.shape[1]]] = True
    while True:
        on_page = ~unsure & (margins > 0)
        found = _small_programme(scores, rows, k, on_page, unsure)
        if found is None and unsure.all():
            return None
        if found is None:
            unsure[nearest[: 4 * int(unsure.sum())]] = True
            continue
        edge_and_lam, value = found
        exact = scores - rows @ edge_and_lam
        wrong = np.where(on_page, exact < 0, exact > 0) & ~unsure
        if not wrong.any():
            return edge_and_lam[1:] / scale, value
        unsure |= wrong


def _small_programme(
    scores: Float64, rows: Float64, k: int, on_page: NDArray[np.bool_], unsure: NDArray[np.bool_]
) -> tuple[Float64, float] | None:
    """Solve (P) over the unsure images, beside those that are on the page for certain.

    Returns (tau, lam), which are the marginals of its equality rows: what one more image, or a
    little more of a membership, would bring; and the value of (P). None where it has no solution.
    """
    from scipy.optimize import linprog

    wanted = np.zeros(rows.shape[1])
    wanted[0] = k
    left = wanted - rows[on_page].sum(axis=0)
    found = linprog(
        -scores[unsure],
        A_eq=rows[unsure].T,
        b_eq=left,
        bounds=(0, 1),
        method="highs",
        options=TIGHT,
    )
    if found.status == 2:  # infeasible
        return None
    if found.status != 0:
        raise InputError(f"the linear programme was not solved ({found.message}); merge groups")
    return -found.eqlin.marginals, float(scores[on_page].sum() - found.fun)


def _smooth_minimum(scores: Float64, rows: Float64, k: int, start: Float64) -> Float64:
    """Return a (tau, lam) near the minimum, by Newton's method on ``k tau + h sum log(1 + exp((s -
    lam . (a - m) - tau) / h))``, whose limit for a small width h is Phi.

    The width shrinks until about as many images are unsure as (P) takes in fractions. Where the
    target cannot be reached there is no minimum, and the last point is as good as another.
    """
    size = rows.shape[1]
    lifted = scores - rows @ start
    at = start.copy()
    at[0] = _edge(lifted, k)
    width = float(lifted.std()) or 1.0
    far = 1e6 * (width + abs(at[0]))
    for _ in range(STEPS):
        margins = (scores - rows @ at) / width
        weights = (1 + np.tanh(margins / 2)) / 2
        doubt = weights * (1 - weights)
        gradient = -(rows.T @ weights)
        gradient[0] += k
        if np.abs(gradient).max() < 0.25:  # of an image: near enough, so look more sharply
            if doubt.sum() <= size:
                break
            width /= 4
            continue
        hessian = (rows.T * doubt) @ rows / width
        ridge = 1e-9 * k / width  # where no image is unsure
        step = np.asarray(np.linalg.solve(hessian + ridge * np.eye(size), -gradient), np.float64)
        at = _go_down(scores, rows, k, width, at, step, float(gradient @ step))
        if np.abs(at).max() > far:
            break
    return at


def _go_down(
    scores: Float64, rows: Float64, k: int, width: float, at: Float64, step: Float64, slope: float
) -> Float64:
    """Return the point of a step that lies lower; the step is halved until it does."""

    def height(point: Float64) -> float:
        margins = (scores - rows @ point) / width
        return float(k * point[0] + width * np.logaddexp(0, margins).sum())

    here = height(at)
    size = 1.0
    while size > 1e-4 and height(at + size * step) > here + 1e-4 * size * slope:
        size /= 2
    return at + size * step


def _infeasible(memberships: Float64, target: Float64, k: int) -> InfeasibleTargetError:
    nearest = nearest_mean(memberships, target, k)
    wanted, found = (np.array2string(part, precision=4) for part in (target, nearest))
    return InfeasibleTargetError(
        f"no {k} of the {len(memberships)} images have the mean membership {wanted}; the nearest"
        f" that some have is {found}. Pass nearest=True to take it, a smaller k or another target",
        nearest,
    )


def nearest_mean(memberships: Float64, target: Float64, k: int) -> Float64:
    """Return the mean membership (r,) of k images (in fractions) that is nearest to a target: of
    the least total distance, each coordinate measured by its range.
    """
    from scipy.optimize import linprog

    n, r = memberships.shape
    scale = np.ptp(memberships, axis=0)
    scale[scale == 0] = 1
    more = np.eye(r)
    rows = np.zeros((r + 1, n + 2 * r))
    rows[0, :n] = 1
    rows[1:, :n] = ((memberships - target) / scale).T
    rows[1:, n : n + r] = more
    rows[1:, n + r :] = -more
    sums = np.zeros(r + 1)
    sums[0] = k
    cost = np.concatenate([np.zeros(n), np.ones(2 * r)])
    limits = [(0, 1)] * n + [(0, None)] * (2 * r)
    found = linprog(cost, A_eq=rows, b_eq=sums, bounds=limits, method="highs")
    return memberships.T @ found.x[:n] / k
