"""Metrics: pure functions on arrays, for any number of classes, groups and intersections, and intervals for all of them."""

from equipoise.metrics.classification import (
    EQUAL_OPPORTUNITY,
    Cells,
    accuracy,
    binary_f1,
    by_group,
    equal_opportunity,
    macro_f1,
    rates,
    worst_group_accuracy,
)
from equipoise.metrics.intervals import Bootstrap, Estimate
from equipoise.metrics.resample_cells import bootstrap_classification

__all__ = [
    "EQUAL_OPPORTUNITY",
    "Bootstrap",
    "Cells",
    "Estimate",
    "accuracy",
    "binary_f1",
    "bootstrap_classification",
    "by_group",
    "equal_opportunity",
    "macro_f1",
    "rates",
    "worst_group_accuracy",
]
