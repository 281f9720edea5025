"""``adapted``: the attribute space of the index itself. Queries alone are debiased, in the span of the groups' mean images.

Text prompts say which group an image is closest to, no labels are needed; the means of those groups are where images differ by
group. A query orthogonal to their differences has the same mean score in every group, and no image is rewritten.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from equipoise import geometry
from equipoise.errors import InputError
from equipoise.methods.closed_form import shared_space
from equipoise.methods.context import FitContext
from equipoise.methods.operator import Operator
from equipoise.methods.registry import Method
from equipoise.methods.spaces import SpaceOperator
from equipoise.space import AttributeSpace


class AdaptedOperator(SpaceOperator):
    """The closed form on texts, in the space of the images' group means."""

    method = "adapted"


@dataclass(frozen=True)
class Adapted(Method):
    """kappa: infinity gives every group the same mean score. smallest: images that each group must have for its mean to be trusted."""

    kappa: float = 1.0
    smallest: int = 20
    prototype: str = "both"

    name: ClassVar[str] = "adapted"
    summary: ClassVar[str] = "closed form on queries, in the space of the index's own group means (ours)"
    changes: ClassVar[tuple[str, ...]] = ("text",)
    needs: ClassVar[tuple[str, ...]] = ("images", "prototypes, or an encoder (or text_table) and a book")
    tasks: ClassVar[tuple[str, ...]] = ("retrieval", "classification")
    operator: ClassVar[type[Operator]] = AdaptedOperator

    def fit(self, context: FitContext) -> AdaptedOperator:
        context.require(self.name, "images")
        text_space = shared_space(self.name, context, self.kappa, self.prototype)
        prototypes = text_space.parts[0].prototypes
        sums, counts = np.zeros(prototypes.shape), np.zeros(len(prototypes), int)
        for block in context.image_blocks():
            rows = _unit(block, text_space.dim)
            nearest = (rows @ prototypes.T).argmax(1)
            for group in range(len(prototypes)):
                sums[group] += rows[nearest == group].sum(0)
                counts[group] += (nearest == group).sum()
        self._check(context, counts)
        means = sums / counts[:, None]
        named = dict(zip(context.attribute.groups, means, strict=True))
        space = AttributeSpace.from_prototypes(named, attribute=context.attribute.name, kappa=self.kappa, encoder=context.encoder)
        space = replace(space, basis=geometry.attribute_basis(means, space.tolerance)[0])  # of the means themselves: not of unit length
        params = {"kappa": str(self.kappa), "smallest": self.smallest, "prototype": self.prototype}
        params["images"] = dict(zip(context.attribute.groups, counts.tolist(), strict=True))
        return AdaptedOperator(context.attribute, space, ("text",), encoder=context.encoder, params=params)

    def _check(self, context: FitContext, counts: np.ndarray) -> None:
        if counts.min() < self.smallest:
            found = ", ".join(f"{group} {count}" for group, count in zip(context.attribute.groups, counts.tolist(), strict=True))
            raise InputError(
                f"adapted needs {self.smallest} images or more of each group, and the index seems to hold: {found}; "
                "use closed-form, merge groups, or lower smallest"
            )


def _unit(block: Any, dim: int) -> np.ndarray:
    """Unit rows in float64, those without a direction left out."""
    rows = np.asarray(block, np.float64)
    if rows.ndim != 2 or rows.shape[1] != dim:
        raise InputError(f"images have shape {rows.shape}, and prototypes are {dim} wide; pass embeddings of the same encoder, (n, {dim})")
    norms = np.linalg.norm(rows, axis=1)
    good = np.isfinite(norms) & (norms > 0)
    return rows[good] / norms[good, None]


METHOD = Adapted
