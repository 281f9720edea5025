"""Debiasing as scikit-learn does things: transformers for pipelines, and a scorer for searches."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal

import numpy as np

from equipoise._debiasing import debias
from equipoise._space import AttributeSpace
from equipoise.errors import InputError, MissingExtraError
from equipoise.kernels._recipe import preference
from equipoise.methods import FitContext, Operator, create
from equipoise.methods._fitting_rows import group_codes, unit_rows
from equipoise.metrics import equal_opportunity
from equipoise.metrics._labels import encode_groups
from equipoise.prompts._attribute import READY_MADE, Attribute

try:
    from sklearn import config_context
    from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
    from sklearn.metrics import balanced_accuracy_score, make_scorer
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError:
    raise MissingExtraError("equipoise.sklearn", "scikit-learn 1.6 or newer", "sklearn") from None

__all__ = ["Debiaser", "MethodDebiaser", "fair_scorer"]

GroupsFrom = Literal["sensitive_features", "y"]
Norm = Literal["unit", "keep"]
OnInvalidRows = Literal["raise", "keep"]
FLOATS = (np.float64, np.float32)
ROUTING = "sklearn.set_config(enable_metadata_routing=True)"


class _Debiasing(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """What both transformers share: rows are checked, and groups are read, in one way."""

    # With routing on, a pipeline hands sensitive_features over without a request from the user.
    __metadata_request__fit: ClassVar = {"sensitive_features": True}

    attribute: Attribute | str | None
    groups_from: GroupsFrom
    n_features_in_: int

    def _rows(self, X: Any, *, reset: bool) -> np.ndarray:
        least = 2 if reset else 1  # of a fitted one, the number of features is known
        rows: Any = validate_data(self, X, dtype=FLOATS, reset=reset, ensure_min_features=least)
        return rows

    def _labels(self, y: Any, sensitive_features: Any, rows: int) -> Any:
        """Return the group of each row, or None where nobody said."""
        if self.groups_from not in ("sensitive_features", "y"):
            raise InputError(
                f"groups_from={self.groups_from!r} is not legal; pass 'sensitive_features' or 'y'"
            )
        if self.groups_from == "sensitive_features":
            labels, said = sensitive_features, "sensitive_features"
        else:
            labels, said = y, "y"
            if y is None:
                raise InputError(
                    "groups_from='y' requires y to be passed, but the target y is None"
                )
        if labels is None:
            return None
        found = encode_groups(labels, rows)
        if len(found.labels) < 2:
            only = list(found.labels)
            raise InputError(f"{said} holds 1 class, {only}; pass rows of two groups or more")
        return labels

    def _attribute(self, labels: Any) -> Attribute:
        """Return the attribute itself, a ready-made one by name, or one with the labels' groups."""
        if isinstance(self.attribute, Attribute):
            return self.attribute
        name = self.attribute
        if name is not None and not isinstance(name, str):
            raise InputError(
                f"attribute={name!r} is not legal; pass an eq.Attribute, or the name of one"
            )
        if name is not None and _ready_made(name):
            return Attribute.load(name)
        if labels is None:
            raise InputError(
                f"attribute={name!r} does not say which groups there are; pass an eq.Attribute,"
                f" or one of {', '.join(READY_MADE)}"
            )
        groups = {label: str(label) for label in encode_groups(labels).labels}
        return Attribute(name or "attribute", tuple(groups.values()), labels=groups)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = self.groups_from == "y"
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class Debiaser(_Debiasing):
    """Debias embeddings in closed form, as a step of a scikit-learn pipeline.

    space: an ``AttributeSpace`` or its file. Without one, ``fit`` takes each group's mean
    direction, so it needs the group of each row, as ``sensitive_features``. attribute: an
    ``eq.Attribute``, the name of a ready-made one, or any name for the groups that the labels
    hold. kappa, norm, on_invalid: as ``eq.debias`` takes them. groups_from: "y" where y holds the
    groups.
    """

    def __init__(
        self,
        attribute: Attribute | str | None = None,
        kappa: float | None = None,
        *,
        space: AttributeSpace | str | os.PathLike[str] | None = None,
        norm: Norm = "unit",
        on_invalid: OnInvalidRows = "raise",
        groups_from: GroupsFrom = "sensitive_features",
    ):
        self.attribute: Attribute | str | None = attribute
        self.kappa: float | None = kappa
        self.space: AttributeSpace | str | os.PathLike[str] | None = space
        self.norm: Norm = norm
        self.on_invalid: OnInvalidRows = on_invalid
        self.groups_from: GroupsFrom = groups_from

    def fit(self, X: Any, y: Any = None, *, sensitive_features: Any = None) -> Debiaser:
        """Fit the attribute space, or check the given one; return self.

        sensitive_features: the group of each row of X (n, d).
        """
        if isinstance(self.kappa, int | float | str):
            preference(self.kappa, None)  # raises for what is not legal
        rows = self._rows(X, reset=True)
        labels = self._labels(y, sensitive_features, len(rows))
        space = self._given_space()
        if space is None:
            if labels is None:
                raise InputError(
                    "Debiaser knows no groups: pass Debiaser(space=...), fit(X,"
                    " sensitive_features=...) with the group of each row, in a pipeline"
                    f" fit(X, y, STEP__sensitive_features=...), or with {ROUTING}"
                    " fit(X, y, sensitive_features=...)"
                )
            space = _labelled_space(rows, labels, self._attribute(labels))
        if space.dim != rows.shape[1]:
            raise InputError(
                f"X has {rows.shape[1]} features and the space {space.dim} dimensions; fit it on"
                " embeddings of the same encoder"
            )
        self.space_: AttributeSpace = space
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Return the debiased rows (n, d)."""
        check_is_fitted(self)
        rows = self._rows(X, reset=False)
        return debias(
            rows, self.space_, kappa=self.kappa, norm=self.norm, on_invalid=self.on_invalid
        )

    def _given_space(self) -> AttributeSpace | None:
        if isinstance(self.space, str | os.PathLike):
            return AttributeSpace.load(self.space)
        if self.space is not None and not isinstance(self.space, AttributeSpace):
            raise InputError(
                f"space is of type {type(self.space).__name__}; pass an AttributeSpace, the file of"
                " one, or None"
            )
        return self.space


class MethodDebiaser(_Debiasing):
    """Debias embeddings with any method of ``eq.methods.names()``, as a step of a pipeline.

    params: the method's own parameters. known: what else the method may be fitted on, by the names
    of ``eq.FitContext``: prototypes, encoder, book, text_table, class_prompts, captions. modality:
    whether X holds "image" or "text" rows. y is the class of each row, for methods that use it.
    """

    def __init__(
        self,
        method: str = "leace",
        attribute: Attribute | str | None = None,
        *,
        params: Mapping[str, Any] | None = None,
        known: Mapping[str, Any] | None = None,
        modality: Literal["image", "text"] = "image",
        seed: int = 0,
        groups_from: GroupsFrom = "sensitive_features",
    ):
        self.method: str = method
        self.attribute: Attribute | str | None = attribute
        self.params: Mapping[str, Any] | None = params
        self.known: Mapping[str, Any] | None = known
        self.modality: Literal["image", "text"] = modality
        self.seed: int = seed
        self.groups_from: GroupsFrom = groups_from

    def fit(self, X: Any, y: Any = None, *, sensitive_features: Any = None) -> MethodDebiaser:
        """Fit the method on rows X (n, d), their groups and their classes y; return self."""
        rows = self._rows(X, reset=True)
        labels = self._labels(y, sensitive_features, len(rows))
        if self.modality not in ("image", "text"):
            raise InputError(f"modality={self.modality!r} is not legal; pass 'image' or 'text'")
        context = FitContext(
            self._attribute(labels),
            images=rows,
            sensitive_features=labels,
            labels=None if self.groups_from == "y" else y,
            seed=self.seed,
            **dict(self.known or {}),
        )
        operator = create(self.method, **dict(self.params or {})).fit(context)
        if self.modality not in operator.changes:
            changed = " and ".join(operator.changes) or "nothing"
            raise InputError(
                f"{self.method} leaves {self.modality}s as they are; it changes {changed}, so pass"
                " another method or modality"
            )
        self.operator_: Operator = operator
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Return the debiased rows (n, the operator's width)."""
        check_is_fitted(self)
        rows = self._rows(X, reset=False)
        change = self.operator_.image if self.modality == "image" else self.operator_.text
        return np.asarray(change(rows), dtype=rows.dtype)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of X's columns, or numbered ones where the method makes others."""
        check_is_fitted(self)
        if self.operator_.out_dim == self.n_features_in_:
            same: Any = super().get_feature_names_out(input_features)
            return same
        names = [f"{self.method}{i}" for i in range(self.operator_.out_dim)]
        return np.array(names, dtype=object)


