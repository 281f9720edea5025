"""Classification metrics.

They depend on nothing but how many rows fell into each cell (true class, predicted class, group).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from equipoise.errors import InputError
from equipoise.metrics._labels import Coded, encode, encode_groups

if TYPE_CHECKING:
    import pandas as pd

Choice = TypeVar("Choice")

# Arguments of equal_opportunity. The formulas of the paper and those of its released code, which
# made its tables, differ. The released code has two: "released" where several classes are measured
# (FACET), "pairs" where one is (CelebA).
EQUAL_OPPORTUNITY = {
    "printed": {
        "avg": {"over_groups": "max", "over_classes": "mean"},
        "max": {"over_groups": "mean", "over_classes": "max"},
    },
    "released": {
        "avg": {"over_groups": "mean", "over_classes": "mean"},
        "max": {"over_groups": "mean", "over_classes": "max"},
    },
    "pairs": {
        "avg": {"over_groups": "mean", "over_classes": "mean"},
        "max": {"over_groups": "max", "over_classes": "max"},
    },
}


@dataclass(frozen=True, eq=False)
class Cells:
    """How many rows fell into each cell: counts (..., true classes, predicted classes, groups).

    Leading axes, if any, are resamples. What has no value is NaN and is left out of means and
    extremes: the rate of a group without rows of the class, the F1 of a class that is neither true
    nor predicted anywhere.
    """

    counts: np.ndarray
    classes: tuple[Any, ...]
    groups: tuple[Any, ...]
    left_out: int = 0

    @classmethod
    def count(cls, y_true: Any, y_pred: Any, *, sensitive_features: Any = None) -> Cells:
        """Count rows.

        Those with an unknown true class or group are left out, and counted in ``left_out``.
        """
        codes, classes, groups, left_out = encode_rows(y_true, [y_pred], sensitive_features)
        shape = (len(classes), len(classes), len(groups))
        cells = np.ravel_multi_index(tuple(codes), shape)
        counts = np.bincount(cells, minlength=np.prod(shape)).reshape(shape)
        return cls(counts, classes, groups, left_out)

    @property
    def n(self) -> np.ndarray:
        return self.counts.sum((-3, -2, -1))

    def true_positive_rates(self, classes: Sequence[Hashable] | None = None) -> np.ndarray:
        """Return shares (..., classes, groups) of a group's rows of class k predicted k."""
        chosen = self._chosen(classes)
        rows = self.counts.sum(-2)[..., chosen, :]
        return self._hits(chosen) / _or_nan(rows)

    def equal_opportunity(
        self,
        over_groups: str = "max",
        over_classes: str = "mean",
        classes: Sequence[Hashable] | None = None,
    ) -> np.ndarray:
        """See ``equal_opportunity``."""
        gap = _choose({"max": largest_gap, "mean": mean_gap}, over_groups, "over_groups")
        over = _choose({"max": nan_max, "mean": nan_mean}, over_classes, "over_classes")
        if len(self.groups) < 2:
            raise InputError(
                "equal opportunity compares groups, and sensitive_features holds only"
                f" {list(self.groups)}"
            )
        return over(gap(self.true_positive_rates(classes)))

    def f1(self, classes: Sequence[Hashable] | None = None) -> np.ndarray:
        """Return the harmonic mean (..., classes) of precision and recall of each class."""
        chosen = self._chosen(classes)
        confusion = self.counts.sum(-1)
        found = confusion[..., chosen, chosen]
        true = confusion.sum(-1)[..., chosen]
        predicted = confusion.sum(-2)[..., chosen]
        return 2 * found / _or_nan(true + predicted)

    def macro_f1(
        self, classes: Sequence[Hashable] | None = None, out_of: int | None = None
    ) -> np.ndarray:
        """Return the mean of the classes' F1.

        out_of: how many classes there are; each that is neither true nor predicted anywhere scores
        0. Without it, such classes are left out of the mean.
        """
        scores = self.f1(classes)
        if out_of is None:
            return nan_mean(scores)
        if out_of < scores.shape[-1]:
            raise InputError(
                f"out_of={out_of} is not legal; there are {scores.shape[-1]} classes already"
            )
        return np.nan_to_num(scores).sum(-1) / out_of

    def binary_f1(self, positive: Hashable) -> np.ndarray:
        """Return the F1 of one class."""
        return self.f1([positive])[..., 0]

    def accuracy(self) -> np.ndarray:
        """Return the share of rows predicted right."""
        return self._hits().sum((-2, -1)) / _or_nan(self.n)

    def group_accuracies(self) -> np.ndarray:
        """Return the share (..., groups) of each group's rows predicted right."""
        return self._hits().sum(-2) / _or_nan(self.counts.sum((-3, -2)))

    def worst_group_accuracy(self, by_class: bool = False) -> np.ndarray:
        """Return the lowest of the groups' accuracies.

        by_class: of the (class, group) pairs', as on Waterbirds.
        """
        rates = self.group_accuracies()
        if by_class:
            rates = self.true_positive_rates()
            rates = rates.reshape(*rates.shape[:-2], -1)
        return -nan_max(-rates)

    def _hits(self, chosen: Any = slice(None)) -> np.ndarray:
        """Return how many rows (..., classes, groups) of class k were predicted k."""
        places = np.arange(len(self.classes))[chosen]
        return self.counts[..., places, places, :]

    def _chosen(self, classes: Sequence[Hashable] | None) -> np.ndarray:
        if classes is None:
            return np.arange(len(self.classes))
        if isinstance(classes, str) or not len(classes):
            raise InputError(
                f"classes={classes!r} is not legal; pass a list of one or more of"
                f" {list(self.classes)}"
            )
        unknown = [name for name in classes if name not in self.classes]
        if unknown:
            raise InputError(
                f"classes {unknown} occur in neither y_true nor y_pred, which hold"
                f" {list(self.classes)}"
            )
        return np.array([self.classes.index(name) for name in classes])


