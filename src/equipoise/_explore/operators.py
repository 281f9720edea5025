"""The operators of a page: fitted when first asked for, and kept, a bounded number of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from equipoise import methods
from equipoise._explore.collection import Collection
from equipoise._explore.question import Controls
from equipoise._search import RecentScores
from equipoise.errors import InputError
from equipoise.methods import FitContext, Operator
from equipoise.methods._balanced_operator import BalancedOperator
from equipoise.prompts._attribute import Attribute

PROTOTYPE = "anchor"  # as a balanced search has it; variants take ten times as long to encode
KEPT = 32  # operators that differ in attribute, method or strength
FIT_PLACES = 20  # of the page that an operator is fitted for, before it is revised

# Fits the operator of a balanced search: attribute, rows, places, encoder.
FitBalanced = Callable[[Attribute, np.ndarray, int, Any], BalancedOperator]
# Returns what methods are fitted on: attribute, rows, encoder.
MakeContext = Callable[[Attribute, np.ndarray, Any], FitContext]


class Operators:
    """Operators by the controls of a page, on one collection."""

    def __init__(
        self,
        collection: Collection,
        encoder: Any,
        attributes: Mapping[str, Attribute],
        fit_balanced: FitBalanced,
        make_context: MakeContext,
    ):
        self.collection, self.encoder, self.attributes = collection, encoder, attributes
        self._fit_balanced, self._make_context = fit_balanced, make_context
        self.recent = RecentScores()  # both rows of a search have the same scores
        self._bases: dict[str, BalancedOperator | InputError] = {}
        self.context = lru_cache(KEPT)(self._context)
        self._fitted = lru_cache(KEPT)(self._fit)

    def base(self, attribute: str) -> BalancedOperator:
        """Return the balanced operator of an attribute, which sees a group in each image.

        Raises, each time, where the prompts cannot tell its groups apart.
        """
        if attribute not in self._bases:
            places = min(FIT_PLACES, len(self.collection))
            named = self.attributes[attribute]
            try:
                fitted = self._fit_balanced(named, self.collection.rows, places, self.encoder)
                fitted.remember(self.recent)
            except InputError as error:
                fitted = error
            self._bases[attribute] = fitted
        found = self._bases[attribute]
        if isinstance(found, InputError):
            raise InputError(str(found))
        return found

    def balanced(self, controls: Controls, *, nearest: bool) -> BalancedOperator:
        """Return the balanced operator that the controls ask for."""
        return self.base(controls.attribute).revised(
            k=controls.k,
            target=controls.target_shares(),
            strength=controls.strength,
            nearest=nearest,
        )

    def method(self, controls: Controls) -> Operator:
        """Return the operator of another method than ``balanced``."""
        return self._fitted(controls.attribute, controls.method, controls.strength)

    def _context(self, attribute: str) -> FitContext:
        named = self.attributes[attribute]
        return self._make_context(named, self.collection.rows, self.encoder)

    def _fit(self, attribute: str, method: str, strength: float) -> Operator:
        params: dict[str, Any] = {"prototype": PROTOTYPE}
        if method == "closed-form":
            params["kappa"] = kappa_at(strength)
        return methods.create(method, **params).fit(self.context(attribute))


def kappa_at(strength: float) -> float:
    """Return the kappa of a strength: 0 is the identity, 0.5 the paper, 1 the projection."""
    return math.inf if strength == 1 else strength / (1 - strength)
