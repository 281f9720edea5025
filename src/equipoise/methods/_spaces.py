"""``SpaceOperator``: the closed form in an attribute space, on images, texts or both.

Several methods come down to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from equipoise._debiasing import debias
from equipoise._documents import validated
from equipoise._space import AttributeSpace, EncoderRef
from equipoise._space_document import SpaceSetMetadata
from equipoise._spaceset import SpaceSet
from equipoise.errors import InputError
from equipoise.geometry import TINY, half_angle, limits, outside, unit
from equipoise.methods._operator import Gate, Modality, Operator
from equipoise.methods._operator_document import SpaceSettings
from equipoise.prompts._attribute import Attribute

CANCELS = 1e-4  # o under which 1 - p^2 has lost half of its digits


class SpaceOperator(Operator):
    """The closed form on every row of a modality in ``changes``.

    It works in ``space``, with its kappa; with a SpaceSet, in the space of the row's own prompt.
    """

    def __init__(
        self,
        attribute: Attribute,
        space: AttributeSpace | SpaceSet,
        changes: tuple[Modality, ...],
        **options: Any,
    ):
        super().__init__(attribute, changes, space.dim, **options)
        self.space: AttributeSpace | SpaceSet = space

    @property
    def per_prompt(self) -> bool:
        return isinstance(self.space, SpaceSet) and "image" in self.changes

    def _image(self, rows: Any) -> Any:
        if isinstance(self.space, SpaceSet):
            raise InputError(
                "this operator has one space per prompt, and images have no prompt of their own;"
                " use op.scores(images, texts, prompts)"
            )
        return _debias(rows, self.space)

    def _text(self, rows: Any, prompts: Sequence[str] | None) -> Any:
        if isinstance(self.space, AttributeSpace):
            return _debias(rows, self.space)
        if prompts is None:
            raise InputError(
                "this operator has one space per prompt; pass prompts= beside the rows"
            )
        debiased = []
        for row, prompt in zip(np.asarray(rows), prompts, strict=True):
            debiased.append(_debias(row[None], self.space[prompt])[0])
        return np.stack(debiased)

    def scores(
        self, images: Any, texts: Any, prompts: Sequence[str] | None = None, gate: Gate = None
    ) -> Any:
        """Return similarities (images, texts).

        With one space per prompt, the images of each column are debiased in its prompt's space.
        """
        if isinstance(self.space, AttributeSpace) or "image" not in self.changes:
            return super().scores(images, texts, prompts, gate)
        if prompts is None:
            raise InputError(
                "this operator has one space per prompt; pass prompts= beside the texts"
            )
        pure = limits(np.asarray(images).dtype.name).pure
        images = unit(np.asarray(images, np.float64))
        kept = np.broadcast_to(self._gated(prompts, gate), len(prompts))
        texts = self.text(texts, prompts, gate)
        plain = images @ texts.T
        columns = []
        for j, prompt in enumerate(prompts):
            column = plain[:, j]
            if not kept[j]:
                column = _score_in(images, texts[j], column, self.space[prompt], pure)
            columns.append(column)
        return np.stack(columns, axis=1).astype(plain.dtype)

    def _facts(self) -> dict[str, Any]:
        if isinstance(self.space, SpaceSet):
            first = next(iter(self.space.values()))
            return super()._facts() | {"prompts": len(self.space), "kappa": f"{first.kappa:g}"}
        return super()._facts() | {"rank": self.space.rank, "kappa": f"{self.space.kappa:g}"}

    def arrays(self) -> dict[str, np.ndarray]:
        return self.space.arrays()

    def settings(self) -> dict[str, Any]:
        settings = SpaceSettings(changes=self.changes, space=self.space.metadata())
        return settings.to_plain()

    @classmethod
    def restore(
        cls,
        attribute: Attribute,
        arrays: dict[str, np.ndarray],
        settings: dict[str, Any],
        made_by: EncoderRef,
    ) -> SpaceOperator:
        found = validated(SpaceSettings, settings)
        if isinstance(found.space, SpaceSetMetadata):
            space = SpaceSet.from_arrays(arrays, found.space)
        else:
            space = AttributeSpace.from_arrays(arrays, found.space)
        return cls(attribute, space, found.changes, encoder=made_by)


def _debias(rows: Any, space: AttributeSpace) -> Any:
    return debias(rows, space, on_invalid="keep" if isinstance(rows, np.ndarray) else "unchecked")


def _score_in(
    images: np.ndarray, text: np.ndarray, plain: np.ndarray, space: AttributeSpace, pure: float
) -> np.ndarray:
    """Return <u_i, text> for unit images debiased in this space.

    It comes from their few coordinates in the space, without a second copy of the images.
    """
    c = images @ space.basis
    p2 = (c * c).sum(1)
    inside = c @ (space.basis.T @ text)
    o, beside = np.sqrt(np.maximum(1 - p2, 0)), plain - inside
    # Where little is left outside, compute it; 1 - p2 would be the difference of close numbers.
    near = o < CANCELS
    rest = outside(images[near], c[near], space.basis)
    o[near], beside[near] = np.linalg.norm(rest, axis=1), rest @ text
    if np.isinf(space.kappa):
        shrink, beta = np.zeros_like(o), np.ones_like(o)
    else:
        shrink, beta = half_angle(p2, o, space.kappa, np.sqrt)
    debiased = beta / np.maximum(o, TINY) * beside + shrink * inside
    return np.where(o <= pure, plain, debiased)  # what is nothing but attribute stays as it is
