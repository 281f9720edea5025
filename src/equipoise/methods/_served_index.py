"""The index that an operator serves: its rows as they lie, and of each image its group and
memberships.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from equipoise import _search as search
from equipoise._balance import Bounds
from equipoise.errors import InputError
from equipoise.geometry import Float64, limits
from equipoise.kernels._best import Adjustment
from equipoise.methods._arrays import normalised
from equipoise.methods._context import BLOCK
from equipoise.methods._fitting_rows import unit_rows
from equipoise.methods._memberships import Memberships, closest

EPS = 2.0**-24
"""Of a number of size one in float32: what it is off by rounding, at most."""


class Served:
    """An array, a memory map, a store, or a list of arrays, held by reference.

    memberships (n, r) and groups (n,) are kept, 4 (r + 1) bytes per image; rows without a direction
    have 0 and -1. bounds are those of the memberships.
    """

    def __init__(self, images: Any, memberships: Memberships):
        self.images = images
        self.off_unit = 0.0  # the largest distance of a squared length from one
        found, groups = [], []
        dim = memberships.prototypes.shape[1]
        for block in self.blocks():
            rows, good = unit_rows(block, dim)
            self.off_unit = max(self.off_unit, _off_unit(block[good]))
            found.append(np.zeros((len(block), memberships.rank), np.float32))
            groups.append(np.full(len(block), -1, np.int32))
            found[-1][good] = memberships(rows)
            groups[-1][good] = closest(rows, memberships.prototypes)
        if not found:
            raise InputError("the index holds no rows; pass at least one image")
        # Column by column, as products with one lam read them.
        self.memberships = np.asfortranarray(np.concatenate(found))
        self.groups = np.concatenate(groups)
        self.count = int((self.groups >= 0).sum())
        if not self.count:
            raise InputError(
                f"none of the {len(self.groups)} images of the index has a direction; embed them"
                " again"
            )
        self.bounds = Bounds.of(self.memberships[self.groups >= 0].astype(np.float64))
        self._reach = np.maximum(np.abs(self.bounds.low), np.abs(self.bounds.high))
        self.unit = self.off_unit <= limits("float32").unit
        self._recent: search.RecentScores | None = None

    def remember(self, recent: search.RecentScores) -> None:
        """Keep the scores of recent texts, which others who search the same rows may keep, too."""
        if self.unit:  # others search rows as they are
            self._recent = recent

    def blocks(self) -> Iterator[np.ndarray]:
        """Yield the rows, a few thousand at a time."""
        for part in self._parts():
            for start in range(0, len(part), BLOCK):
                yield part[start : start + BLOCK]

    def search(self, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the places and the scores of the k best images for each query: (queries, k)."""
        given = self.images if isinstance(self.images, np.ndarray) else self._parts()
        transform = None if self.unit else normalised
        return search.top_k(
            queries, given, k, transform=transform, show_progress=False, recent=self._recent
        )

    def search_adjusted(
        self, texts: Float64, lams: Float64, weights: Float64, counts: Sequence[int]
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return the places and the adjusted scores ``s - lam . a`` of the best images: for the
        texts (q, d) themselves, and then for each lam of ``lams`` (s, q, r).

        weights (d, r): of the memberships. counts: of images to find, one for each ranking. The
        index is read once and multiplied once, whatever s is.
        """
        given = self.images if isinstance(self.images, np.ndarray) else self._parts()
        transform = None if self.unit else normalised
        off_unit = self.off_unit if self.unit else limits("float32").unit
        rounding = off_unit + (lams.shape[2] + 4) * EPS
        adjustments = []
        for lam, count in zip(lams, counts[1:], strict=True):
            slack = rounding * (np.abs(lam) @ self._reach)
            adjustments.append(Adjustment(texts - lam @ weights.T, lam, slack, count))
        return search.top_k_adjusted(
            texts,
            given,
            counts[0],
            adjustments,
            self.memberships,
            transform=transform,
            recent=self._recent,
        )

    def lifted(self, lam: Float64, at_least: float, among: np.ndarray | None = None) -> np.ndarray:
        """Return the places of the images with ``-lam . a`` of at least so much; ``among``: only
        of these.
        """
        rounding = (len(lam) + 4) * EPS * (float(np.abs(lam) @ self._reach) + abs(at_least))
        memberships = self.memberships if among is None else self.memberships[among]
        lifts = memberships @ -lam.astype(np.float32)
        there = np.flatnonzero(lifts >= at_least - rounding)
        return there if among is None else among[there]

    def scores_above(
        self, places: np.ndarray, query: Float64, least: Float64
    ) -> tuple[np.ndarray, Float64] | None:
        """Return those of the places whose score for a query is above ``least`` (places,), and the
        scores; None where the index is no array, so that rows lie anywhere.

        A product in float32 tells which of them are near; those alone are scored in float64.
        """
        if not isinstance(self.images, np.ndarray):
            return None
        rough = self._rows(places, np.float32) @ query.astype(np.float32)
        near = rough > least - 4 * len(query) * EPS  # of unit rows, which its rounding is below
        places, least = places[near], least[near]
        scores = self._rows(places, np.float64) @ query
        above = scores > least
        return places[above], scores[above]

    def _rows(self, places: np.ndarray, dtype: Any) -> np.ndarray:
        rows = self.images[places].astype(dtype, copy=False)
        return rows if self.unit else normalised(rows)

    def search_group(
        self, group: int, queries: np.ndarray, k: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Search as ``search`` does, among the images of one group; places count the group's images
        alone.
        """
        members = self._members(group)
        transform = None if self.unit else normalised
        return search.top_k(queries, members, k, transform=transform, show_progress=False)

    def _members(self, group: int) -> Iterator[np.ndarray]:
        start = 0
        for block in self.blocks():
            here = self.groups[start : start + len(block)] == group
            start += len(block)
            yield block[here]

    def scores(self, query: np.ndarray) -> np.ndarray:
        """Return the scores (n,) of all images for one query; NaN for rows without a direction."""
        scores = []
        for block in self.blocks():
            rows = np.asarray(block, np.float64)
            scores.append((rows if self.unit else normalised(rows)) @ query)
        return np.concatenate(scores)

    def _parts(self) -> Iterator[np.ndarray]:
        parts = [self.images]
        if hasattr(self.images, "shards"):
            parts = self.images.shards()
        elif isinstance(self.images, list | tuple):
            parts = self.images
        for part in parts:
            yield part.detach().cpu().numpy() if hasattr(part, "detach") else np.asanyarray(part)


def can_be_served(images: Any) -> bool:
    """Return whether images can be read more than once: not so an iterator of blocks."""
    return hasattr(images, "shards") or hasattr(images, "shape") or isinstance(images, list | tuple)


def _off_unit(rows: np.ndarray) -> float:
    squared = np.einsum("ij,ij->i", rows, rows, dtype=np.float64)
    return float(np.abs(squared - 1).max(initial=0))
