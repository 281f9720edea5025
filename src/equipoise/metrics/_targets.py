"""The right images of each query, and whether they are found."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from equipoise.errors import InputError

FIRST_CUT = 64  # places looked at first; more where a resample needs them


class Targets(NamedTuple):
    """The pairs (query, right image): queries (t,) ascending, images (t,)."""

    queries: np.ndarray
    images: np.ndarray
    size: int  # number of queries

    @classmethod
    def of(cls, target: Any) -> Targets:
        """Return the targets, given as one place (queries,) or several places per query."""
        if not hasattr(target, "__len__") or getattr(target, "shape", None) == ():
            raise InputError(
                f"target is {target!r}; pass the place of the right image of each query"
            )
        if isinstance(target, np.ndarray) and target.ndim == 1 and target.dtype != object:
            each = target[:, None]
        else:
            each = [np.atleast_1d(np.asarray(t)) for t in target]
        queries = np.repeat(np.arange(len(each)), [len(t) for t in each])
        if len(each) == 0 or (np.bincount(queries, minlength=len(each)) == 0).any():
            raise InputError(
                "every query needs a target: the place of its right image, or a list of places"
            )
        images = np.concatenate(list(each))
        _require_places(images)
        return cls(queries, images.astype(np.int64), len(each))


def _require_places(images: np.ndarray) -> None:
    """Raise for what is no place of an image."""
    if images.dtype.kind in "iu" and images.min() >= 0:
        return
    found = f"first {images[0]!r}"
    if images.dtype.kind in "iuf":
        found = f"lowest {images.min()}"
    raise InputError(
        f"target holds {images.dtype}, {found}; pass the places of images, whole numbers from 0"
    )


def hits(
    order: np.ndarray, targets: Targets, times: np.ndarray, k: int, many: str
) -> tuple[np.ndarray, np.ndarray]:
    """Return how much was found (resamples, queries), from 0 to 1, and the weight of each query.

    The weight is how often the query's targets were drawn, on average. A target is found when fewer
    than k copies of other images stand before it and it was drawn at all.
    """
    if many not in ("any", "share"):
        raise InputError(f'many={many!r} is not legal; pass "any" or "share"')
    if targets.size != len(order):
        raise InputError(
            f"target is of {targets.size} queries and there are {len(order)}; pass one for each"
        )
    if targets.images.max() >= times.shape[1]:
        raise InputError(
            f"target names image {targets.images.max()}, and there are {times.shape[1]}: 0 to"
            f" {times.shape[1] - 1}"
        )
    drawn = times[:, targets.images].astype(np.float64)
    found = (_before(order, targets, times, k) < k) & (drawn > 0)
    first = np.searchsorted(targets.queries, np.arange(targets.size))
    each = np.diff([*first, len(targets.queries)])
    weights = np.add.reduceat(drawn, first, axis=1) / each
    if many == "any":
        return np.maximum.reduceat(found, first, axis=1).astype(np.float64), weights
    part = np.add.reduceat(found * drawn, first, axis=1) / each
    return np.divide(part, weights, out=np.zeros_like(part), where=weights > 0), weights


def _before(order: np.ndarray, targets: Targets, times: np.ndarray, k: int) -> np.ndarray:
    """Return how many copies of images (resamples, targets) stand before each target.

    Where there are at least k, it is any number from k up.
    """
    from scipy.sparse import csr_array

    wide = times.T.astype(np.float64)
    cut = min(order.shape[1], max(FIRST_CUT, 2 * k))
    while True:
        looked_at = order[:, :cut]
        here = looked_at[targets.queries] == targets.images[:, None]
        place = np.where(here.any(1), here.argmax(1), cut)
        columns = np.arange(cut) < place[:, None]
        found = looked_at[targets.queries][columns]
        ends = np.concatenate([[0], np.cumsum(place)])
        shape = (len(place), times.shape[1])
        ahead = csr_array((np.ones(len(found)), found, ends), shape=shape)
        before = (ahead @ wide).T
        undecided = (before < k) & (place == cut) & (times[:, targets.images] > 0)
        if not undecided.any():
            return before
        if cut == order.shape[1]:
            if cut == times.shape[1]:
                return before
            raise InputError(
                f"lists of {cut} images are too short to tell recall at {k} in every resample; pass"
                " longer ones, twice k and more"
            )
        cut = min(order.shape[1], 2 * cut)
