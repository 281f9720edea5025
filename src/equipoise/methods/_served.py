"""The index that an operator serves: its rows as they lie, and of each image its group and
memberships.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from equipoise import _search as search
from equipoise._balance import Bounds
from equipoise.errors import InputError
from equipoise.geometry import limits
from equipoise.methods._arrays import normalised
from equipoise.methods._context import BLOCK
from equipoise.methods._memberships import Memberships, closest
from equipoise.methods._rows import unit_rows


class Served:
    """An array, a memory map, a store, or a list of arrays, held by reference.

    memberships (n, r) and groups (n,) are kept, 4 (r + 1) bytes per image; rows without a direction
    have NaN and -1. bounds are those of the memberships.
    """

    def __init__(self, images: Any, memberships: Memberships):
        self.images = images
        self.unit = True
        found, groups = [], []
        dim = memberships.prototypes.shape[1]
        for block in self.blocks():
            rows, good = unit_rows(block, dim)
            self.unit &= _all_unit(block[good])
            found.append(np.full((len(block), memberships.rank), np.nan, np.float32))
            groups.append(np.full(len(block), -1, np.int32))
            found[-1][good] = memberships(rows)
            groups[-1][good] = closest(rows, memberships.prototypes)
        if not found:
            raise InputError("the index holds no rows; pass at least one image")
        self.memberships, self.groups = np.concatenate(found), np.concatenate(groups)
        self.count = int((self.groups >= 0).sum())
        if not self.count:
            raise InputError(
                f"none of the {len(self.groups)} images of the index has a direction; embed them"
                " again"
            )
        self.bounds = Bounds.of(self.memberships[self.groups >= 0].astype(np.float64))

    def blocks(self) -> Iterator[np.ndarray]:
        """The rows, a few thousand at a time."""
        for part in self._parts():
            for start in range(0, len(part), BLOCK):
                yield part[start : start + BLOCK]

    def search(self, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the places and the scores of the k best images for each query: (queries, k)."""
        given = self.images if isinstance(self.images, np.ndarray) else self._parts()
        transform = None if self.unit else normalised
        return search.top_k(queries, given, k, transform=transform, show_progress=False)

    def search_group(
        self, group: int, queries: np.ndarray, k: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """As ``search``, among the images of one group; places count the group's images alone."""
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


def _all_unit(rows: np.ndarray) -> bool:
    squared = np.einsum("ij,ij->i", rows, rows, dtype=np.float64)
    return bool((np.abs(squared - 1) <= limits(rows.dtype.name).unit).all())
