"""``SpaceOperator``: the closed form in an attribute space, on images, texts or both; what four
methods come down to.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from equipoise._debiasing import debias
from equipoise._space import AttributeSpace, EncoderRef
from equipoise._spaceset import SpaceSet
from equipoise.errors import InputError
from equipoise.geometry import TINY, half_angle, limits, outside, unit
from equipoise.methods._operator import Gate, Modality, Operator
from equipoise.prompts._attribute import Attribute

CANCELS = 1e-4  # o under which 1 - p^2 has lost half of its digits


class SpaceOperator(Operator):
    """Every row of a modality in ``changes`` is debiased in ``space`` with its kappa; with a
    SpaceSet, in its own prompt's space.
    """

    def __init__(
        self,
        attribute: Attribute,
        space: AttributeSpace | SpaceSet,
        changes: tuple[Modality, ...],
        **options: Any,
    ):
        super().__init__(attribute, changes, space.dim, **options)
        self.space = space

    @property
    def per_prompt(self) -> bool:
        return isinstance(self.space, SpaceSet) and "image" in self.changes

    def _image(self, rows: Any) -> Any:
        return _debias(
            rows,
            self._shared(
                "images have no prompt of their own; use op.scores(images, texts, prompts)"
            ),
        )

    def _text(self, rows: Any, prompts: Sequence[str] | None) -> Any:
        if isinstance(self.space, AttributeSpace):
            return _debias(rows, self.space)
        if prompts is None:
            raise InputError("this operator has a space a prompt; pass prompts= beside the rows")
        return np.stack(
            [
                _debias(row[None], self.space[prompt])[0]
                for row, prompt in zip(np.asarray(rows), prompts, strict=True)
            ]
        )

    def scores(
        self, images: Any, texts: Any, prompts: Sequence[str] | None = None, gate: Gate = None
    ) -> Any:
        """Similarities (images, texts); with a space a prompt, each column's images are debiased in
        its prompt's space, on the fly.
        """
        if isinstance(self.space, AttributeSpace) or "image" not in self.changes:
            return super().scores(images, texts, prompts, gate)
        if prompts is None:
            raise InputError("this operator has a space a prompt; pass prompts= beside the texts")
        pure = limits(np.asarray(images).dtype.name).pure
        images = unit(np.asarray(images, np.float64))
        kept = np.broadcast_to(self._gated(prompts, gate), len(prompts))
        texts = self.text(texts, prompts, gate)
        plain = images @ texts.T
        columns = []
        for j, prompt in enumerate(prompts):
            column = plain[:, j]
            columns.append(
                column if kept[j] else _score_in(images, texts[j], column, self.space[prompt], pure)
            )
        return np.stack(columns, axis=1).astype(plain.dtype)

    def _shared(self, otherwise: str) -> AttributeSpace:
        if isinstance(self.space, SpaceSet):
            raise InputError(f"this operator has a space a prompt: {otherwise}")
        return self.space

    def _facts(self) -> dict[str, Any]:
        if isinstance(self.space, SpaceSet):
            first = next(iter(self.space.values()))
            return super()._facts() | {"prompts": len(self.space), "kappa": f"{first.kappa:g}"}
        return super()._facts() | {"rank": self.space.rank, "kappa": f"{self.space.kappa:g}"}

    def arrays(self) -> dict[str, np.ndarray]:
        return self.space.arrays()

    def settings(self) -> dict[str, Any]:
        return {"changes": list(self.changes), "space": self.space.metadata()}

    @classmethod
    def restore(
        cls,
        attribute: Attribute,
        arrays: dict[str, np.ndarray],
        settings: dict[str, Any],
        made_by: EncoderRef,
    ) -> SpaceOperator:
        kind = SpaceSet if "prompts" in settings["space"] else AttributeSpace
        return cls(
            attribute,
            kind.from_arrays(arrays, settings["space"]),
            tuple(settings["changes"]),
            encoder=made_by,
        )


def _debias(rows: Any, space: AttributeSpace) -> Any:
    return debias(rows, space, on_invalid="keep" if isinstance(rows, np.ndarray) else "unchecked")


def _score_in(
    images: np.ndarray, text: np.ndarray, plain: np.ndarray, space: AttributeSpace, pure: float
) -> np.ndarray:
    """<u_i, text> for unit images debiased in this space, from their few coordinates in it; no
    second copy of the images.
    """
    c = images @ space.basis
    p2 = (c * c).sum(1)
    inside = c @ (space.basis.T @ text)
    o, beside = np.sqrt(np.maximum(1 - p2, 0)), plain - inside
    # of which little is left outside: that, rather than the difference of two numbers close to 1
    near = o < CANCELS
    rest = outside(images[near], c[near], space.basis)
    o[near], beside[near] = np.linalg.norm(rest, axis=1), rest @ text
    if np.isinf(space.kappa):
        shrink, beta = np.zeros_like(o), np.ones_like(o)
    else:
        shrink, beta = half_angle(p2, o, space.kappa, np.sqrt)
    debiased = beta / np.maximum(o, TINY) * beside + shrink * inside
    return np.where(o <= pure, plain, debiased)  # what is nothing but attribute stays as it is
