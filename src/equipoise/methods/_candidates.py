"""Candidates of a page: what searches found for a query, and what a database gives for them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from equipoise._balance import Balance, Bounds, Searched
from equipoise.errors import InputError
from equipoise.geometry import Float64


class Found(NamedTuple):
    """What one search found: images, each with its score for t, memberships and group.

    They are the best by ``s - lam . a``, of which the last has ``lowest``.
    """

    ids: np.ndarray
    scores: Float64
    memberships: Float64
    groups: np.ndarray
    lam: Float64
    lowest: float

    def only(self, chosen: np.ndarray) -> Found:
        """Return some of what was found."""
        return self._replace(
            ids=self.ids[chosen],
            scores=self.scores[chosen],
            memberships=self.memberships[chosen],
            groups=self.groups[chosen],
        )

    def without(self, ids: np.ndarray) -> Found:
        """Return what was found but for these."""
        if not len(ids):
            return self
        return self.only(~np.isin(self.ids, ids))

    def joined(self, other: Found) -> Found:
        """Return what either found."""
        return self._replace(
            ids=np.concatenate([self.ids, other.ids]),
            scores=np.concatenate([self.scores, other.scores]),
            memberships=np.concatenate([self.memberships, other.memberships]),
            groups=np.concatenate([self.groups, other.groups]),
        )


class Pool:
    """The candidates of one query, each once, and the searches that found them."""

    def __init__(self, found: Found) -> None:
        self.all = found
        self.searched = [(found.lam, found.lowest)]

    def add(self, found: Found) -> int:
        """Take in the candidates that are new, and return how many they are."""
        new = np.flatnonzero(~np.isin(found.ids, self.all.ids))
        self.all = self.all.joined(found.only(new))
        self.searched.append((found.lam, found.lowest))
        return len(new)

    def join(self, found: Found) -> None:
        """Take in images that are not in the pool, and are no search's best."""
        self.all = self.all.joined(found)

    def __len__(self) -> int:
        return len(self.all.ids)

    def proves(self, answer: Balance, bounds: Bounds) -> bool:
        """Return whether no image outside could change the answer."""
        searched = [
            Searched(lam, lowest + float(lam @ answer.target)) for lam, lowest in self.searched
        ]
        return answer.exact(searched, bounds)


def read(given: Any, dim: int) -> tuple[np.ndarray, Float64, bool]:
    """Return ids (c,), and vectors (c, d) or scores (c,), of candidates; True for vectors."""
    ids, values = given if isinstance(given, tuple) else (None, given)
    values = np.asarray(values, np.float64)
    ids = np.arange(len(values)) if ids is None else np.asarray(ids)
    if ids.ndim != 1 or len(ids) != len(values) or values.ndim not in (1, 2) or not len(ids):
        raise InputError(
            f"candidates have ids of shape {ids.shape} and values of shape {values.shape}; pass"
            " (ids, vectors), (ids, scores) or vectors (c, d)"
        )
    unique = len(np.unique(ids))
    if unique < len(ids):
        raise InputError(
            f"{len(ids) - unique} of {len(ids)} candidates have the id of another; pass each once"
        )
    wrong = ~np.isfinite(values.reshape(len(values), -1)).all(axis=1)
    if wrong.any():
        first = ids[wrong].tolist()[0]
        raise InputError(
            f"{wrong.sum()} candidates hold NaN or infinity (first: {first!r}); leave them out"
        )
    vectors = values.ndim == 2
    if vectors and (values.shape[1] != dim or not (values != 0).any(axis=1).all()):
        raise InputError(
            f"the candidates' vectors have shape {values.shape}; pass rows of width {dim}, none of"
            " them zero"
        )
    return ids, values, vectors
