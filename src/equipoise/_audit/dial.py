"""The dial: what every kappa would give, for the page.

A small audit's page carries the data and computes any kappa exactly; every page has a grid.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeGuard

import numpy as np

from equipoise._audit.association import leans
from equipoise._audit.results import DialFindings
from equipoise._certificate import frontier
from equipoise._space import AttributeSpace
from equipoise.errors import InputError
from equipoise.evaluation._retrieval import rank
from equipoise.methods._spaces import SpaceOperator
from equipoise.metrics._labels import Coded
from equipoise.metrics._retrieval import Ranking

FINE = (0.0, 0.01, 0.03, 0.1, 0.3, 0.5, 1.0, 2.0, 3.0, 10.0, 30.0, 100.0, np.inf)
COARSE = (0.0, 0.1, 0.3, 1.0, 3.0, 10.0, np.inf)
# image-prompt pairs up to which a page carries the scores and computes any kappa itself
PAIRS = 200_000


class Inputs(NamedTuple):
    """What all kappas share.

    texts, images: unit rows; images is None in a text-only audit. groups: of the images.
    """

    texts: np.ndarray
    prompts: list[str]
    prototypes: np.ndarray
    images: np.ndarray | None = None
    groups: Coded | None = None
    m: int = 0

    @property
    def pairs(self) -> int:
        """Return the number of pairs of an image and a prompt."""
        if self.images is None:
            return 0
        return len(self.images) * len(self.texts)

    @property
    def exact(self) -> bool:
        """Return whether the page can carry the data itself."""
        return self.pairs <= PAIRS


def turnable(operator: Any) -> TypeGuard[SpaceOperator]:
    """Return whether kappa is this operator's dial."""
    return (
        isinstance(operator, SpaceOperator)
        and isinstance(operator.space, AttributeSpace)
        and "kappa" in operator.params
    )


def _space(operator: SpaceOperator) -> AttributeSpace:
    if not isinstance(operator.space, AttributeSpace):
        raise InputError("an operator with one space per prompt has no dial")
    return operator.space


def kappa(operator: SpaceOperator) -> float:
    """Return the kappa that an operator was fitted at."""
    return _space(operator).kappa


def at(operator: SpaceOperator, kappa: float) -> SpaceOperator:
    """Return the same operator at another kappa."""
    return type(operator)(
        operator.attribute,
        _space(operator).with_kappa(kappa),
        operator.changes,
        encoder=operator.made_by,
    )


def grid(
    operator: SpaceOperator, inputs: Inputs, shown: int, ranked: Mapping[float, np.ndarray]
) -> tuple[DialFindings, list[np.ndarray]]:
    """Return the dial's document, and the first ``shown`` images of each prompt at each kappa.

    The document holds mean leakage and self-loss in the operator's own space, mean lean and mean
    skew at each kappa. ranked: the lists that were searched for already, by kappa.
    """
    kappas = FINE if inputs.exact else COARSE
    texts = _losses(operator, "text", inputs.texts, kappas)
    images = _losses(operator, "image", inputs.images, kappas)
    turned = {kappa: at(operator, kappa) for kappa in kappas}
    tops, max_skew = [], None
    if inputs.images is not None and inputs.groups is not None:
        unknown = int((~inputs.groups.known).sum())
        depth = max(inputs.m, shown) + unknown
        for kappa, one in turned.items():
            if kappa in ranked:
                tops.append(ranked[kappa])
            else:
                tops.append(rank(one, inputs.images, inputs.texts, inputs.prompts, depth))
        max_skew = [_mean_skew(top, inputs.groups, inputs.m) for top in tops]
    document = DialFindings(
        kappas=[*kappas],
        changes=list(operator.changes),
        leakage_texts=texts.leakage,
        leakage_images=images.leakage,
        self_loss_texts=texts.self_loss,
        self_loss_images=images.self_loss,
        lean=[_mean_lean(one, inputs) for one in turned.values()],
        max_skew=max_skew,
    )
    return document, [top[:, :shown] for top in tops]


class _DialLosses(NamedTuple):
    """Mean leakage and self-loss at each kappa; None where the rows do not change."""

    leakage: list[float] | None = None
    self_loss: list[float] | None = None


def _losses(
    operator: SpaceOperator, modality: str, rows: np.ndarray | None, kappas: Sequence[float]
) -> _DialLosses:
    if rows is None or modality not in operator.changes:
        return _DialLosses()
    front = frontier(rows, _space(operator), kappas)
    return _DialLosses(front.leakage.tolist(), front.self_loss.tolist())


def _mean_skew(top: np.ndarray, groups: Coded, m: int) -> float:
    """Return the mean skew of the prompts' lists."""
    skews = Ranking.of(top=top, groups=groups).max_skew(m)
    return float(skews.mean()[0])


def _mean_lean(operator: SpaceOperator, inputs: Inputs) -> float:
    """Return how far the prompts lean to the nearest group, on average."""
    texts = np.asarray(operator.text(inputs.texts))
    return float(leans(texts, inputs.prototypes).max(1).mean())


def arrays(operators: dict[int, SpaceOperator], inputs: Inputs) -> dict[str, np.ndarray]:
    """Return what the page needs to compute any kappa.

    That is similarities, and coordinates in each operator's space. operators: by their place among
    the methods.
    """
    texts, prototypes = inputs.texts.astype(np.float64), inputs.prototypes
    found = {"text_group": texts @ prototypes.T}
    if inputs.images is not None and inputs.groups is not None and inputs.exact:
        found["scores"] = inputs.images.astype(np.float64) @ texts.T
        found["codes"] = inputs.groups.codes
    for place, operator in operators.items():
        basis = _space(operator).basis
        found[f"{place}.texts"] = texts @ basis
        found[f"{place}.prototypes"] = prototypes @ basis
        if inputs.images is not None and inputs.exact:
            found[f"{place}.images"] = inputs.images.astype(np.float64) @ basis
    return {name: array.astype(np.float32) for name, array in found.items()}
