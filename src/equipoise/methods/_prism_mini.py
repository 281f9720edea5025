"""``prism-mini``: images projected off the group words themselves (Molahasani et al. 2025).

The common part of the words goes too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from equipoise import geometry
from equipoise.errors import InputError
from equipoise.geometry import Float64
from equipoise.kernels._recipe import LowRank
from equipoise.methods._closed_form import changes_of
from equipoise.methods._context import FitContext
from equipoise.methods._fitting_texts import bare_words, prototypes
from equipoise.methods._low_rank import LowRankOperator
from equipoise.methods._operator import Operator
from equipoise.methods._registry import Method
from equipoise.prompts._prototypes import encode


class PrismMiniOperator(LowRankOperator):
    """The rows ``P x``, with P off the words; scores are those of projecting both sides."""

    method = "prism-mini"


@dataclass(frozen=True)
class PrismMini(Method):
    """Parameters of ``prism-mini``.

    words: "bare" ("man", "woman") as in the code, or "book"; prototypes in the context go before
    both. renormalise: False, as in the code, leaves an image the length that the projection leaves.
    modality: "both" gives the same scores as "image".
    """

    words: Literal["bare", "book"] = "bare"
    renormalise: bool = False
    modality: Literal["both", "image", "text"] = "image"

    name: ClassVar[str] = "prism-mini"
    summary: ClassVar[str] = "projection of images off the group words"
    source: ClassVar[str] = "Molahasani et al. 2025"
    needs: ClassVar[tuple[str, ...]] = ("words",)
    changes: ClassVar[tuple[str, ...]] = ("image",)
    tasks: ClassVar[tuple[str, ...]] = ("classification",)
    code: ClassVar[str] = (
        "changes images only; Table 1 says both modalities (modality=both gives the same scores)"
    )
    licence: ClassVar[str] = "none given"
    operator: ClassVar[type[Operator]] = PrismMiniOperator

    def fit(self, context: FitContext) -> PrismMiniOperator:
        low_rank = LowRank.projection(geometry.span_basis(self._rows(context)))
        params = {"words": self.words, "renormalise": self.renormalise, "modality": self.modality}
        maps = dict.fromkeys(changes_of(self.modality), low_rank)
        return PrismMiniOperator(
            context.attribute, maps, self.renormalise, encoder=context.encoder, params=params
        )

    def _rows(self, context: FitContext) -> Float64:
        if self.words not in ("bare", "book"):
            raise InputError(f'words={self.words!r} is not legal; pass "bare" or "book"')
        if context.prototypes is not None or self.words == "book":
            return prototypes(self.name, context)
        if context.text_encoder is None:
            raise InputError(
                f"{self.name} needs prototypes, or an encoder or text_table for"
                f" {context.attribute.name}'s words; the context lacks them"
            )
        return geometry.unit(encode(context.text_encoder, bare_words(context.attribute)))


METHOD = PrismMini
