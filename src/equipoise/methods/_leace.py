"""``leace``: the least affine change after which no linear predictor reads the group.

The method is that of Belrose et al. 2023, fitted in one pass: streaming sums, one
eigendecomposition, and the kernels that every low-rank method shares. The concept-erasure package
is not used, because it needs torch, has no files, and leaves weak concepts in.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from equipoise import geometry
from equipoise.errors import InputError
from equipoise.geometry import Float64
from equipoise.kernels._recipe import LowRank
from equipoise.methods._closed_form import changes_of
from equipoise.methods._context import FitContext
from equipoise.methods._fitting_rows import FEW, labelled_blocks, require_groups
from equipoise.methods._fitting_texts import labelled_texts
from equipoise.methods._low_rank import LowRankOperator
from equipoise.methods._operator import Modality, Operator
from equipoise.methods._registry import Method


class LeaceOperator(LowRankOperator):
    """The eraser: ``x - W^+ U U^T W (x - mu)``."""

    method = "leace"


@dataclass(frozen=True)
class Leace(Method):
    """Parameters of ``leace``.

    renormalise: False keeps the erasure exact; unit length brings some linear leakage back.
    variant: "orth" projects off the mean differences. shrinkage: of the covariance, which decides
    how little is changed and not what is erased. tolerance: correlations up to this count as none;
    the package's 0.01 leaves weak concepts in. modality: "text" and "both" change texts by their
    own statistics, from the book's texts.
    """

    variant: Literal["leace", "orth"] = "leace"
    shrinkage: bool = True
    tolerance: float = 1e-6
    renormalise: bool = False
    modality: Literal["both", "image", "text"] = "image"

    name: ClassVar[str] = "leace"
    summary: ClassVar[str] = (
        "least affine change of images after which no linear predictor reads the group"
    )
    source: ClassVar[str] = "Belrose et al. 2023"
    needs: ClassVar[tuple[str, ...]] = ("images", "sensitive_features")
    changes: ClassVar[tuple[str, ...]] = ("image",)
    tasks: ClassVar[tuple[str, ...]] = ()
    code: ClassVar[str] = (
        "not in Table 1; the package leaves correlations under 0.01 in (tolerance=0.01)"
    )
    licence: ClassVar[str] = "MIT"
    operator: ClassVar[type[Operator]] = LeaceOperator

    def fit(self, context: FitContext) -> LeaceOperator:
        if self.variant not in ("leace", "orth"):
            raise InputError(f'variant={self.variant!r} is not legal; pass "leace" or "orth"')
        if not 0 <= self.tolerance < 1:
            raise InputError(
                f"tolerance={self.tolerance} is not legal; it is a correlation, from 0 to below 1"
            )
        groups = context.attribute.groups
        maps: dict[Modality, LowRank] = {}
        for modality in changes_of(self.modality):
            if modality == "image":
                blocks = labelled_blocks(self.name, context)
            else:
                blocks = [labelled_texts(self.name, context)]
            maps[modality] = self._map(GroupMoments.of(blocks, len(groups)), groups, modality)
        params = {
            "variant": self.variant,
            "shrinkage": self.shrinkage,
            "tolerance": self.tolerance,
            "renormalise": self.renormalise,
            "modality": self.modality,
        }
        return LeaceOperator(
            context.attribute, maps, self.renormalise, encoder=context.encoder, params=params
        )

    def _map(self, moments: GroupMoments, groups: tuple[str, ...], modality: Modality) -> LowRank:
        require_groups(self.name, moments.counts, groups, FEW, f"{modality}s")
        left, right = self._factors(moments)
        return LowRank(right, left, -left @ (right.T @ moments.mean))

    def _factors(self, moments: GroupMoments) -> tuple[Float64, Float64]:
        between = moments.between()
        if self.variant == "orth":
            basis = geometry.span_basis(between.T, self.tolerance)
            return basis, basis
        covariance = moments.covariance
        if self.shrinkage:
            covariance = shrunk(covariance, int(moments.counts.sum()))
        values, vectors = np.linalg.eigh(covariance)
        kept = values > values[-1] * len(values) * np.finfo(float).eps
        vectors, roots = vectors[:, kept], np.sqrt(values[kept])
        whitened = (vectors.T @ between) / roots[:, None]
        concept, sizes, _ = np.linalg.svd(whitened, full_matrices=False)
        concept = concept[:, sizes > self.tolerance]
        if not concept.shape[1]:
            raise InputError(
                "no linear predictor reads the groups from these rows (correlations up to"
                f" {sizes[0]:.1e}); there is nothing to erase"
            )
        return vectors @ (roots[:, None] * concept), vectors @ (concept / roots[:, None])


@dataclass
class GroupMoments:
    """Mean and scatter of rows, and their sum and number in each group.

    Blocks are merged as they come (Chan et al.).
    """

    mean: Float64
    scatter: Float64
    sums: Float64
    counts: np.ndarray

    @classmethod
    def of(cls, blocks: Iterable[tuple[Float64, np.ndarray]], groups: int) -> GroupMoments:
        """Return the moments of all blocks of rows, each with the codes of its groups."""
        total = None
        for rows, codes in blocks:
            if len(rows):
                mean = rows.mean(0)
                scatter = (rows - mean).T @ (rows - mean)
                sums = np.stack([rows[codes == group].sum(0) for group in range(groups)])
                counts = np.bincount(codes, minlength=groups)
                block = cls(mean, scatter, sums, counts)
                total = block if total is None else total.merged(block)
        if total is None:
            raise InputError("there is no row with a direction and a known group to fit on")
        return total

    def merged(self, other: GroupMoments) -> GroupMoments:
        """Return the moments of the rows of both."""
        n, m = self.counts.sum(), other.counts.sum()
        gap = other.mean - self.mean
        mean = self.mean + gap * (m / (n + m))
        scatter = self.scatter + other.scatter + np.outer(gap, gap) * (n * m / (n + m))
        return GroupMoments(mean, scatter, self.sums + other.sums, self.counts + other.counts)

    @property
    def covariance(self) -> Float64:
        return self.scatter / self.counts.sum()

    def between(self) -> Float64:
        """Return the covariance (d, groups) of rows with each group's indicator, over its spread.

        So a small group weighs as much as a large one.
        """
        shares = self.counts / self.counts.sum()
        means = self.sums / self.counts[:, None]
        weights = shares / np.sqrt(shares * (1 - shares))
        return ((means - self.mean) * weights[:, None]).T


def shrunk(covariance: Float64, n: int) -> Float64:
    """Return the covariance shrunk optimally towards a multiple of the identity.

    The shrinkage is linear (Bodnar, Gupta, Parolya 2014).
    """
    d, trace = len(covariance), np.trace(covariance)
    spread = (covariance**2).sum() - trace**2 / d
    kept = np.clip(1 - trace**2 / n / spread, 0, 1) if spread > 0 else 1.0
    return kept * covariance + (1 - kept) * trace / d * np.eye(d)


METHOD = Leace
