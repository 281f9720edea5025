"""``roboshot``: images without the differences that do not matter (Adila et al. 2024).

Differences that do matter are doubled.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from equipoise import geometry
from equipoise.errors import InputError
from equipoise.geometry import RANK_TOLERANCE, Float64
from equipoise.kernels._recipe import LowRank
from equipoise.methods._context import FitContext
from equipoise.methods._fitting_texts import differences, matched_texts
from equipoise.methods._low_rank import LowRankOperator
from equipoise.methods._operator import Operator
from equipoise.methods._orth_proj import require_little
from equipoise.methods._registry import Method
from equipoise.prompts._prototypes import encode

Pairs = tuple[tuple[str, str], ...]


class RoboShotOperator(LowRankOperator):
    """The map ``nrm((I + Qt Qt^T)(I - Qs Qs^T) x)``.

    It is the closed form of the code's loop over directions.
    """

    method = "roboshot"


@dataclass(frozen=True)
class RoboShot(Method):
    """Parameters of ``roboshot``.

    reject, accept: pairs of texts, as a language model would name them; without reject, the book's
    prompts in every two groups. tolerance: directions weaker than this fraction of the strongest
    stay in the images; 0.1 or so spares those that are the noise of near-duplicates. Where more
    than half of the dimensions would be rejected, the fit is refused.
    """

    reject: Pairs = ()
    accept: Pairs = ()
    prototype: str = "both"
    tolerance: float = RANK_TOLERANCE

    name: ClassVar[str] = "roboshot"
    summary: ClassVar[str] = "spurious differences taken out of images, true ones doubled"
    source: ClassVar[str] = "Adila et al. 2024"
    needs: ClassVar[tuple[str, ...]] = ("prompts",)
    changes: ClassVar[tuple[str, ...]] = ("image",)
    tasks: ClassVar[tuple[str, ...]] = ("classification",)
    code: ClassVar[str] = (
        "changes images only; Table 1 says both modalities. Its own pairs for CelebA do not name"
        " gender"
    )
    licence: ClassVar[str] = "none given"
    operator: ClassVar[type[Operator]] = RoboShotOperator

    def fit(self, context: FitContext) -> RoboShotOperator:
        if not 0 <= self.tolerance < 1:
            raise InputError(
                f"tolerance={self.tolerance} is not legal; it is a fraction of the strongest"
                " direction, from 0 to below 1"
            )
        if self.reject:
            rejected = self._encoded(context, self.reject)
        else:
            rejected = differences(matched_texts(self.name, context, self.prototype))
        spurious = geometry.span_basis(rejected, self.tolerance)
        require_little(
            self.name,
            spurious,
            "differences of the groups",
            "pass a larger tolerance, such as 0.1, or fewer pairs (reject)",
        )
        true = spurious[:, :0]
        if self.accept:
            true = geometry.span_basis(self._encoded(context, self.accept), self.tolerance)
        params = {
            "reject": list(self.reject),
            "accept": list(self.accept),
            "prototype": self.prototype,
            "tolerance": self.tolerance,
        }
        return RoboShotOperator(
            context.attribute,
            {"image": both(spurious, true)},
            True,
            encoder=context.encoder,
            params=params,
        )

    def _encoded(self, context: FitContext, pairs: Pairs) -> Float64:
        """Return the differences (pairs, d) of unit embeddings."""
        if any(isinstance(pair, str) or len(pair) != 2 for pair in pairs):
            raise InputError(
                f"{self.name} takes pairs of texts, and {pairs!r} was given; pass ((one, other),"
                " ...)"
            )
        if context.text_encoder is None:
            raise InputError(
                f"{self.name} needs an encoder or text_table for its pairs, which the context lacks"
            )
        texts = [text for pair in pairs for text in pair]
        rows = geometry.unit(encode(context.text_encoder, texts))
        return rows[::2] - rows[1::2]


def both(spurious: Float64, true: Float64) -> LowRank:
    """Return what ``(I + Qt Qt^T)(I - Qs Qs^T)`` takes away: Qs Qs^T - Qt ((I - Qs Qs^T) Qt)^T."""
    if not true.shape[1]:
        return LowRank.projection(spurious)
    outside = true - spurious @ (spurious.T @ true)
    return LowRank(np.hstack([spurious, outside]), np.hstack([spurious, -true]))


METHOD = RoboShot
