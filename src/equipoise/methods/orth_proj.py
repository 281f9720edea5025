"""``orth-proj``: texts projected off the group prompts (Chuang et al. 2023): an uncentred span, so what the prompts share goes too."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from equipoise.errors import InputError
from equipoise.geometry import RANK_TOLERANCE
from equipoise.methods.closed_form import changes_of, shared_space
from equipoise.methods.context import FitContext
from equipoise.methods.operator import Operator
from equipoise.methods.registry import Method
from equipoise.methods.spaces import SpaceOperator


class OrthProjOperator(SpaceOperator):
    """The closed form at kappa = infinity, which is the projection."""

    method = "orth-proj"


@dataclass(frozen=True)
class OrthProj(Method):
    """span: "prompts", as the reference code has it, or "differences", the milder attribute space. modality: the reference's is "text"."""

    span: Literal["prompts", "differences"] = "prompts"
    modality: Literal["both", "image", "text"] = "text"
    prototype: str = "both"

    name: ClassVar[str] = "orth-proj"
    summary: ClassVar[str] = "projection of texts off the span of group prompts"
    changes: ClassVar[tuple[str, ...]] = ("text",)
    needs: ClassVar[tuple[str, ...]] = ("prototypes, or an encoder (or text_table) and a book",)
    operator: ClassVar[type[Operator]] = OrthProjOperator

    def fit(self, context: FitContext) -> OrthProjOperator:
        if self.span not in ("prompts", "differences"):
            raise InputError(f'span={self.span!r} is not legal; pass "prompts" or "differences"')
        space = shared_space(self.name, context, np.inf, self.prototype)
        if self.span == "prompts":
            space = replace(space, basis=_span(space.parts[0].prototypes))
        params = {"span": self.span, "modality": self.modality, "prototype": self.prototype}
        return OrthProjOperator(context.attribute, space, changes_of(self.modality), encoder=context.encoder, params=params)


def _span(rows: np.ndarray) -> np.ndarray:
    """Orthonormal basis (d, r) of what the rows span, uncentred."""
    _, sizes, directions = np.linalg.svd(rows, full_matrices=False)
    return np.ascontiguousarray(directions[sizes > RANK_TOLERANCE * sizes[0]].T)


METHOD = OrthProj
