"""``closed-form``: the paper's method.

The attribute space comes from prompts; images and texts are turned towards their neutral part.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Any, ClassVar, Literal

import numpy as np

from equipoise._space import SCOPES, AttributeSpace, EncoderRef
from equipoise._spaceset import SpaceSet
from equipoise.errors import InputError
from equipoise.methods._context import FitContext
from equipoise.methods._operator import Modality, Operator
from equipoise.methods._registry import Method, Strength
from equipoise.methods._released_half import ARITHMETIC, ReleasedHalfOperator
from equipoise.methods._spaces import SpaceOperator
from equipoise.prompts._attribute import Attribute
from equipoise.prompts._prompt_book import PromptBook

MODALITIES: dict[str, tuple[Modality, ...]] = {
    "both": ("image", "text"),
    "image": ("image",),
    "text": ("text",),
}


class ClosedFormOperator(SpaceOperator):
    """The closed form in one shared space, or in one space per prompt."""

    method = "closed-form"

    @classmethod
    def of(cls, space: AttributeSpace | SpaceSet) -> ClosedFormOperator:
        """Return the operator on both modalities in a fitted space, or one space per prompt."""
        one = space if isinstance(space, AttributeSpace) else next(iter(space.values()))
        part = one.parts[0]
        attribute = Attribute.named(part.attribute, part.groups)
        return cls(attribute, space, MODALITIES["both"], encoder=one.encoder)

    @classmethod
    def restore(
        cls,
        attribute: Attribute,
        arrays: dict[str, np.ndarray],
        settings: dict[str, Any],
        made_by: EncoderRef,
    ) -> Operator:
        if settings.get("as_released") == ARITHMETIC:
            return ReleasedHalfOperator.restore(attribute, arrays, settings, made_by)
        return super().restore(attribute, arrays, settings, made_by)


@dataclass(frozen=True)
class ClosedForm(Method):
    """Parameters of ``closed-form``.

    kappa: 1 is the paper, infinity the projection. scope: "shared" or "per prompt". prototype:
    "both", "anchor" or "variants". as_released: "fp16" computes as the released code does on a GPU,
    where rounding decides for rows that are nearly neutral; it is a way to look at published rows.
    """

    kappa: float = 1.0
    scope: str = "shared"
    modality: Literal["both", "image", "text"] = "both"
    prototype: str = "both"
    as_released: Literal["", "fp16"] = ""

    name: ClassVar[str] = "closed-form"
    summary: ClassVar[str] = (
        "closed-form minimax between leakage and loss in the space of group prompts"
    )
    source: ClassVar[str] = "the paper"
    needs: ClassVar[tuple[str, ...]] = ("prompts",)
    tasks: ClassVar[tuple[str, ...]] = ("classification", "retrieval", "generation")
    generation: ClassVar[Mapping[str, Any] | None] = {"modality": "text"}
    sweep: ClassVar[Strength | None] = Strength("kappa", 0, (0.1, 0.25, 0.5, 1, 2, 4, inf))
    code: ClassVar[str] = (
        "one shared space and a form that loses digits in float32, and on a GPU works on float16"
        " rows (as_released=fp16); the text has one space per prompt (scope=per prompt)"
    )
    licence: ClassVar[str] = "CC BY-NC 4.0"
    operator: ClassVar[type[Operator]] = ClosedFormOperator

    def fit(self, context: FitContext) -> Operator:
        if self.scope not in SCOPES:
            raise InputError(f"scope={self.scope!r} is not legal; pass one of {', '.join(SCOPES)}")
        fit_space = shared_space if self.scope == "shared" else _spaces
        space = fit_space(self.name, context, self.kappa, self.prototype)
        params = {
            "kappa": str(self.kappa),
            "scope": self.scope,
            "modality": self.modality,
            "prototype": self.prototype,
        }
        if self.as_released:
            params["as_released"] = self.as_released
            return self._as_released(context, space, params)
        return ClosedFormOperator(
            context.attribute,
            space,
            changes_of(self.modality),
            encoder=context.encoder,
            params=params,
        )

    def _as_released(
        self, context: FitContext, space: AttributeSpace | SpaceSet, params: dict[str, Any]
    ) -> ReleasedHalfOperator:
        if self.kappa != 1 or not isinstance(space, AttributeSpace):
            raise InputError(
                f"as_released={self.as_released} was given with kappa={self.kappa} and"
                f" scope={self.scope}; the released code has kappa=1 and one shared space"
            )
        return ReleasedHalfOperator(
            context.attribute,
            space,
            changes_of(self.modality),
            encoder=context.encoder,
            params=params,
        )


def shared_space(method: str, context: FitContext, kappa: float, prototype: str) -> AttributeSpace:
    """Return the space of the given prototypes, or else of the book's encoded prompts."""
    if context.prototypes is not None:
        ordered = {group: context.prototypes[group] for group in context.attribute.groups}
        return AttributeSpace.from_prototypes(
            ordered, attribute=context.attribute.name, kappa=kappa, encoder=context.encoder
        )
    encoder, book = book_of(method, context)
    return AttributeSpace.from_prompts(
        encoder, book, context.attribute, prototype=prototype, kappa=kappa
    )


def _spaces(method: str, context: FitContext, kappa: float, prototype: str) -> SpaceSet:
    encoder, book = book_of(method, context)
    return SpaceSet.from_prompts(encoder, book, context.attribute, prototype=prototype, kappa=kappa)


def book_of(method: str, context: FitContext) -> tuple[Any, PromptBook]:
    """Return what encodes the book's texts, and the book."""
    if context.text_encoder is None or context.book is None:
        raise InputError(
            f"{method} needs prototypes (shared scope), or a book and an encoder or text_table; the"
            " context lacks them"
        )
    return context.text_encoder, context.book


def changes_of(modality: str) -> tuple[Modality, ...]:
    """Return the modalities that a word names."""
    if modality not in MODALITIES:
        raise InputError(f"modality={modality!r} is not legal; pass one of {', '.join(MODALITIES)}")
    return MODALITIES[modality]


METHOD = ClosedForm