def equal_opportunity(
    y_true: Any,
    y_pred: Any,
    *,
    sensitive_features: Any,
    over_groups: str = "max",
    over_classes: str = "mean",
    classes: Sequence[Hashable] | None = None,
) -> float:
    """Return the violation of equal opportunity, from 0 (none) to 1.

    It says how far the groups' true positive rates lie apart.

    over_groups: "max", the largest gap between two groups, or "mean", the mean gap over all pairs.
    over_classes: "mean" or "max". classes: only these. The defaults are the paper's printed Avg;
    ``EQUAL_OPPORTUNITY`` names the arguments of its other forms. A group without rows of a class is
    left out of that class, a class with fewer than two groups out of the whole; NaN if none is
    left.
    """
    cells = Cells.count(y_true, y_pred, sensitive_features=sensitive_features)
    return float(cells.equal_opportunity(over_groups, over_classes, classes))


def macro_f1(y_true: Any, y_pred: Any, *, classes: Sequence[Hashable] | None = None) -> float:
    """Return the mean F1 of the classes that are true or predicted somewhere, or of ``classes``."""
    return float(Cells.count(y_true, y_pred).macro_f1(classes))


def binary_f1(y_true: Any, y_pred: Any, *, positive: Hashable = 1) -> float:
    """Return the F1 of the class ``positive``."""
    return float(Cells.count(y_true, y_pred).binary_f1(positive))


def accuracy(y_true: Any, y_pred: Any) -> float:
    """Return the share of rows predicted right."""
    return float(Cells.count(y_true, y_pred).accuracy())


def worst_group_accuracy(
    y_true: Any, y_pred: Any, *, sensitive_features: Any, by_class: bool = False
) -> float:
    """Return the lowest accuracy of a group.

    by_class: of a class within a group, as is usual on Waterbirds.
    """
    cells = Cells.count(y_true, y_pred, sensitive_features=sensitive_features)
    return float(cells.worst_group_accuracy(by_class))


def rates(y_true: Any, y_pred: Any, *, sensitive_features: Any) -> pd.DataFrame:
    """Return one line for each class and group.

    Its columns are ``rows`` of the group, ``positives`` among them, true and false positive rate,
    and selection rate.
    """
    import pandas as pd

    cells = Cells.count(y_true, y_pred, sensitive_features=sensitive_features)
    rows = cells.counts.sum((0, 1))
    positives, selected = cells.counts.sum(1), cells.counts.sum(0)
    hits = cells._hits()
    columns = {
        "rows": np.broadcast_to(rows, positives.shape),
        "positives": positives,
        "true_positive_rate": hits / _or_nan(positives),
        "false_positive_rate": (selected - hits) / _or_nan(rows - positives),
        "selection_rate": selected / _or_nan(rows),
    }
    index = pd.MultiIndex.from_product([cells.classes, cells.groups], names=["class", "group"])
    return pd.DataFrame({name: values.ravel() for name, values in columns.items()}, index=index)


