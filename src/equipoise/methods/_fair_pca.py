"""``fair-pca``: the principal components that do not tell the groups' means apart.

The closed form of Kleindessner et al. 2023: project off the differences of the groups' means, then
keep the directions of most variance. With all components it is ``leace`` with variant="orth".
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import ClassVar, Literal

import numpy as np

from equipoise import geometry
from equipoise.errors import InputError
from equipoise.geometry import Float64
from equipoise.kernels._recipe import LowRank
from equipoise.methods._closed_form import changes_of
from equipoise.methods._context import FitContext
from equipoise.methods._fitting_rows import FEW, dimensions, labelled_blocks, require_groups
from equipoise.methods._leace import GroupMoments
from equipoise.methods._low_rank import LowRankOperator
from equipoise.methods._operator import Operator
from equipoise.methods._registry import Method


class FairPcaOperator(LowRankOperator):
    """The projection onto the fair components."""

    method = "fair-pca"


@dataclass(frozen=True)
class FairPca(Method):
    """Parameters of ``fair-pca``.

    components: how many directions stay, or, below 1, what share of the dimensions. Rows keep their
    width, so that images and texts still meet. modality: "both" projects texts too, which gives the
    same ranking.
    """

    components: float = 0.5
    renormalise: bool = False
    modality: Literal["both", "image", "text"] = "image"

    name: ClassVar[str] = "fair-pca"
    summary: ClassVar[str] = "principal components of images in which the groups' means agree"
    source: ClassVar[str] = "Kleindessner et al. 2023"
    needs: ClassVar[tuple[str, ...]] = ("images", "sensitive_features")
    changes: ClassVar[tuple[str, ...]] = ("image",)
    tasks: ClassVar[tuple[str, ...]] = ()
    licence: ClassVar[str] = "Apache 2.0"
    operator: ClassVar[type[Operator]] = FairPcaOperator

    def fit(self, context: FitContext) -> FairPcaOperator:
        groups = context.attribute.groups
        moments = GroupMoments.of(labelled_blocks(self.name, context), len(groups))
        require_groups(self.name, moments.counts, groups, FEW)
        dim = len(moments.mean)
        kept = dimensions(self.components, dim)
        gone = geometry.span_basis(moments.between().T)
        most = dim - gone.shape[1]
        if not kept or kept > most:
            raise InputError(
                f"components={self.components} is not legal; pass 1 to {most}, or a share of the"
                f" {dim} dimensions"
            )
        low_rank = LowRank.projection(_complement(moments.covariance, gone, kept))
        params = asdict(self) | {"kept": kept}
        return FairPcaOperator(
            context.attribute,
            dict.fromkeys(changes_of(self.modality), low_rank),
            self.renormalise,
            encoder=context.encoder,
            params=params,
        )


def _complement(covariance: Float64, gone: Float64, kept: int) -> Float64:
    """Return a basis of all but the ``kept`` directions of most variance off ``gone`` (d, r)."""
    off = np.eye(len(gone)) - gone @ gone.T
    _, vectors = np.linalg.eigh(off @ covariance @ off)
    components = vectors[:, ::-1][:, :kept]
    return np.linalg.svd(components)[0][:, kept:]


METHOD = FairPca
