"""Memberships: how much of each group the prompts see in an image, fitted on a collection without
labels.

``Moments`` are sums over the images, so that more images can be added later; ``Memberships`` are
what follows from them: a linear map ``a = W^T x`` and the target that a page is held to.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np

from equipoise import geometry
from equipoise.errors import InputError
from equipoise.geometry import Float64
from equipoise.methods._fitting_rows import unit_rows

Kind = Literal["index", "text", "both"]
Shares = dict[str, float]

STEEPNESS = 4.0
"""Of the sigmoid that says which group an image belongs to, for scores of unit spread."""

RIDGE = 1.0
"""Added to every direction of the images' covariance, as a share of its mean variance."""

SAMPLE = 16_384  # images that the spread of the scores is measured on
SUM = 1e-6  # how far shares may be from a sum of one


@dataclass(frozen=True)
class Moments:
    """Sums over the images of a collection, each a unit row x.

    y (groups,) says softly which group the prompts see in x, and the group is the one whose
    prototype is closest. ``a + b`` are the moments of both sets of images.
    """

    images: np.ndarray  # how many, and how many were left out: (2,)
    total: Float64  # of x: (d,)
    square: Float64  # of x x^T: (d, d)
    soft: Float64  # of y: (groups,)
    cross: Float64  # of x y^T: (d, groups)
    counts: np.ndarray  # images of each group: (groups,)
    sums: Float64  # of x by group: (groups, d)
    soft_sums: Float64  # of y by group: (groups, groups)

    @classmethod
    def of(cls, blocks: Iterable[np.ndarray], prototypes: Float64, spread: float) -> Moments:
        """Return the moments of images that come in blocks, each read once."""
        groups, dim = prototypes.shape
        found = cls.none(groups, dim)
        for block in blocks:
            rows, good = unit_rows(block, dim)
            soft = soft_groups(rows, prototypes, spread)
            hard = np.eye(groups)[closest(rows, prototypes)]
            found += cls(
                np.array([len(rows), int((~good).sum())]),
                rows.sum(axis=0),
                rows.T @ rows,
                soft.sum(axis=0),
                rows.T @ soft,
                hard.sum(axis=0).astype(np.int64),
                hard.T @ rows,
                hard.T @ soft,
            )
        return found

    @classmethod
    def none(cls, groups: int, dim: int) -> Moments:
        """Return the moments of no image."""
        return cls(
            np.zeros(2, np.int64),
            np.zeros(dim),
            np.zeros((dim, dim)),
            np.zeros(groups),
            np.zeros((dim, groups)),
            np.zeros(groups, np.int64),
            np.zeros((groups, dim)),
            np.zeros((groups, groups)),
        )

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Moments:
        return cls(**{field.name: arrays[f"moments.{field.name}"] for field in fields(cls)})

    def arrays(self) -> dict[str, np.ndarray]:
        return {f"moments.{field.name}": getattr(self, field.name) for field in fields(self)}

    def __add__(self, other: Moments) -> Moments:
        names = [field.name for field in fields(self)]
        return Moments(*(getattr(self, name) + getattr(other, name) for name in names))

    @property
    def count(self) -> int:
        """Return the images that the sums are of."""
        return int(self.images[0])

    @property
    def mean(self) -> Float64:
        return self.total / self.count

    @property
    def covariance(self) -> Float64:
        return self.square / self.count - np.outer(self.mean, self.mean)

    def ridge(self, cross: Float64, total: Float64) -> Float64:
        """Return the regression (d, m) on the images of values (n, m), from their sum of x y^T and
        their sum.
        """
        covariance = self.covariance
        dim = len(covariance)
        added = RIDGE * np.trace(covariance) / dim * np.eye(dim)
        together = cross / self.count - np.outer(self.mean, total / self.count)
        return np.linalg.solve(covariance + added, together)


def closest(rows: Float64, prototypes: Float64) -> np.ndarray:
    """Return the group (n,) whose prototype is closest to each row."""
    return (rows @ prototypes.T).argmax(axis=1)


def soft_groups(rows: Float64, prototypes: Float64, spread: float) -> Float64:
    """Return y (n, groups): the softmax of the prototypes' scores, in units of their spread.

    With two groups it is the sigmoid of the scaled difference.
    """
    scores = STEEPNESS / spread * (rows @ (prototypes - prototypes.mean(axis=0)).T)
    scores = np.exp(scores - scores.max(axis=1, keepdims=True))
    return scores / scores.sum(axis=1, keepdims=True)


def score_spread(rows: Float64, prototypes: Float64) -> float:
    """Return the spread over images of the difference between two prototypes' scores, in quadratic
    mean over the pairs of groups.
    """
    scores = rows @ (prototypes - prototypes.mean(axis=0)).T
    return float(np.sqrt(2 * scores.var(axis=0).sum() / (len(prototypes) - 1)))


