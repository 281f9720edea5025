"""Values with intervals and paired changes, one per method, as the results file holds them.

Replicates are centred on the value first: a resample of images repeats some and lacks others, which
alone raises skews, and would move the interval off the value it is for.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from equipoise.metrics._intervals import interval

KIND = "percentile of replicates centred on the value"
ANY, SHARE, POSITIVE = (-np.inf, np.inf), (0.0, 1.0), (0.0, np.inf)


def values(
    points: np.ndarray, replicates: np.ndarray, level: float, limits: tuple[float, float] = ANY
) -> list[dict[str, Any]]:
    """Return the value, low and high of each method, and its change from the first method.

    points: (methods,). replicates: (methods, resamples). limits: the range of the quantity.
    """
    found = []
    for method, (point, drawn) in enumerate(zip(points, replicates, strict=True)):
        entry = _interval(point, drawn, level, limits)
        if method:
            entry["change"] = _interval(point - points[0], drawn - replicates[0], level, ANY)
        found.append(entry)
    return found


def of_means(
    rows: np.ndarray, resamples: int, level: float, seed: int, limits: tuple[float, float] = ANY
) -> list[dict[str, Any]]:
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


def of_estimates(estimates: list[Any], changes: list[Any]) -> list[dict[str, Any]]:
    """Return what ``values`` returns, from estimates of shares, one per method.

    changes: the paired changes of all methods but the first.
    """
    found = [_centred(estimate, SHARE) for estimate in estimates]
    for entry, change in zip(found[1:], changes, strict=True):
        entry["change"] = _centred(change, ANY)
    return found


def _centred(estimate: Any, limits: tuple[float, float]) -> dict[str, Any]:
    if estimate.resamples - estimate.undefined < 2:
        return {"value": estimate.value, "low": None, "high": None}
    low = _within(limits, estimate.low + estimate.value - estimate.mean)
    high = _within(limits, estimate.high + estimate.value - estimate.mean)
    return {"value": estimate.value, "low": low, "high": high}


def _within(limits: tuple[float, float], end: float) -> float:
    lowest, highest = limits
    return min(max(end, lowest), highest)


def _interval(
    point: Any, drawn: np.ndarray, level: float, limits: tuple[float, float]
) -> dict[str, Any]:
    drawn = drawn[~np.isnan(drawn)]
    if drawn.size < 2:
        # one replicate, centred, is the value itself
        return {"value": float(point), "low": None, "high": None}
    low, high = interval(float(point), drawn + (point - drawn.mean()), level)
    return {"value": float(point), "low": max(low, limits[0]), "high": min(high, limits[1])}
