"""Metrics: pure functions on arrays, and intervals for all of them.

They take any number of classes, groups and intersections.
"""

from equipoise.metrics._agreement import fleiss_kappa
from equipoise.metrics._classification import (
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
from equipoise.metrics._floor import Shuffled, max_skew_floor, permuted_max_skew
from equipoise.metrics._intervals import Bootstrap, Estimate
from equipoise.metrics._parity import statistical_parity
from equipoise.metrics._probe import leakage_probe
from equipoise.metrics._resample_cells import bootstrap_classification
from equipoise.metrics._resample_lists import bootstrap_retrieval
from equipoise.metrics._retrieval import (
    PerQuery,
    Ranking,
    able,
    max_skew,
    min_skew,
    ndkl,
    recall_at_k,
)

__all__ = [
    "EQUAL_OPPORTUNITY",
    "Bootstrap",
    "Cells",
    "Estimate",
    "PerQuery",
    "Ranking",
    "Shuffled",
    "able",
    "accuracy",
    "binary_f1",
    "bootstrap_classification",
    "bootstrap_retrieval",
    "by_group",
    "equal_opportunity",
    "fleiss_kappa",
    "leakage_probe",
    "macro_f1",
    "max_skew",
    "max_skew_floor",
    "min_skew",
    "ndkl",
    "permuted_max_skew",
    "rates",
    "recall_at_k",
    "statistical_parity",
    "worst_group_accuracy",
]
