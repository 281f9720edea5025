"""``orth-proj``: texts projected off the group prompts (Chuang et al. 2023).

The span is not centred, so what the prompts share goes too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from equipoise import geometry
from equipoise.errors import InputError
from equipoise.geometry import Float64
from equipoise.methods._closed_form import changes_of, shared_space
from equipoise.methods._context import FitContext
from equipoise.methods._fitting_texts import labelled_texts, prototypes
from equipoise.methods._operator import Operator
from equipoise.methods._registry import Method
from equipoise.methods._spaces import SpaceOperator
from equipoise.prompts._prototypes import encode

Span = Literal["prompts", "texts", "differences"]


class OrthProjOperator(SpaceOperator):
    """The closed form at kappa = infinity, which is the projection."""

    method = "orth-proj"


@dataclass(frozen=True)
class OrthProj(Method):
    """Parameters of ``orth-proj``.

    span: "prompts" (one prototype per group), "texts" (each by itself) or "differences" (the
    attribute space, which takes less away). p0: texts of your own in place of the span, each by
    itself, as the authors list them; in one string, ";" stands between them.
    """

    span: Span = "prompts"
    p0: str | tuple[str, ...] = ()
    modality: Literal["both", "image", "text"] = "text"
    prototype: str = "both"

    name: ClassVar[str] = "orth-proj"
    summary: ClassVar[str] = "projection of texts off the span of group prompts"
    source: ClassVar[str] = "Chuang et al. 2023"
    needs: ClassVar[tuple[str, ...]] = ("prompts",)
    changes: ClassVar[tuple[str, ...]] = ("text",)
    tasks: ClassVar[tuple[str, ...]] = ("classification", "retrieval", "generation")
    generation: ClassVar[Mapping[str, Any] | None] = {}
    code: ClassVar[str] = "projects off each of six generic prompts by itself (p0=, span=texts)"
    licence: ClassVar[str] = "MIT"
    operator: ClassVar[type[Operator]] = OrthProjOperator

    def fit(self, context: FitContext) -> OrthProjOperator:
        basis = span_of(self.span, self.name, context, self.prototype, self.p0)
        space = replace(shared_space(self.name, context, np.inf, self.prototype), basis=basis)
        params = {
            "span": self.span,
            "p0": texts_of(self.p0),
            "modality": self.modality,
            "prototype": self.prototype,
        }
        return OrthProjOperator(
            context.attribute,
            space,
            changes_of(self.modality),
            encoder=context.encoder,
            params=params,
        )


def span_of(
    span: str, method: str, context: FitContext, prototype: str, p0: str | Sequence[str] = ()
) -> Float64:
    """Return an orthonormal basis (d, r) of what a method projects off.

    p0: texts in place of the span, where there are any.
    """
    if span not in ("prompts", "texts", "differences"):
        raise InputError(f'span={span!r} is not legal; pass "prompts", "texts" or "differences"')
    if texts := texts_of(p0):
        rows = _encoded(method, context, texts)
    elif span == "differences":
        return geometry.attribute_basis(prototypes(method, context, prototype))[0]
    elif span == "prompts":
        rows = prototypes(method, context, prototype)
    else:
        rows, _ = labelled_texts(method, context)
    basis = geometry.span_basis(rows)
    require_little(method, basis, f"{len(rows)} texts", "pass span=prompts")
    return basis


def texts_of(p0: str | Sequence[str]) -> list[str]:
    """Return the texts of a list, or of one string with ";" between them."""
    if isinstance(p0, str):
        p0 = p0.split(";")
    return [text.strip() for text in p0 if text.strip()]


def _encoded(method: str, context: FitContext, texts: list[str]) -> Float64:
    """Return unit rows of texts that a parameter names."""
    if context.text_encoder is None:
        raise InputError(
            f"{method} needs an encoder or text_table for the texts of p0, and the context lacks"
            " them"
        )
    return geometry.unit(encode(context.text_encoder, texts))


def require_little(method: str, basis: Float64, what: str, otherwise: str) -> None:
    """Raise where a basis (d, r) holds more than half of the dimensions."""
    dim, rank = basis.shape
    if rank > dim // 2:
        raise InputError(
            f"{method}: {what} span {rank} of {dim} dimensions, so little would be left;"
            f" {otherwise}"
        )


METHOD = OrthProj