def fair_scorer(
    weight: float = 1.0,
    *,
    utility: Callable[..., float] = balanced_accuracy_score,
    gap: Callable[..., float] = equal_opportunity,
) -> Any:
    """Return a scorer for ``GridSearchCV``: utility minus weight times the gap between groups.

    A gap alone is smallest for a classifier that says the same of everybody. utility(y_true,
    y_pred); gap(y_true, y_pred, sensitive_features=). The scorer needs the group of each row, so
    turn scikit-learn's metadata routing on and pass ``sensitive_features`` to the search's fit.
    """
    with config_context(enable_metadata_routing=True):
        return make_scorer(_FairScore(weight, utility, gap)).set_score_request(
            sensitive_features=True
        )


class _FairScore:
    """Utility minus weight times gap; a class, so that a search can send it to its workers."""

    __name__ = "fair_score"

    def __init__(self, weight: float, utility: Callable[..., float], gap: Callable[..., float]):
        self.weight, self.utility, self.gap = weight, utility, gap

    def __call__(self, y_true: Any, y_pred: Any, sensitive_features: Any = None) -> float:
        if sensitive_features is None:
            raise InputError(
                "fair_scorer was given no sensitive_features; type"
                f" {ROUTING}, then search.fit(X, y, sensitive_features=...)"
            )
        gap = self.gap(y_true, y_pred, sensitive_features=sensitive_features)
        return float(self.utility(y_true, y_pred)) - self.weight * float(gap)


def _ready_made(name: str) -> bool:
    parts = [part.strip().replace("_", " ") for part in name.lower().split("&")]
    return all(part in READY_MADE for part in parts)


def _labelled_space(rows: np.ndarray, labels: Any, attribute: Attribute) -> AttributeSpace:
    """Return the space of the groups' mean directions."""
    codes = group_codes(labels, attribute)
    directions, good = unit_rows(rows)
    codes = codes[good]
    members = {}
    for i, group in enumerate(attribute.groups):
        members[group] = directions[codes == i]
        if not len(members[group]):
            raise InputError(
                f"no row is of the group {group!r}; pass some, or an attribute without it"
            )
    return AttributeSpace.from_prototypes(members, attribute=attribute.name)
