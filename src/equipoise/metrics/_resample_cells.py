"""Bootstrap of classification metrics.

Rows that agree in everything are one pattern, and the counts of patterns are drawn: exact, and
fast.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from equipoise.metrics._classification import EQUAL_OPPORTUNITY, Cells, encode_rows
from equipoise.metrics._intervals import (
    Bootstrap,
    LeaveOneOut,
    check_methods,
    check_metrics,
    checked,
)

BLOCK = 1 << 22  # counts held at a time

CellMetric = Callable[[Cells], np.ndarray]
METRICS: dict[str, CellMetric] = {
    "accuracy": Cells.accuracy,
    "macro F1": Cells.macro_f1,
    "worst-group accuracy": Cells.worst_group_accuracy,
    "EO avg (printed)": lambda cells: cells.equal_opportunity(
        **EQUAL_OPPORTUNITY["printed"]["avg"]
    ),
    "EO max (printed)": lambda cells: cells.equal_opportunity(
        **EQUAL_OPPORTUNITY["printed"]["max"]
    ),
}


def bootstrap_classification(
    y_true: Any,
    predictions: Mapping[str, Any],
    *,
    sensitive_features: Any,
    metrics: Mapping[str, CellMetric] | None = None,
    resamples: int = 1000,
    seed: int = 0,
) -> Bootstrap:
    """Resample the images, ``resamples`` times, for every method at once.

    predictions: name of each method -> y_pred. metrics: name -> a function of ``Cells``, such as
    ``Cells.macro_f1`` or ``lambda c: c.equal_opportunity(over_groups="mean")``; it returns a value
    for each leading axis of the counts. Rows with an unknown class or group are left out.
    """
    predictions = check_methods(predictions, resamples, "predictions")
    metrics = METRICS if metrics is None else check_metrics(metrics)
    rows, classes, groups, left_out = encode_rows(
        y_true, list(predictions.values()), sensitive_features
    )
    patterns, counts = _patterns(rows, max(len(classes), len(groups)))
    n = rows.shape[1]
    cells = {
        name: _Marginal(patterns[[0, 1 + i, -1]], classes, groups, left_out)
        for i, name in enumerate(predictions)
    }
    keys = [(method, metric) for method in cells for metric in metrics]

    def values(drawn: Iterator[np.ndarray]) -> dict[tuple[str, str], np.ndarray]:
        parts: dict[tuple[str, str], list] = {key: [] for key in keys}
        for block in drawn:
            columns = np.ascontiguousarray(block.T)
            for method, marginal in cells.items():
                resampled = marginal(columns)
                for metric, function in metrics.items():
                    parts[method, metric].append(checked(function(resampled), len(block), metric))
        return {key: np.concatenate(part) for key, part in parts.items()}

    step = max(1, BLOCK // max(len(counts), len(classes) ** 2 * len(groups)))
    rng = np.random.default_rng(seed)
    sizes = (min(step, resamples - start) for start in range(0, resamples, step))
    replicates = values(rng.multinomial(n, counts / n, size) for size in sizes)
    as_they_are = values(iter([counts[None]]))
    point = {key: float(value[0]) for key, value in as_they_are.items()}

    def leave_one_out(key: tuple[str, str]) -> list[LeaveOneOut]:
        method, metric = key
        parts = []
        for start in range(0, len(counts), step):
            without_one = counts - _one_each(len(counts), start, step)
            parts.append(np.asarray(metrics[metric](cells[method](without_one.T)), float))
        return [LeaveOneOut(np.concatenate(parts), counts)]

    return Bootstrap(point, replicates, leave_one_out, "images", n, left_out)


def _patterns(rows: np.ndarray, base: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct columns of ``rows``, and how often each occurs.

    base: all entries are below it.
    """
    import pandas as pd

    code = np.zeros(rows.shape[1], np.int64)
    for row in rows:
        # Factorised, the codes are below the number of columns again and cannot overflow.
        code, _ = pd.factorize(code * base + row)
    counts = np.bincount(code)
    example = np.empty(len(counts), np.int64)
    example[code] = np.arange(len(code))
    return rows[:, example], counts


class _Marginal:
    """The way from counts of patterns (patterns, resamples) to the cells of one method."""

    def __init__(self, columns: np.ndarray, classes: tuple, groups: tuple, left_out: int):
        from scipy.sparse import csr_array

        self.shape = (len(classes), len(classes), len(groups))
        place = np.ravel_multi_index(tuple(columns), self.shape)
        size = place.size
        self.sum = csr_array(
            (np.ones(size, np.int64), (place, np.arange(size))),
            shape=(int(np.prod(self.shape)), size),
        )
        self.make = partial(Cells, classes=classes, groups=groups, left_out=left_out)

    def __call__(self, counts: np.ndarray) -> Cells:
        return self.make((self.sum @ counts).T.reshape(-1, *self.shape))


def _one_each(size: int, start: int, step: int) -> np.ndarray:
    """Return rows start to start + step of the identity matrix."""
    return np.eye(min(step, size - start), size, k=start, dtype=np.int64)
