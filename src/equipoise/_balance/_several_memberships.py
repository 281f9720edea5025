"""Several memberships: a smooth neighbour of Phi says which images are unsure, and over those few
its lowest vertex is found exactly.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise._balance._pages import Minimum, kth_largest
from equipoise._balance._vertices import lowest_vertex
from equipoise.errors import InputError
from equipoise.geometry import Float64

TIGHT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
"""Of the linear programme: the smallest that HiGHS takes."""

NEAR = 16
"""Times the number of unknowns: the images that are looked at first."""

SURE = 1e-5
"""Of Newton's method: images with less doubt than that do not bend Phi."""

HALVINGS = 14
"""Of one of its steps, at most."""

SHARP = 8
"""Of Newton's method: how much less than the spread of the scores its first width is."""

STEPS = 80
"""Of Newton's method at most, before the linear programme; ten to twenty are usual."""


@cache
def _blas() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def minimise_many(
    scores: Float64, offsets: Float64, k: int, guess: Float64 | None = None
) -> Minimum | None:
    """Return the minimum for memberships ``offsets`` (n, r) = a - m; None where the target cannot
    be reached.

    With the edge of the page tau, Phi(lam) is the least of ``k tau + sum max(0, s_i - lam . (a_i -
    m) - tau)``. A smooth neighbour of that tells which images are sure to be on the page and which
    are sure not to be. Over the few others lam and tau are found exactly, and an image that they
    prove wrong joins them. Where images tie, a linear programme is quicker to be sure.
    """
    with _blas().limit(limits=1, user_api="blas"):  # on matrices this small, threads only wait
        return _minimise(scores, offsets, k, guess)


def _minimise(scores: Float64, offsets: Float64, k: int, guess: Float64 | None) -> Minimum | None:
    scale = np.abs(offsets).max(axis=0)
    scale[scale == 0] = 1
    rows = np.column_stack([np.ones(len(scores)), offsets / scale])
    start = np.zeros(rows.shape[1])
    if guess is not None:
        start[1:] = guess * scale
    margins = scores - rows @ _smooth_minimum(scores, rows, k, start)
    nearest = np.argsort(np.abs(margins), kind="stable")
    unsure = np.zeros(len(scores), bool)
    unsure[nearest[: NEAR * rows.shape[1]]] = True
    while True:
        on_page = ~unsure & (margins > 0)
        found = _over_the_unsure(scores, rows, k, on_page, unsure, margins)
        if found is None and unsure.all():
            return None
        if found is None:
            unsure[nearest[: 4 * int(unsure.sum())]] = True
            continue
        edge_and_lam, value = found
        exact = scores - rows @ edge_and_lam
        wrong = np.where(on_page, exact < 0, exact > 0) & ~unsure
        if not wrong.any():
            lam = edge_and_lam[1:] / scale
            return Minimum(lam, lam, value)
        unsure |= wrong


def _over_the_unsure(
    scores: Float64,
    rows: Float64,
    k: int,
    on_page: NDArray[np.bool_],
    unsure: NDArray[np.bool_],
    margins: Float64,
) -> tuple[Float64, float] | None:
    """Solve (P) over the unsure images, beside those that are on the page for certain.

    Returns (tau, lam) and the value of (P). None where it has no solution.
    """
    wanted = np.zeros(rows.shape[1])
    wanted[0] = k
    left = wanted - rows[on_page].sum(axis=0)
    some = np.flatnonzero(unsure)
    nearest = np.argsort(np.abs(margins[some]), kind="stable")
    found = lowest_vertex(scores[some], rows[some], left, nearest)
    if found is None:
        found = _small_programme(scores[some], rows[some], left)
    if found is None:
        return None
    edge_and_lam, value = found
    return edge_and_lam, float(scores[on_page].sum()) + value


def _small_programme(scores: Float64, rows: Float64, sums: Float64) -> tuple[Float64, float] | None:
    """Solve the same as ``lowest_vertex``, whatever is tied.

    (tau, lam) are the marginals of the equality rows: what one more image, or a little more of a
    membership, would bring.
    """
    from scipy.optimize import linprog

    found = linprog(-scores, A_eq=rows.T, b_eq=sums, bounds=(0, 1), method="highs", options=TIGHT)
    if found.status == 2:  # infeasible
        return None
    if found.status != 0:
        raise InputError(f"the linear programme was not solved ({found.message}); merge groups")
    return -found.eqlin.marginals, -float(found.fun)


def _smooth_minimum(scores: Float64, rows: Float64, k: int, start: Float64) -> Float64:
    """Return a (tau, lam) near the minimum, by Newton's method on ``k tau + h sum log(1 + exp((s -
    lam . (a - m) - tau) / h))``, whose limit for a small width h is Phi.

    The width shrinks until about as many images are unsure as (P) takes in fractions. Where the
    target cannot be reached there is no minimum, and the last point is as good as another.
    """
    size = rows.shape[1]
    lifted = scores - rows @ start
    at = start.copy()
    at[0] = kth_largest(lifted, k)
    width = float(lifted.std()) / SHARP or 1.0
    far = 1e6 * (width + abs(at[0]))
    weights, gradient = _slope(scores, rows, k, width, at)
    for _ in range(STEPS):
        doubt = weights * (1 - weights)
        if np.abs(gradient).max() < 0.25:  # of an image: near enough, so look more sharply
            if doubt.sum() <= size:
                break
            width /= 4
            weights, gradient = _slope(scores, rows, k, width, at)
            continue
        unsure = np.flatnonzero(doubt > SURE)
        some = rows[unsure] * np.sqrt(doubt[unsure])[:, None]
        hessian = some.T @ some / width
        ridge = 1e-9 * k / width  # where no image is unsure
        step = np.asarray(np.linalg.solve(hessian + ridge * np.eye(size), -gradient), np.float64)
        slope = float(gradient @ step)
        for _ in range(HALVINGS):
            there = at + step
            weights, gradient = _slope(scores, rows, k, width, there)
            if gradient @ step <= -0.5 * slope:  # not far beyond the lowest point of the line
                break
            step, slope = step / 2, slope / 2
        at = there
        if np.abs(at).max() > far:
            break
    return at


def _slope(
    scores: Float64, rows: Float64, k: int, width: float, at: Float64
) -> tuple[Float64, Float64]:
    """Return how much of each image is on the page (n,), and the gradient (p,)."""
    weights = (1 + np.tanh((scores - rows @ at) / (2 * width))) / 2
    gradient = -(rows.T @ weights)
    gradient[0] += k
    return weights, gradient
