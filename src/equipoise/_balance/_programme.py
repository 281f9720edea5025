"""``solve``: the programme over any number of images, by the few that can be on the page."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from equipoise._balance._one_membership import minimise_one
from equipoise._balance._out_of_reach import InfeasibleTargetError, infeasible
from equipoise._balance._pages import (
    ROUNDING,
    Index,
    Minimum,
    adjusted,
    first,
    first_unordered,
    kth_largest,
)
from equipoise._balance._several_memberships import minimise_many
from equipoise._balance._solutions import Balance, Bounds
from equipoise.errors import InputError
from equipoise.geometry import Float64

WHOLE = 1e-6
"""The same where the page is the whole collection, whose mean may be that of float32 numbers."""

SAMPLE = 10_000
"""Images that a first guess is made from. The answer does not depend on it."""


def dual(scores: Float64, memberships: Float64, target: Float64, k: int, lam: Float64) -> float:
    """Return Phi(lam), an upper bound of every page of that mean membership, whatever lam is."""
    lifted = adjusted(scores, memberships - target, lam)
    return float(lifted[first(lifted, k)].sum())


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
        nothing = np.zeros(len(goal))
        unmoved = Minimum(nothing, nothing, float(scores[plain].sum()))
        found = _answer(scores, memberships, goal, plain, unmoved)
        return replace(found, strength=strength)
    try:
        found = _solve_by_candidates(scores, memberships, goal, plain, bounds, guess)
        return replace(found, strength=strength)
    except InfeasibleTargetError as error:
        if not nearest:
            raise
        near = error.nearest
    found = _solve_by_candidates(scores, memberships, near, plain, bounds, guess)
    return replace(found, strength=strength, nearest=True)


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
    guess = tilt(scores, memberships) if guess is None else guess
    count = few(k, len(target))
    if len(scores) <= 2 * count:
        return _solve_over_all(scores, memberships, target, plain, guess)
    bounds = bounds or Bounds.of(memberships)
    likely = adjusted(scores, memberships, guess)
    chosen = np.sort(first_unordered(likely, count))
    while True:
        found = _solve_over(chosen, scores, memberships, target, k, guess)
        if found is None:
            chosen = _wider(chosen, scores, memberships, target, k)
            continue
        lifted = adjusted(scores[chosen], memberships[chosen] - target, found.lam)
        edge = kth_largest(lifted, k)
        possible = np.flatnonzero(scores > edge - bounds.gain(found.lam, target))
        lifted = adjusted(scores[possible], memberships[possible] - target, found.lam)
        above = lifted > edge
        missing = np.setdiff1d(possible[above], chosen)
        if not missing.size:
            return _answer(scores, memberships, target, plain, found, chosen)
        chosen = np.union1d(chosen, missing)


def _solve_over_all(
    scores: Float64, memberships: Float64, target: Float64, plain: Index, guess: Float64
) -> Balance:
    """Solve (P) over images that are few enough to look at all of them."""
    everything = np.arange(len(scores))
    found = _solve_over(everything, scores, memberships, target, len(plain), guess)
    if found is None:
        raise infeasible(memberships, target, len(plain))
    return _answer(scores, memberships, target, plain, found, everything)


def few(k: int, r: int) -> int:
    """Return how many images to begin with: enough for most queries, few enough to be quick."""
    return 2 * k + 100 * (r + 1)


def tilt(scores: Float64, memberships: Float64) -> Float64:
    """Return a first guess of lam (r,): the regression of scores on memberships, over a sample.

    Were scores and memberships normal, it would be lam*. Scores that do not vary with memberships
    have no tail in which a group is more frequent.
    """
    step = 1 + len(scores) // SAMPLE
    sampled = memberships[::step] - memberships[::step].mean(axis=0)
    products = sampled.T @ sampled
    return np.linalg.lstsq(products, sampled.T @ scores[::step], rcond=ROUNDING)[0]


def _solve_over(
    chosen: Index, scores: Float64, memberships: Float64, target: Float64, k: int, guess: Float64
) -> Minimum | None:
    """Return the minimum of Phi over the chosen images; None where there is none."""
    offsets = memberships[chosen] - target
    if offsets.shape[1] == 1:
        return minimise_one(scores[chosen], offsets[:, 0], k, float(guess[0]))
    return minimise_many(scores[chosen], offsets, k, guess)


def _wider(chosen: Index, scores: Float64, memberships: Float64, target: Float64, k: int) -> Index:
    """Return more candidates where the target cannot be reached: the extremes, then all of them."""
    if len(chosen) == len(scores):
        raise infeasible(memberships, target, k)
    extremes = [chosen]
    for column in memberships.T:
        extremes += [first(column, k), first(-column, k)]
    wider = np.unique(np.concatenate(extremes))
    if len(wider) > len(chosen):
        return wider
    if memberships.shape[1] == 1:  # the k smallest and the k largest decide
        raise infeasible(memberships, target, k)
    return np.arange(len(scores))


def _answer(
    scores: Float64,
    memberships: Float64,
    target: Float64,
    plain: Index,
    minimum: Minimum,
    among: Index | None = None,
) -> Balance:
    """Return what a minimum gives; ``among``: the images that can be on its page."""
    k = len(plain)
    page = plain
    if among is not None:
        ranked = adjusted(scores[among], memberships[among], minimum.shift)
        page = among[first(ranked, k)]
    lifted = adjusted(scores[page], memberships[page] - target, minimum.lam)
    bound = float(lifted.sum())
    return Balance(
        minimum.lam,
        minimum.shift,
        target,
        page,
        memberships[page].mean(axis=0),
        bound,
        bound - minimum.value,
        float(lifted.min()),
        float(scores[page].sum()),
        float(scores[plain].sum()),
    )


def _reached(distance: Float64, offsets: Float64, tolerance: float) -> bool:
    return bool((np.abs(distance) <= tolerance * np.abs(offsets).max(axis=0)).all())
