"""``orth-cali``: ``orth-proj``, calibrated on prompts (Chuang et al. 2023).

After the calibration, prompts that differ in the group alone coincide.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from equipoise.errors import InputError
from equipoise.geometry import Float64
from equipoise.kernels._recipe import LowRank
from equipoise.methods._closed_form import changes_of
from equipoise.methods._context import FitContext
from equipoise.methods._fitting_texts import differences, matched_texts
from equipoise.methods._low_rank import LowRankOperator
from equipoise.methods._operator import Operator
from equipoise.methods._orth_proj import Span, span_of, texts_of
from equipoise.methods._registry import Method, Strength

NOTHING = 2.0**-24  # of a direction: less than half a unit in float32's last place


class OrthCaliOperator(LowRankOperator):
    """The map ``nrm(P0 (I + lam M)^-1 t)``, as thin factors."""

    method = "orth-cali"


@dataclass(frozen=True)
class OrthCali(Method):
    """Parameters of ``orth-cali``.

    lam: 1000 for classification, 500 for generation; 0 is orth-proj. projection: False leaves P0
    out, as the code does for generation. span, p0, prototype: as in orth-proj. The pairs are the
    book's prompts in every two groups, or the given prototypes. The authors take P0 from generic
    prompts and the pairs from class prompts: p0="a photo of a man;a photo of a woman", say, beside
    a book of classes. With P0 from the texts of the pairs themselves (span="texts"), nothing is
    left to calibrate, and the method is orth-proj.
    """

    lam: float = 1000.0
    projection: bool = True
    span: Span = "prompts"
    p0: str | tuple[str, ...] = ()
    modality: Literal["both", "image", "text"] = "text"
    prototype: str = "both"

    name: ClassVar[str] = "orth-cali"
    summary: ClassVar[str] = "orth-proj, with prompts that differ in the group alone drawn together"
    source: ClassVar[str] = "Chuang et al. 2023"
    needs: ClassVar[tuple[str, ...]] = ("prompts",)
    changes: ClassVar[tuple[str, ...]] = ("text",)
    tasks: ClassVar[tuple[str, ...]] = ("classification", "retrieval", "generation")
    generation: ClassVar[Mapping[str, Any] | None] = {"lam": 500.0}
    sweep: ClassVar[Strength | None] = Strength(
        "lam", 0, (1, 10, 100, 1000, 10000), becomes="orth-proj"
    )
    code: ClassVar[str] = (
        "P0 comes from a list of generic prompts (p0=); generation leaves P0 out (projection=False)"
    )
    licence: ClassVar[str] = "MIT"
    operator: ClassVar[type[Operator]] = OrthCaliOperator

    def fit(self, context: FitContext) -> OrthCaliOperator:
        if not 0 <= self.lam < np.inf:
            raise InputError(f"lam={self.lam} is not legal; it is a number from 0 (orth-proj) on")
        pairs = matched_texts(self.name, context, self.prototype)
        basis = np.zeros((pairs.shape[-1], 0))
        if self.projection:
            basis = span_of(self.span, self.name, context, self.prototype, self.p0)
        changes = changes_of(self.modality)
        params = {
            "lam": self.lam,
            "projection": self.projection,
            "span": self.span,
            "p0": texts_of(self.p0),
            "modality": self.modality,
            "prototype": self.prototype,
        }
        low_rank = calibrated(basis, differences(pairs), self.lam)
        return OrthCaliOperator(
            context.attribute,
            dict.fromkeys(changes, low_rank),
            True,
            encoder=context.encoder,
            params=params,
        )


def calibrated(basis: Float64, rows: Float64, lam: float) -> LowRank:
    """Return what ``P0 (I + lam M)^-1`` takes away.

    P0 projects off the basis (d, r), and M is the Gram matrix of rows (n, d). With the singular
    values s and directions W of the rows, (I + lam M)^-1 = I - W diag(lam s^2 / (1 + lam s^2)) W^T:
    Woodbury's identity, with nothing left to invert. A direction whose share rounds to nothing is
    left out.
    """
    _, sizes, directions = np.linalg.svd(rows, full_matrices=False)
    shares = lam * sizes**2 / (1 + lam * sizes**2)
    kept = shares > NOTHING
    w, shares = directions[kept].T, shares[kept]
    drawn = w * shares
    outside = drawn - basis @ (basis.T @ drawn)
    return LowRank(np.hstack([basis, w]), np.hstack([basis, outside]))


METHOD = OrthCali
