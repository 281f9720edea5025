"""Values with intervals and paired changes, one per method, as the results file holds them."""

from __future__ import annotations

from typing import Any

import numpy as np

from equipoise.metrics._intervals import ANY, CENTRED, Chance, Limits, interval, lifted

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
) -> list[dict[str, Any]]:
    """Return the value, low and high of each method, and its change from the first method.

    points: (methods,). replicates: (methods, resamples). limits: the range of the quantity. chance:
    what random rankings have of it, where that is known.
    """
    found = []
    for method, (point, drawn) in enumerate(zip(points, replicates, strict=True)):
        entry = _interval(point, drawn, level, limits)
        if chance is not None and entry["low"] is not None:
            entry["low"] = lifted(entry["value"], entry["low"], chance)
        if method:
            entry["change"] = _interval(point - points[0], drawn - replicates[0], level, ANY)
        found.append(entry)
    return found


def of_means(
    rows: np.ndarray, resamples: int, level: float, seed: int, limits: Limits = ANY
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
    """Return what ``values`` returns, from estimates, one per method.

    changes: the paired changes of all methods but the first.
    """
    found = [_ends(estimate) for estimate in estimates]
    for entry, change in zip(found[1:], changes, strict=True):
        entry["change"] = _ends(change)
    return found


def _ends(estimate: Any) -> dict[str, Any]:
    if np.isnan(estimate.low):
        return {"value": estimate.value, "low": None, "high": None}
    return {"value": estimate.value, "low": estimate.low, "high": estimate.high}


def _interval(point: Any, drawn: np.ndarray, level: float, limits: Limits) -> dict[str, Any]:
    low, high = interval(float(point), drawn[~np.isnan(drawn)], level, limits=limits)
    if np.isnan(low):
        return {"value": float(point), "low": None, "high": None}
    return {"value": float(point), "low": low, "high": high}