def by_group(y_true: Any, y_pred: Any, *, sensitive_features: Any) -> pd.DataFrame:
    """Return one line for each group: ``rows``, accuracy and macro F1 inside it."""
    import pandas as pd

    cells = Cells.count(y_true, y_pred, sensitive_features=sensitive_features)
    groups_first = np.moveaxis(cells.counts, -1, 0)[..., None]
    inside = Cells(groups_first, cells.classes, ("all",))
    columns = {"rows": inside.n, "accuracy": inside.accuracy(), "macro_f1": inside.macro_f1()}
    return pd.DataFrame(columns, index=pd.Index(cells.groups, name="group"))


def encode_rows(
    y_true: Any, predictions: Sequence[Any], sensitive_features: Any
) -> tuple[np.ndarray, tuple, tuple, int]:
    """Return codes, classes, groups, and how many rows were left out.

    The codes (2 + predictions, known rows) are of the true class, each prediction and the group.
    """
    true = encode(y_true, "y_true")
    predicted = [encode(p, "y_pred", unknown=frozenset()) for p in predictions]
    for p in predicted:
        _check_prediction(true, p)
    groups = Coded(np.zeros(len(true.codes), int), ("all",))
    if sensitive_features is not None:
        groups = encode_groups(sensitive_features, len(true.codes))
    known = true.known & groups.known
    if not known.any():
        raise InputError(
            f"none of the {len(known)} rows has both a known class and a known group; there is"
            " nothing to measure"
        )
    every_label = [label for coded in (true, *predicted) for label in coded.labels]
    classes = encode(every_label, "y_true", unknown=frozenset()).labels
    place = {label: i for i, label in enumerate(classes)}
    columns = []
    for coded in (true, *predicted):
        places = np.array([place[label] for label in coded.labels])
        columns.append(places[coded.codes[known]])
    columns.append(groups.codes[known])
    return np.array(columns), classes, groups.labels, int((~known).sum())


def _check_prediction(true: Coded, predicted: Coded) -> None:
    if len(predicted.codes) != len(true.codes):
        raise InputError(
            f"y_pred has {len(predicted.codes)} labels and y_true {len(true.codes)}; pass one of"
            " each for each row"
        )
    missing = int((~predicted.known).sum())
    if missing:
        raise InputError(f"y_pred has {missing} missing labels; every row needs a prediction")
    kinds = {isinstance(label, str) for label in true.labels + predicted.labels}
    if len(kinds) > 1:
        raise InputError(
            f"y_true and y_pred mix words and numbers: {list(true.labels)[:5]} and"
            f" {list(predicted.labels)[:5]}; use one kind"
        )


def largest_gap(rates: np.ndarray) -> np.ndarray:
    """Return largest minus smallest along the last axis; NaN where fewer than two are known."""
    return np.where(_known(rates) < 2, np.nan, nan_max(rates) + nan_max(-rates))


def mean_gap(rates: np.ndarray) -> np.ndarray:
    """Return the mean absolute difference over all pairs along the last axis.

    Of n sorted values the i-th is added i times and subtracted n-1-i times.
    """
    n = _known(rates)[..., None]
    ranked = np.sort(rates, axis=-1)  # NaN sorts last
    place = np.arange(rates.shape[-1])
    total = np.where(place < n, (2 * place - n + 1) * ranked, 0).sum(-1)
    return total / _or_nan(n * (n - 1) / 2)[..., 0]


def nan_mean(x: np.ndarray) -> np.ndarray:
    """Return the mean along the last axis of what is not NaN; NaN where nothing is left."""
    return np.where(np.isnan(x), 0, x).sum(-1) / _or_nan(_known(x))


def nan_max(x: np.ndarray) -> np.ndarray:
    """Return the largest along the last axis of what is not NaN; NaN where nothing is left."""
    largest = np.where(np.isnan(x), -np.inf, x).max(-1)
    return np.where(_known(x) > 0, largest, np.nan)


def _known(x: np.ndarray) -> np.ndarray:
    return (~np.isnan(x)).sum(-1)


def _or_nan(n: np.ndarray) -> np.ndarray:
    """Return a divisor that gives NaN, and no warning, where there is nothing to divide by."""
    return np.where(n > 0, n, np.nan)


def _choose(legal: Mapping[str, Choice], name: str, what: str) -> Choice:
    if name not in legal:
        raise InputError(f"{what}={name!r} is not legal; pass one of {', '.join(legal)}")
    return legal[name]
