"""Targets out of reach: no k images have them, and the nearest that some have is said."""

from __future__ import annotations

import numpy as np

from equipoise.errors import InputError
from equipoise.geometry import Float64


class InfeasibleTargetError(InputError):
    """No k images have the target as their mean membership.

    ``nearest``: the mean membership (r,) that some have, and that is closest to it.
    """

    def __init__(self, message: str, nearest: Float64):
        super().__init__(message)
        self.nearest = nearest


def infeasible(memberships: Float64, target: Float64, k: int) -> InfeasibleTargetError:
    """Return the error that names the nearest mean membership."""
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