def sampled(
    images: Any, blocks: Iterator[np.ndarray], dim: int, seed: int
) -> tuple[Float64, Iterator[np.ndarray]]:
    """Return unit rows of up to ``SAMPLE`` images, and the blocks of all of them.

    Of an array they are drawn by lot. Of anything else they are the first ones, which are kept
    until the blocks are read, so that an iterator is read once.
    """
    if hasattr(images, "shape") and len(images) > SAMPLE:
        places = np.random.default_rng(seed).choice(len(images), SAMPLE, replace=False)
        drawn = images[np.sort(places)]
        drawn = drawn.detach().cpu().numpy() if hasattr(drawn, "detach") else drawn
        return unit_rows(drawn, dim)[0], blocks
    head: list[np.ndarray] = []
    for block in blocks:
        head.append(block)
        if sum(map(len, head)) >= SAMPLE:
            break
    rows = [unit_rows(block, dim)[0] for block in head]
    return np.concatenate(rows) if rows else np.empty((0, dim)), itertools.chain(head, blocks)


@dataclass(frozen=True, eq=False)
class Memberships:
    """What a page is balanced by: ``a = W^T x`` in ``weights`` (d, r), its mean over the collection
    (r,), and over the images of each group (groups, r).

    For a re-ranking, a is y itself, less its last column, and ``weights`` is None.
    """

    prototypes: Float64
    spread: float
    weights: Float64 | None
    mean: Float64
    by_group: Float64

    @classmethod
    def of(
        cls, moments: Moments, prototypes: Float64, spread: float, kind: Kind, linear: bool
    ) -> Memberships:
        """Return the memberships that follow from the moments."""
        counts = np.maximum(moments.counts, 1)[:, None]
        if not linear:
            mean = moments.soft[:-1] / moments.count
            return cls(prototypes, spread, None, mean, (moments.soft_sums / counts)[:, :-1])
        weights = linear_map(moments, prototypes, kind)
        return cls(
            prototypes, spread, weights, moments.mean @ weights, moments.sums / counts @ weights
        )

    @classmethod
    def none(cls, prototypes: Float64) -> Memberships:
        """Return memberships of no column, where groups are all that is asked for."""
        groups, dim = prototypes.shape
        return cls(prototypes, 1.0, np.zeros((dim, 0)), np.zeros(0), np.zeros((groups, 0)))

    @property
    def rank(self) -> int:
        return len(self.mean)

    def __call__(self, rows: Float64) -> Float64:
        """Return the memberships (n, r) of unit rows."""
        if self.weights is None:
            return soft_groups(rows, self.prototypes, self.spread)[:, :-1]
        return rows @ self.weights

    def target(self, shares: Float64 | None) -> Float64:
        """Return the mean membership (r,) of a page with these shares of the groups; None for the
        collection's own.
        """
        return self.mean if shares is None else shares @ self.by_group

    def shares(self, mean: Float64) -> Float64:
        """Return the shares (groups,) of the groups that a mean membership stands for."""
        groups = len(self.by_group)
        rows = np.vstack([self.by_group.T, np.ones(groups)])
        return np.asarray(np.linalg.lstsq(rows, np.append(mean, 1.0), rcond=None)[0], np.float64)


def linear_map(moments: Moments, prototypes: Float64, kind: Kind) -> Float64:
    """Return W (d, r).

    text: the axes of the attribute space, scaled to unit spread. index: the ridge regression of y
    on the images. both: the first, and the ridge regression of the closest group.
    """
    if kind == "index":
        return moments.ridge(moments.cross, moments.soft)[:, :-1]
    basis = geometry.attribute_basis(prototypes)[0]
    spread = np.sqrt(np.einsum("ij,ij->j", basis, moments.covariance @ basis))
    axes = basis / np.where(spread > 0, spread, 1)
    if kind == "text":
        return axes
    hard = moments.ridge(moments.sums.T, moments.counts.astype(np.float64))[:, :-1]
    return np.concatenate([axes, hard], axis=1)


def wanted_shares(target: str | Mapping[str, float], groups: tuple[str, ...]) -> Float64 | None:
    """Return the shares (groups,) that a target asks for; None for the collection's own."""
    if isinstance(target, str):
        if target not in ("collection", "equal"):
            raise InputError(
                f"target={target!r} is not legal; pass collection, equal, or a share for each of"
                f" {', '.join(groups)}"
            )
        return None if target == "collection" else np.full(len(groups), 1 / len(groups))
    if not isinstance(target, Mapping) or set(target) != set(groups):
        raise InputError(
            f"target={target!r} is not legal; pass a share for each of {', '.join(groups)}"
        )
    shares = np.array([target[group] for group in groups], np.float64)
    if not np.isfinite(shares).all() or (shares < 0).any() or abs(shares.sum() - 1) > SUM:
        raise InputError(
            f"the shares of target={dict(target)!r} must be from 0 to 1 and sum to 1; they sum to"
            f" {shares.sum():g}"
        )
    return shares
