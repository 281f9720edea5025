"""Bootstrap of classification metrics: rows that agree in everything are one pattern, and its count
is what is drawn. Exact, and fast.
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
    """Resample the images, ``resamples`` times, for every method in ``predictions`` (name ->
    y_pred) at once.

    metrics: name -> a function of ``Cells``, such as ``Cells.macro_f1`` or ``lambda c:
    c.equal_opportunity(over_groups="mean")``; it returns a value for each leading axis of the
    counts. Rows with an unknown class or group are left out.
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
    point = values(iter([counts[None]]))

    def leave_one_out(key: tuple[str, str]) -> list[LeaveOneOut]:
        method, metric = key
        parts = [
            np.asarray(
                metrics[metric](cells[method]((counts - _one_each(len(counts), start, step)).T)),
                float,
            )
            for start in range(0, len(counts), step)
        ]
        return [LeaveOneOut(np.concatenate(parts), counts)]

    return Bootstrap(
        {k: float(v[0]) for k, v in point.items()}, replicates, leave_one_out, "images", n, left_out
    )


def _patterns(rows: np.ndarray, base: int) -> tuple[np.ndarray, np.ndarray]:
    """The distinct columns of ``rows``, whose entries are below ``base``, and how often each
    occurs.
    """
    import pandas as pd

    code = np.zeros(rows.shape[1], np.int64)
    for row in rows:
        code = pd.factorize(code * base + row)[
            0
        ]  # below the number of columns again, so that it cannot overflow
    counts = np.bincount(code)
    example = np.empty(len(counts), np.int64)
    example[code] = np.arange(len(code))
    return rows[:, example], counts


class _Marginal:
    """From counts of patterns (patterns, resamples) to the cells of one method."""

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
    """Rows start to start + step of the identity matrix."""
    return np.eye(min(step, size - start), size, k=start, dtype=np.int64)
