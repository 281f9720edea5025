"""``adapted``: queries debiased in the attribute space of the index itself.

No labels are needed: text prompts say which group an image is closest to. The space is spanned by
the differences between the mean images of those groups. A query orthogonal to these differences
has the same mean score in every group, and no image is rewritten.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any, ClassVar

import numpy as np

from equipoise import geometry
from equipoise._documents import validated
from equipoise._space import AttributeSpace, EncoderRef
from equipoise.errors import InputError
from equipoise.geometry import Float64
from equipoise.methods._context import FitContext
from equipoise.methods._fitting_rows import require_groups, unit_rows
from equipoise.methods._fitting_texts import prototypes
from equipoise.methods._operator import Gate, Operator
from equipoise.methods._operator_document import SpaceSettings
from equipoise.methods._registry import Method, Strength
from equipoise.methods._spaces import SpaceOperator
from equipoise.prompts._attribute import Attribute

OTHERWISE = "use closed-form, merge groups, or lower smallest"


class AdaptedOperator(SpaceOperator):
    """The closed form on texts, in the space of the images' group means.

    Where the operator is cross-fitted, ``scores`` compares each image with queries that were
    debiased in a space fitted without it, for an honest measurement on the index itself. ``text``
    always uses the space of all images.
    """

    method = "adapted"

    def __init__(
        self,
        attribute: Attribute,
        space: AttributeSpace,
        changes: Any = ("text",),
        folds: Sequence[Float64] = (),
        **options: Any,
    ):
        super().__init__(attribute, space, changes, **options)
        self.folds = [replace(space, basis=basis) for basis in folds]

    @property
    def per_prompt(self) -> bool:
        return bool(self.folds)

    def scores(
        self, images: Any, texts: Any, prompts: Sequence[str] | None = None, gate: Gate = None
    ) -> Any:
        """Return similarities (images, texts)."""
        if not self.folds:
            return super().scores(images, texts, prompts, gate)
        self._check_width(images, "images")
        images = np.asarray(images)
        fold = fold_of(images, len(self.folds))
        out = np.empty((len(images), len(texts)), np.result_type(images, np.asarray(texts)))
        for i, space in enumerate(self.folds):
            here = fold == i
            queries = AdaptedOperator(self.attribute, space).text(texts, prompts, gate)
            out[here] = images[here] @ np.asarray(queries).T
        return out

    def arrays(self) -> dict[str, np.ndarray]:
        found = dict(super().arrays())
        for i, space in enumerate(self.folds):
            found[f"fold.{i}"] = space.basis
        return found

    def settings(self) -> dict[str, Any]:
        return super().settings() | {"folds": len(self.folds)}

    @classmethod
    def restore(
        cls,
        attribute: Attribute,
        arrays: dict[str, np.ndarray],
        settings: dict[str, Any],
        made_by: EncoderRef,
    ) -> AdaptedOperator:
        found = validated(SpaceSettings, settings)
        space = AttributeSpace.from_arrays(arrays, found.space)
        folds = [arrays[f"fold.{i}"] for i in range(found.folds)]
        if any(basis.ndim != 2 or len(basis) != space.dim for basis in folds):
            raise ValueError("the folds' bases do not match the space")
        return cls(attribute, space, found.changes, folds, encoder=made_by)


@dataclass(frozen=True)
class Adapted(Method):
    """Parameters of ``adapted``.

    kappa: infinity gives every group the same mean score. smallest: how many images each group
    must have for its mean to be trusted. folds: 2 or more cross-fit, so that images are scored in a
    space that was fitted without them.
    """

    kappa: float = 1.0
    smallest: int = 20
    folds: int = 1
    prototype: str = "both"

    name: ClassVar[str] = "adapted"
    summary: ClassVar[str] = "closed form on queries, in the space of the index's own group means"
    source: ClassVar[str] = "ours"
    needs: ClassVar[tuple[str, ...]] = ("prompts", "images")
    changes: ClassVar[tuple[str, ...]] = ("text",)
    tasks: ClassVar[tuple[str, ...]] = ("retrieval",)
    sweep: ClassVar[Strength | None] = Strength("kappa", 0, (0.1, 0.25, 0.5, 1, 2, 4, inf))
    operator: ClassVar[type[Operator]] = AdaptedOperator

    def fit(self, context: FitContext) -> AdaptedOperator:
        context.require(self.name, "images")
        if not isinstance(self.folds, int) or self.folds < 1:
            raise InputError(
                f"folds={self.folds!r} is not legal; pass 1, or 2 and more to cross-fit"
            )
        if self.smallest < 1:
            raise InputError(
                f"smallest={self.smallest!r} is not legal; a group without images has no mean, so"
                " pass 1 or more"
            )
        groups = context.attribute.groups
        sums, counts = self._sums(context, prototypes(self.name, context, self.prototype))
        sizes = counts.sum(0)
        require_groups(self.name, sizes, groups, self.smallest, "images", OTHERWISE)
        means = sums.sum(0) / sizes[:, None]
        named = dict(zip(groups, means, strict=True))
        space = AttributeSpace.from_prototypes(
            named, attribute=context.attribute.name, kappa=self.kappa, encoder=context.encoder
        )
        # The basis is that of the means themselves, which are not of unit length.
        space = replace(space, basis=geometry.attribute_basis(means, space.tolerance)[0])
        folds = []
        if self.folds > 1:
            folds = [self._without(fold, sums, counts, groups) for fold in range(self.folds)]
        params = {
            "kappa": str(self.kappa),
            "smallest": self.smallest,
            "folds": self.folds,
            "prototype": self.prototype,
            "images": dict(zip(groups, sizes.tolist(), strict=True)),
        }
        return AdaptedOperator(
            context.attribute, space, folds=folds, encoder=context.encoder, params=params
        )

    def _sums(self, context: FitContext, named: Float64) -> tuple[Float64, np.ndarray]:
        """Return sums (folds, groups, d) and numbers (folds, groups) of images, in one pass.

        An image belongs to the group whose prototype is closest to it.
        """
        sums = np.zeros((self.folds, *named.shape))
        counts = np.zeros((self.folds, len(named)), int)
        for block in context.image_blocks():
            rows, _ = unit_rows(block, named.shape[1])
            cell = fold_of(rows, self.folds) * len(named) + (rows @ named.T).argmax(1)
            np.add.at(counts.reshape(-1), cell, 1)
            members = np.eye(counts.size)[cell]
            sums += (members.T @ rows).reshape(sums.shape)
        return sums, counts

    def _without(
        self, fold: int, sums: Float64, counts: np.ndarray, groups: tuple[str, ...]
    ) -> Float64:
        """Return the basis of the images outside a fold."""
        rest = counts.sum(0) - counts[fold]
        require_groups(self.name, rest, groups, self.smallest, "images outside a fold", OTHERWISE)
        return geometry.attribute_basis((sums.sum(0) - sums[fold]) / rest[:, None])[0]


def fold_of(rows: Any, folds: int) -> np.ndarray:
    """Return a fold (n,) for each row, by its direction alone.

    So an image is in the same fold wherever it is met.
    """
    if folds == 1:
        return np.zeros(len(rows), int)
    rows = np.asarray(rows, np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        place = rows @ np.cos(np.arange(rows.shape[1]) ** 2.0) / np.linalg.norm(rows, axis=1)
        # many turns, so that neighbours part; far fewer than the digits of a float32
        place = np.nan_to_num(place) * 997
    return ((place - np.floor(place)) * folds).astype(int) % folds


METHOD = Adapted
