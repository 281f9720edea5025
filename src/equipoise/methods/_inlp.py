"""``inlp``: images projected off one linear classifier of the group after another.

Iterative null-space projection (Ravfogel et al. 2020): each classifier is trained on what the ones
before it have left, until one does no better than the most frequent group.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import ClassVar

import numpy as np

from equipoise import geometry
from equipoise.errors import InputError
from equipoise.geometry import Float64
from equipoise.kernels._recipe import LowRank
from equipoise.methods._context import FitContext
from equipoise.methods._fitting_rows import labelled_images
from equipoise.methods._low_rank import LowRankOperator
from equipoise.methods._operator import Modality, Operator
from equipoise.methods._registry import Method

FEW = 8  # rows per group, of which a quarter is held out
HELD_OUT = 0.25


class InlpOperator(LowRankOperator):
    """The projection off all classifiers."""

    method = "inlp"


@dataclass(frozen=True)
class Inlp(Method):
    """Parameters of ``inlp``.

    rounds: classifiers at most; each takes one direction away for two groups, and as many as there
    are groups for more. renormalise: False, as in the code, leaves rows the length that is left.
    """

    rounds: int = 20
    renormalise: bool = False

    name: ClassVar[str] = "inlp"
    summary: ClassVar[str] = "images projected off linear classifiers of the group, one by one"
    source: ClassVar[str] = "Ravfogel et al. 2020"
    needs: ClassVar[tuple[str, ...]] = ("images", "sensitive_features")
    training: ClassVar[str] = "linear classifiers"
    changes: ClassVar[tuple[str, ...]] = ("image",)
    tasks: ClassVar[tuple[str, ...]] = ()
    licence: ClassVar[str] = "MIT"
    operator: ClassVar[type[Operator]] = InlpOperator

    def fit(self, context: FitContext) -> InlpOperator:
        rows, codes = labelled_images(self.name, context, FEW)
        basis = classifier_space(rows, codes, self.rounds, context.seed)
        maps: dict[Modality, LowRank] = {"image": LowRank.projection(basis)}
        params = asdict(self) | {"images": len(rows), "rank": basis.shape[1]}
        return InlpOperator(
            context.attribute, maps, self.renormalise, encoder=context.encoder, params=params
        )


def classifier_space(rows: Float64, codes: np.ndarray, rounds: int, seed: int) -> Float64:
    """Return a basis (d, r) of what linear classifiers read the groups by, one after another.

    It ends where a classifier is right about held-out rows no more often than the most frequent
    group is there; at most half of the dimensions go.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import train_test_split

    if rounds < 1:
        raise InputError(f"rounds={rounds} is not legal; pass a whole number from 1")
    dim = rows.shape[1]
    centred = (rows - rows.mean(0)) * np.sqrt(dim)  # so that entries are about one
    fitted, held = train_test_split(
        np.arange(len(rows)), test_size=HELD_OUT, random_state=seed, stratify=codes
    )
    most = np.bincount(codes[held]).max() / len(held)
    basis = np.zeros((dim, 0))
    for _ in range(rounds):
        left = centred - (centred @ basis) @ basis.T
        classifier = LogisticRegression(max_iter=1000).fit(left[fitted], codes[fitted])
        if classifier.score(left[held], codes[held]) <= most:
            break
        weights = classifier.coef_ - (classifier.coef_ @ basis) @ basis.T
        wider = np.hstack([basis, geometry.span_basis(weights)])
        if wider.shape[1] > dim // 2:
            break
        basis = wider
    if not basis.shape[1]:
        raise InputError(
            "no linear classifier reads the groups from these images better than a guess; there is"
            " nothing to take away"
        )
    return basis


METHOD = Inlp
