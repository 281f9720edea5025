"""``splince``: ``leace`` that keeps the covariance with a task (Holstege et al. 2025).

In the whitened space, LEACE projects at right angles off the directions of the group. SPLINCE
projects off them along the directions of the classes, so that what linear predictors read of the
classes stays as it was. Of all maps with both properties it changes least.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import ClassVar

import numpy as np

from equipoise import geometry
from equipoise.errors import InputError
from equipoise.geometry import Float64
from equipoise.kernels._recipe import LowRank
from equipoise.methods._context import FitContext
from equipoise.methods._fitting_rows import FEW, directed_images, group_codes, require_groups
from equipoise.methods._leace import GroupMoments, shrunk
from equipoise.methods._low_rank import LowRankOperator
from equipoise.methods._operator import Modality, Operator
from equipoise.methods._registry import Method

ALIKE = 1e-3  # the smallest singular value of both spaces' bases side by side


class SplinceOperator(LowRankOperator):
    """The oblique projection: ``x - W^+ K A W (x - mu)``."""

    method = "splince"


@dataclass(frozen=True)
class Splince(Method):
    """Parameters of ``splince``.

    shrinkage: of the covariance, as in leace. renormalise: False keeps both promises exactly.
    """

    shrinkage: bool = True
    renormalise: bool = False

    name: ClassVar[str] = "splince"
    summary: ClassVar[str] = "leace that keeps what linear predictors read of the classes"
    source: ClassVar[str] = "Holstege et al. 2025"
    needs: ClassVar[tuple[str, ...]] = ("images", "sensitive_features", "labels")
    changes: ClassVar[tuple[str, ...]] = ("image",)
    tasks: ClassVar[tuple[str, ...]] = ("classification",)
    operator: ClassVar[type[Operator]] = SplinceOperator

    def fit(self, context: FitContext) -> SplinceOperator:
        rows, groups, classes, count = _labelled(self.name, context)
        names = context.attribute.groups
        of_groups = GroupMoments.of([(rows, groups)], len(names))
        require_groups(self.name, of_groups.counts, names, FEW)
        of_classes = GroupMoments.of([(rows, classes)], count)
        left, right = self._factors(of_groups, of_classes)
        maps: dict[Modality, LowRank] = {
            "image": LowRank(right, left, -left @ (right.T @ of_groups.mean))
        }
        params = asdict(self) | {"images": len(rows), "classes": count}
        return SplinceOperator(
            context.attribute, maps, self.renormalise, encoder=context.encoder, params=params
        )

    def _factors(self, groups: GroupMoments, classes: GroupMoments) -> tuple[Float64, Float64]:
        """Return the thin factors (d, k) of what is taken away."""
        covariance = groups.covariance
        if self.shrinkage:
            covariance = shrunk(covariance, int(groups.counts.sum()))
        values, vectors = np.linalg.eigh(covariance)
        kept = values > values[-1] * len(values) * np.finfo(float).eps
        vectors, roots = vectors[:, kept], np.sqrt(values[kept])
        spaces = []
        for moments in (groups, classes):
            whitened = (vectors.T @ moments.between()) / roots[:, None]
            spaces.append(geometry.span_basis(whitened.T))
        concept, task = spaces
        both = np.hstack([concept, task])
        if np.linalg.svd(both, compute_uv=False)[-1] < ALIKE:
            raise InputError(
                "the classes and the groups lie in the same directions of these images, so that one"
                " cannot go while the other stays; pass other labels, or use leace"
            )
        along = np.linalg.pinv(both)[: concept.shape[1]]
        return vectors @ (roots[:, None] * concept), vectors @ (along.T / roots[:, None])


def _labelled(method: str, context: FitContext) -> tuple[Float64, np.ndarray, np.ndarray, int]:
    """Return images with a direction, a group and a class; both, and the number of classes."""
    from equipoise.metrics._labels import encode

    context.require(method, "images", "sensitive_features", "labels")
    rows, good = directed_images(context)
    groups = group_codes(context.sensitive_features, context.attribute)
    coded = encode(context.labels, "labels")
    for name, codes in (("sensitive_features", groups), ("labels", coded.codes)):
        if len(codes) != len(good):
            raise InputError(
                f"there are {len(good)} images and {len(codes)} of {name}; pass one for each"
            )
    if len(coded.labels) < 2:
        raise InputError(f"{method} keeps what tells classes apart, and there is one class only")
    known = (groups[good] >= 0) & (coded.codes[good] >= 0)
    return rows[known], groups[good][known], coded.codes[good][known], len(coded.labels)


METHOD = Splince
