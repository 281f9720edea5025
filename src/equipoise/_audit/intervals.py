"""Values with their intervals and paired changes, one for each method, as the results file has
them.

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
    """points (methods,), replicates (methods, resamples): value, low and high of each, and the
    change from the first method.

    limits: what the quantity cannot go beyond.
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
    """rows (methods, n): the mean of each method, resampled over the n, which are the same for
    all.
    """
    rows = np.asarray(rows, float)
    n = rows.shape[1]
    rng = np.random.default_rng(seed)
    drawn = np.stack(
        [rows @ np.bincount(rng.integers(0, n, n), minlength=n) / n for _ in range(resamples)],
        axis=1,
    )
    return values(rows.mean(1), drawn if n > 1 else np.full_like(drawn, np.nan), level, limits)


def of_estimates(estimates: list[Any], changes: list[Any]) -> list[dict[str, Any]]:
    """From ``metrics.Estimate``, of shares: one a method, and the paired changes of all but the
    first.
    """
    found = [_centred(estimate, SHARE) for estimate in estimates]
    for entry, change in zip(found[1:], changes, strict=True):
        entry["change"] = _centred(change, ANY)
    return found


def _centred(estimate: Any, limits: tuple[float, float]) -> dict[str, Any]:
    if estimate.resamples - estimate.undefined < 2:
        return {"value": estimate.value, "low": None, "high": None}
    low, high = (
        min(max(end + estimate.value - estimate.mean, limits[0]), limits[1])
        for end in (estimate.low, estimate.high)
    )
    return {"value": estimate.value, "low": low, "high": high}


def _interval(
    point: Any, drawn: np.ndarray, level: float, limits: tuple[float, float]
) -> dict[str, Any]:
    drawn = drawn[~np.isnan(drawn)]
    if drawn.size < 2:  # one replicate, centred, is the value, and no interval
        return {"value": float(point), "low": None, "high": None}
    low, high = interval(float(point), drawn + (point - drawn.mean()), level)
    return {"value": float(point), "low": max(low, limits[0]), "high": min(high, limits[1])}
