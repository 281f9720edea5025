"""Values with intervals and paired changes, one per method, as the results file holds them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from equipoise._audit.results import MethodValue, Ranged
from equipoise.metrics._intervals import (
    ANY,
    CENTRED,
    Chance,
    HasInterval,
    Limits,
    interval,
    lifted,
)

KIND = (
    f"{CENTRED}: percentiles of replicates, moved so that their mean is the value; above the floor"
    " where the value is beyond chance"
)


def values(
    points: np.ndarray,
    replicates: np.ndarray,
    level: float,
    limits: Limits = ANY,
    chance: Chance | None = None,
) -> list[MethodValue]:
    """Return the value, low and high of each method, and its change from the first method.

    points: (methods,). replicates: (methods, resamples). limits: the range of the quantity. chance:
    what random rankings have of it, where that is known.
    """
    found = []
    for method, (point, drawn) in enumerate(zip(points, replicates, strict=True)):
        own, change = _ranged(point, drawn, level, limits), None
        low = own.low
        if chance is not None and low is not None:
            low = lifted(point, low, chance)
        if method:
            change = _ranged(point - points[0], drawn - replicates[0], level, ANY)
        found.append(MethodValue(value=own.value, low=low, high=own.high, change=change))
    return found


def of_means(
    rows: np.ndarray, resamples: int, level: float, seed: int, limits: Limits = ANY
) -> list[MethodValue]:
    """Return the mean of each method, resampled over the n. rows: (methods, n).

    Every resample draws the same places for all methods.
    """
    rows = np.asarray(rows, float)
    n = rows.shape[1]
    rng = np.random.default_rng(seed)
    if n > 1:
        means = []
        for _ in range(resamples):
            times = np.bincount(rng.integers(0, n, n), minlength=n)
            means.append(rows @ times / n)
        drawn = np.stack(means, axis=1)
    else:
        # one value alone has no interval
        drawn = np.full((len(rows), resamples), np.nan)
    return values(rows.mean(1), drawn, level, limits)


def of_estimates(
    estimates: Sequence[HasInterval], changes: Sequence[HasInterval]
) -> list[MethodValue]:
    """Return what ``values`` returns, from estimates, one per method.

    changes: the paired changes of all methods but the first.
    """
    found = []
    for own, change in zip(estimates, [None, *changes], strict=True):
        paired = None
        if change is not None:
            paired = Ranged(value=change.value, low=change.low, high=change.high)
        found.append(MethodValue(value=own.value, low=own.low, high=own.high, change=paired))
    return found


def _ranged(point: float, drawn: np.ndarray, level: float, limits: Limits) -> Ranged:
    low, high = interval(float(point), drawn[~np.isnan(drawn)], level, limits=limits)
    return Ranged(value=float(point), low=low, high=high)
