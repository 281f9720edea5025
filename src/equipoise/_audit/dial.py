"""The dial: what every kappa would give, for the page.

Exact for small audits, which the page computes itself; a grid for all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeGuard

import numpy as np

from equipoise._audit.association import leans
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
    """What all kappas share: unit rows of texts and images (None for text-only), the prototypes,
    and the images' groups.
    """

    texts: np.ndarray
    prompts: list[str]
    prototypes: np.ndarray
    images: np.ndarray | None = None
    groups: Coded | None = None
    m: int = 0

    @property
    def pairs(self) -> int:
        return 0 if self.images is None else len(self.images) * len(self.texts)

    @property
    def exact(self) -> bool:
        """Whether the page can carry the data itself."""
        return self.pairs <= PAIRS


def turnable(operator: Any) -> TypeGuard[SpaceOperator]:
    """Whether kappa is this operator's dial."""
    return (
        isinstance(operator, SpaceOperator)
        and isinstance(operator.space, AttributeSpace)
        and "kappa" in operator.params
    )


def _space(operator: SpaceOperator) -> AttributeSpace:
    if not isinstance(operator.space, AttributeSpace):
        raise InputError("an operator with a space a prompt has no dial")
    return operator.space


def kappa(operator: SpaceOperator) -> float:
    """Where the dial stands."""
    return _space(operator).kappa


def at(operator: SpaceOperator, kappa: float) -> SpaceOperator:
    """The same operator at another kappa."""
    return type(operator)(
        operator.attribute,
        _space(operator).with_kappa(kappa),
        operator.changes,
        encoder=operator.made_by,
    )


def grid(
    operator: SpaceOperator, inputs: Inputs, shown: int, ranked: Mapping[float, np.ndarray]
) -> tuple[dict[str, Any], list[np.ndarray]]:
    """Leakage and self-loss (means, in the operator's own space), mean lean and mean skew at each
    kappa; and the first lists of each.

    ranked: the lists of kappas that were searched for already.
    """
    kappas, space = FINE if inputs.exact else COARSE, _space(operator)
    document: dict[str, Any] = {"kappas": list(kappas), "changes": list(operator.changes)}
    for name, rows in (("texts", inputs.texts), ("images", inputs.images)):
        changed = rows is not None and name[:-1] in operator.changes
        front = frontier(rows, space, kappas) if rows is not None and changed else None
        document[f"leakage_{name}"] = None if front is None else front.leakage.tolist()
        document[f"self_loss_{name}"] = None if front is None else front.self_loss.tolist()
    document["lean"], skews, tops = [], [], []
    unknown = 0 if inputs.groups is None else int((~inputs.groups.known).sum())
    depth = max(inputs.m, shown) + unknown
    for kappa in kappas:
        turned = at(operator, kappa)
        document["lean"].append(
            float(leans(np.asarray(turned.text(inputs.texts)), inputs.prototypes).max(1).mean())
        )
        if inputs.images is not None and inputs.groups is not None:
            top = (
                ranked[kappa]
                if kappa in ranked
                else rank(turned, inputs.images, inputs.texts, inputs.prompts, depth)
            )
            skews.append(
                float(Ranking.of(top=top, groups=inputs.groups).max_skew(inputs.m).mean()[0])
            )
            tops.append(top[:, :shown])
    return document | {"max_skew": skews or None}, tops


def arrays(operators: dict[int, SpaceOperator], inputs: Inputs) -> dict[str, np.ndarray]:
    """What the page needs to compute any kappa: similarities, and coordinates in each operator's
    space (by its place among methods).
    """
    texts, prototypes = inputs.texts.astype(np.float64), inputs.prototypes
    found = {"text_group": texts @ prototypes.T}
    if inputs.images is not None and inputs.groups is not None and inputs.exact:
        found |= {
            "scores": inputs.images.astype(np.float64) @ texts.T,
            "codes": inputs.groups.codes,
        }
    for place, operator in operators.items():
        basis = _space(operator).basis
        found |= {f"{place}.texts": texts @ basis, f"{place}.prototypes": prototypes @ basis}
        if inputs.images is not None and inputs.exact:
            found[f"{place}.images"] = inputs.images.astype(np.float64) @ basis
    return {name: array.astype(np.float32) for name, array in found.items()}
