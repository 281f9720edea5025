"""From one vertex of Phi to a lower one, until none is lower: exact, and quick where few images
are unsure.

With the edge of the page tau and ``x = (tau, lam)``, Phi is the least of ``k tau + sum max(0,
d_i)``, where ``d_i = s_i - row_i . x``. At a vertex p = r + 1 images are tied at the edge, d = 0:
the basis. The others are on the page (d > 0) or off it (d < 0), and what the basis must add to
reach the target are its weights. If they are all from 0 to 1, they solve (P), and x solves (D). If
not, the image with the worst weight leaves: along the line on which the others stay tied, Phi
falls, and where it stops to fall another image is tied. Linear programming knows this as the dual
simplex method.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.geometry import Float64

MOST = 100
"""Vertices to visit; ten to forty are usual."""

WHOLE = 1e-9
"""A weight this close to 0 or 1 is one of them but for rounding: more images tie than p."""

APART = 1e-10
"""Rows that are closer to dependent than that make no basis."""


def lowest_vertex(
    scores: Float64, rows: Float64, sums: Float64, nearest: NDArray[np.int64]
) -> tuple[Float64, float] | None:
    """Return x (p,) and the value of (P) over images with rows (n, p): ``max sum w_i s_i`` subject
    to ``sum w_i row_i = sums`` (p,) and weights from 0 to 1.

    nearest: the images, those nearest to the edge first. None where no vertex was proved to be the
    lowest: the target may be out of reach, or too many images are tied.
    """
    basis = _independent(rows, nearest)
    if basis is None:
        return None
    for _ in range(MOST):
        tied = rows[basis]
        x = np.asarray(np.linalg.solve(tied, scores[basis]), np.float64)
        margins = scores - rows @ x
        margins[basis] = 0
        on_page = margins > 0
        weights = np.linalg.solve(tied.T, sums - rows[on_page].sum(axis=0))
        outside = np.maximum(-weights, weights - 1)
        worst = int(outside.argmax())
        if outside[worst] < -WHOLE:
            return x, float(scores[on_page].sum() + weights @ scores[basis])
        if outside[worst] <= WHOLE:
            return None
        entering = _next_tied(rows, margins, tied, worst, weights[worst])
        if entering is None:
            return None
        basis[worst] = entering
    return None


def _next_tied(
    rows: Float64, margins: Float64, tied: Float64, worst: int, weight: float
) -> int | None:
    """Return the image at which Phi stops to fall as image ``worst`` of the basis leaves the edge;
    None where it falls for ever.

    On the way an image that comes to the edge goes over it, and Phi falls less steeply by as much
    as that image's margin changes.
    """
    sign = 1.0 if weight < 0 else -1.0
    leaving = np.zeros(len(tied))
    leaving[worst] = sign
    change = rows @ np.linalg.solve(tied, leaving)  # of each margin, downwards
    coming = np.flatnonzero(margins * change > 0)
    if not coming.size:
        return None
    order = coming[np.argsort(margins[coming] / change[coming], kind="stable")]
    steepness = max(-weight, weight - 1)
    less = np.cumsum(np.abs(change[order]))
    stop = int(np.searchsorted(less, steepness))
    return None if stop == len(order) else int(order[stop])


def _independent(rows: Float64, nearest: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """Return p images whose rows are independent, of those nearest to the edge; None where there
    are none.
    """
    from scipy.linalg import qr

    size = rows.shape[1]
    near = nearest[: 2 * size]
    if len(near) < size:
        return None
    found: Any = qr(rows[near].T, mode="r", pivoting=True)
    triangle, order = found
    sizes = np.abs(np.diagonal(triangle))
    if sizes[size - 1] <= APART * sizes[0]:
        return None
    return near[order[:size]]
