"""Walks over ranked lists whose images have multiplicities, as a resample gives them.

Nothing is scored or sorted again: an image of multiplicity 2 takes two places, one of multiplicity
0 none. The loops are numba's where it is installed, numpy's otherwise.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from equipoise.errors import InputError
from equipoise.kernels import _host as host


def count_top(
    order: np.ndarray, groups: np.ndarray, size: int, times: np.ndarray, m: int
) -> np.ndarray:
    """Return how many (resamples, queries, size) of the first m places each group holds.

    Where there are fewer than m places, all count.

    order (queries, depth): places of images. groups (images,): 0 to size - 1. times (resamples,
    images): multiplicities.
    """
    places = _places(times, m)
    if _compiled():
        counts = np.zeros((len(times), len(order), size), np.int64)
        left = np.empty(counts.shape[:2], np.int64)
        _spread(_numba().count_top, order, groups, times, places, counts, left)
        _check_depth(left.max(), order)
        return counts
    drawn = zip(times, places, strict=True)
    return np.stack([_count(groups[_expand(order, t, int(p))], size) for t, p in drawn])


def divergence(
    order: np.ndarray, groups: np.ndarray, log_shares: np.ndarray, times: np.ndarray, m: int
) -> np.ndarray:
    """Return the NDKL (resamples, queries) of the first m places.

    log_shares (resamples, groups): logarithms of the target.
    """
    places = _places(times, m)
    if _compiled():
        out = np.zeros((len(times), len(order)))
        left = np.empty(out.shape, np.int64)
        steps = np.arange(1, int(places.max()) + 1)
        discount = 1 / np.log2(steps + 1)
        by_count = np.concatenate([[0], steps * np.log(steps)])  # n log n
        arrays = (log_shares, times, places, discount, by_count, out, left)
        _spread(_numba().divergence, order, groups, *arrays)
        _check_depth(left.max(), order)
        return out
    rows = zip(log_shares, times, places, strict=True)
    return np.stack(
        [_divergence(groups[_expand(order, t, int(p))], shares) for shares, t, p in rows]
    )


def _places(times: np.ndarray, m: int) -> np.ndarray:
    """Return how many places each resample fills: m, or as many as there are images."""
    return np.minimum(m, times.sum(1, dtype=np.int64))


def _expand(order: np.ndarray, times: np.ndarray, places: int) -> np.ndarray:
    """Return the lists (queries, places) with each image as often as it was drawn."""
    drawn = times[order]
    totals = drawn.sum(1, dtype=np.int64)
    _check_depth(places - totals.min(), order)
    starts = np.concatenate([[0], np.cumsum(totals)[:-1]])
    return np.repeat(order.ravel(), drawn.ravel())[starts[:, None] + np.arange(places)]


def _count(held: np.ndarray, size: int) -> np.ndarray:
    cells = np.arange(len(held))[:, None] * size + held
    return np.bincount(cells.ravel(), minlength=len(held) * size).reshape(-1, size)


def _divergence(held: np.ndarray, log_shares: np.ndarray) -> np.ndarray:
    """Return the sum over prefixes of KL(prefix, target) / log2(i + 1), over that of the weights.

    One group is added at a time.
    """
    steps = np.arange(1, held.shape[1] + 1)
    discount = 1 / np.log2(steps + 1)
    total = np.zeros(held.shape)
    for group, log_share in enumerate(log_shares):
        share = np.cumsum(held == group, axis=1) / steps
        log = np.log(np.where(share > 0, share, 1))
        log_target = log_share if np.isfinite(log_share) else 0
        total += np.where(share > 0, share * (log - log_target), 0)
    # no place at all: 0, which the caller calls undefined
    return total @ discount / max(discount.sum(), 1e-300)


def _check_depth(missing: Any, order: np.ndarray) -> None:
    if missing > 0:
        raise InputError(
            f"lists of {order.shape[1]} images are {int(missing)} places too short, because"
            " resamples and unknown labels leave images out; pass lists of twice m images, or of"
            " all"
        )


def _compiled() -> bool:
    return host.kernel_name("float64") == "numba"


def _numba() -> Any:
    from equipoise.metrics import _walk_numba

    return _walk_numba


def _spread(loop: Any, order: np.ndarray, groups: np.ndarray, *arrays: np.ndarray) -> None:
    """Run the compiled loop over ranges of queries, on several threads."""
    order = np.ascontiguousarray(order, np.int32)
    groups = np.ascontiguousarray(groups, np.int32)
    work = arrays[-1].size * order.shape[1]
    host.spread(lambda start, stop: loop(start, stop, order, groups, *arrays), len(order), work)
