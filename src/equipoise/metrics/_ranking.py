"""Ranked lists: images by falling score for each query, equal scores in the order of the images."""

from __future__ import annotations

from typing import Any

import numpy as np

from equipoise.errors import InputError


def as_array(x: Any, what: str) -> np.ndarray:
    """Return numbers of any framework as (queries, n); one query may come as (n,)."""
    if hasattr(x, "detach"):
        x = x.detach().cpu()
        if x.is_floating_point() and x.element_size() < 4:
            x = x.float()  # numpy has no bfloat16
        x = x.numpy()
    try:
        x = np.asarray(x)
    except ValueError:
        raise InputError(
            f"the rows of {what} differ in length; pass equally many numbers for each query"
        ) from None
    return x[None] if x.ndim == 1 else x


def ranked(scores: Any, depth: int | None = None) -> np.ndarray:
    """Return the places (queries, depth) of the best images of each query, best first.

    scores: (queries, images), or (images,) for one query.
    """
    scores = as_array(scores, "scores")
    if scores.ndim != 2 or not scores.size:
        raise InputError(
            f"scores has shape {scores.shape}; pass (queries, images), at least one of each"
        )
    if scores.dtype.kind not in "fiub":
        raise InputError(f"scores are {scores.dtype}; pass numbers")
    images = scores.shape[1]
    places = images if depth is None else min(depth, images)
    return np.stack([_best(row, places) for row in scores]).astype(np.int32)


def _best(row: np.ndarray, depth: int) -> np.ndarray:
    if np.isnan(row).any():
        raise InputError(
            f"scores hold NaN, first at image {int(np.isnan(row).argmax())}; a ranking needs"
            " numbers"
        )
    if row.dtype.kind in "uib":
        row = row.astype(np.float64)
    candidates = np.arange(len(row))
    if depth < len(row):
        last = len(row) - depth
        candidates = np.flatnonzero(row >= np.partition(row, last)[last])
    return candidates[np.argsort(-row[candidates], kind="stable")[:depth]]


def given(top: Any, images: int) -> np.ndarray:
    """Return a search's own lists (queries, depth), checked: places of images, none twice."""
    top = as_array(top, "top")
    if top.ndim != 2 or not top.size or top.dtype.kind not in "iu":
        raise InputError(
            f"top is {top.dtype} of shape {top.shape}; pass whole numbers (queries, depth): the"
            " places of the best images"
        )
    if top.min() < 0 or top.max() >= images:
        raise InputError(
            f"top names images {int(top.min())} to {int(top.max())}, and there are {images}: 0 to"
            f" {images - 1}"
        )
    ordered = np.sort(top, axis=1)
    twice = (ordered[:, 1:] == ordered[:, :-1]).any(1)
    if twice.any():
        raise InputError(
            f"the list of query {int(twice.argmax())} names an image twice; an image has one place"
            " in a ranking"
        )
    return top


def lists(scores: Any, top: Any, images: int, depth: int | None = None) -> np.ndarray:
    """Return the lists from whichever of ``scores`` and ``top`` was passed."""
    if (scores is None) == (top is None):
        raise InputError(
            "pass either scores (queries, images) or top= (queries, depth), the places of the best"
            " images, best first"
        )
    if scores is None:
        return given(top, images)
    scores = as_array(scores, "scores")
    if scores.ndim == 2 and scores.shape[1] != images:
        raise InputError(
            f"scores are of {scores.shape[1]} images and there are {images} labels; pass one label"
            " for each image"
        )
    return ranked(scores, depth)


def whole(value: Any, what: str) -> int:
    """Return a whole number from 1; raise for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise InputError(f"{what}={value!r} is not legal; pass a whole number from 1")
    return int(value)
