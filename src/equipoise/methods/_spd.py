"""``spd``: ``inlp`` on images and texts, with a neutral mean put back (Zhao et al. 2025).

What linear classifiers read the group by is projected away, and every row gets the same neutral
component there: that of the mean row of which a random forest cannot tell the group, as in
``sfid``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from equipoise.errors import InputError
from equipoise.geometry import Float64
from equipoise.kernels._recipe import LowRank
from equipoise.methods._closed_form import changes_of
from equipoise.methods._context import FitContext
from equipoise.methods._fitting_rows import labelled_images, require_groups
from equipoise.methods._fitting_texts import labelled_texts
from equipoise.methods._inlp import classifier_space
from equipoise.methods._low_rank import LowRankOperator
from equipoise.methods._operator import Modality, Operator
from equipoise.methods._registry import Method
from equipoise.methods._sfid import FEW, Sfid, unsure_of


class SpdOperator(LowRankOperator):
    """The projection, and the neutral component."""

    method = "spd"


@dataclass(frozen=True)
class Spd(Method):
    """Parameters of ``spd``.

    directions: how many directions are projected away at most, the first that classifiers find.
    neutral: "low-confidence" is the mean of rows that a forest is less sure of than tau; "groups"
    is the mean of the groups' means. The text part is fitted on the book's texts; modality="image"
    does without.
    """

    directions: int = 5
    neutral: Literal["low-confidence", "groups"] = "low-confidence"
    tau: float = 0.7
    renormalise: bool = True
    modality: Literal["both", "image", "text"] = "both"

    name: ClassVar[str] = "spd"
    summary: ClassVar[str] = "inlp on images and texts, with a neutral mean put back"
    source: ClassVar[str] = "Zhao et al. 2025"
    needs: ClassVar[tuple[str, ...]] = ("images", "sensitive_features", "prompts")
    training: ClassVar[str] = "linear classifiers"
    tasks: ClassVar[tuple[str, ...]] = ("classification", "retrieval", "generation")
    generation: ClassVar[Mapping[str, Any] | None] = None
    code: ClassVar[str] = "could not be read here; five directions and tau 0.7 are the paper's"
    operator: ClassVar[type[Operator]] = SpdOperator

    def fit(self, context: FitContext) -> SpdOperator:
        self._check()
        maps: dict[Modality, LowRank] = {}
        for modality in changes_of(self.modality):
            if modality == "image":
                rows, codes = labelled_images(self.name, context, FEW)
            else:
                rows, codes = self._texts(context)
            maps[modality] = self._map(rows, codes, context.seed)
        return SpdOperator(
            context.attribute, maps, self.renormalise, encoder=context.encoder, params=asdict(self)
        )

    def _check(self) -> None:
        if self.neutral not in ("low-confidence", "groups"):
            raise InputError(
                f'neutral={self.neutral!r} is not legal; pass "low-confidence" or "groups"'
            )
        if self.directions < 1:
            raise InputError(
                f"directions={self.directions} is not legal; pass a whole number from 1"
            )

    def _texts(self, context: FitContext) -> tuple[Float64, np.ndarray]:
        rows, codes = labelled_texts(self.name, context)
        groups = context.attribute.groups
        counts = np.bincount(codes, minlength=len(groups))
        otherwise = "take a larger book, or pass modality=image"
        require_groups(self.name, counts, groups, FEW, "texts", otherwise)
        return rows, codes

    def _map(self, rows: Float64, codes: np.ndarray, seed: int) -> LowRank:
        basis = classifier_space(rows, codes, self.directions, seed)[:, : self.directions]
        neutral = self._neutral(rows, codes, seed)
        return LowRank(basis, basis, -basis @ (basis.T @ neutral))

    def _neutral(self, rows: Float64, codes: np.ndarray, seed: int) -> Float64:
        if self.neutral == "groups":
            means = [rows[codes == group].mean(0) for group in np.unique(codes)]
            return np.mean(means, axis=0)
        _, rest, probabilities = Sfid().forest(rows, codes, 0, seed)
        return rows[rest[unsure_of(probabilities, self.tau)]].mean(0)


METHOD = Spd
