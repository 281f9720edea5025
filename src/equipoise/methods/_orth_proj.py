"""``orth-proj``: texts projected off the group prompts (Chuang et al. 2023).

The span is not centred, so what the prompts share goes too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from equipoise import geometry
from equipoise.errors import InputError
from equipoise.geometry import Float64
from equipoise.methods._closed_form import changes_of, shared_space
from equipoise.methods._context import FitContext
from equipoise.methods._operator import Operator
from equipoise.methods._registry import Method
from equipoise.methods._spaces import SpaceOperator
from equipoise.methods._texts import labelled_texts, prototypes

Span = Literal["prompts", "texts", "differences"]


class OrthProjOperator(SpaceOperator):
    """The closed form at kappa = infinity, which is the projection."""

    method = "orth-proj"


@dataclass(frozen=True)
class OrthProj(Method):
    """Parameters of ``orth-proj``.

    span: "prompts" (one prototype per group), "texts" (each by itself) or "differences" (the
    attribute space, which takes less away).
    """

    span: Span = "prompts"
    modality: Literal["both", "image", "text"] = "text"
    prototype: str = "both"

    name: ClassVar[str] = "orth-proj"
    summary: ClassVar[str] = "projection of texts off the span of group prompts"
    source: ClassVar[str] = "Chuang et al. 2023"
    needs: ClassVar[tuple[str, ...]] = ("prompts",)
    changes: ClassVar[tuple[str, ...]] = ("text",)
    tasks: ClassVar[tuple[str, ...]] = ("classification", "retrieval", "generation")
    generation: ClassVar[Mapping[str, Any] | None] = {}
    operator: ClassVar[type[Operator]] = OrthProjOperator

    def fit(self, context: FitContext) -> OrthProjOperator:
        basis = span_of(self.span, self.name, context, self.prototype)
        space = replace(shared_space(self.name, context, np.inf, self.prototype), basis=basis)
        params = {"span": self.span, "modality": self.modality, "prototype": self.prototype}
        return OrthProjOperator(
            context.attribute,
            space,
            changes_of(self.modality),
            encoder=context.encoder,
            params=params,
        )


def span_of(span: str, method: str, context: FitContext, prototype: str) -> Float64:
    """Return an orthonormal basis (d, r) of what a method projects off."""
    if span == "differences":
        return geometry.attribute_basis(prototypes(method, context, prototype))[0]
    if span not in ("prompts", "texts"):
        raise InputError(f'span={span!r} is not legal; pass "prompts", "texts" or "differences"')
    if span == "prompts":
        rows = prototypes(method, context, prototype)
    else:
        rows, _ = labelled_texts(method, context)
    basis = geometry.span_basis(rows)
    require_little(method, basis, f"{len(rows)} texts", "pass span=prompts")
    return basis


def require_little(method: str, basis: Float64, what: str, otherwise: str) -> None:
    """Raise where a basis (d, r) holds more than half of the dimensions."""
    dim, rank = basis.shape
    if rank > dim // 2:
        raise InputError(
            f"{method}: {what} span {rank} of {dim} dimensions, so little would be left;"
            f" {otherwise}"
        )


METHOD = OrthProj
