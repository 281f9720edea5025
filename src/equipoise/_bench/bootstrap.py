"""``equipoise bench bootstrap``: intervals from cell counts beside scipy's bootstrap of rows.

Both sets of intervals are given.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from equipoise._bench.timing import interleaved
from equipoise.errors import InputError

SAMPLES, GROUPS, RESAMPLES = 39_829, 4, 1_000  # the paper's CelebA table
METRIC = "EO avg (released)"


@dataclass(frozen=True)
class BootstrapTiming:
    """Seconds of each for the same interval, and the intervals."""

    samples: int
    groups: int
    resamples: int
    seconds: float
    scipy_seconds: float
    interval: tuple[float, float]
    scipy_interval: tuple[float, float]

    @property
    def over_scipy(self) -> float:
        """Return how many times faster than scipy.stats.bootstrap it is."""
        return self.scipy_seconds / self.seconds


def run(
    samples: int = SAMPLES, groups: int = GROUPS, resamples: int = RESAMPLES, rounds: int = 3
) -> BootstrapTiming:
    """Time a percentile interval, from labels to interval.

    The interval is that of the mean pair gap in true positive rate, for a binary task.
    """
    from equipoise import metrics

    if samples < 10 * groups or groups < 2 or resamples < 1:
        raise InputError(
            f"{samples} samples, {groups} groups, {resamples} resamples are not legal; take 2"
            " groups or more, 10 samples each"
        )
    y, p, g = _task(samples, groups)
    options = metrics.EQUAL_OPPORTUNITY["released"]["avg"]
    functions = {METRIC: lambda cells: cells.equal_opportunity(**options, classes=[1])}
    kept: dict[str, tuple[float, float]] = {}

    def ours() -> None:
        result = metrics.bootstrap_classification(
            y, {"x": p}, sensitive_features=g, metrics=functions, resamples=resamples
        )
        estimate = result.estimate("x", METRIC, kind="percentile")
        kept["ours"] = estimate.low, estimate.high

    def rows() -> None:
        kept["scipy"] = _scipy(y, p, g, groups, resamples)

    seconds = interleaved({"ours": ours, "scipy": rows}, rounds)
    return BootstrapTiming(
        samples, groups, resamples, seconds["ours"], seconds["scipy"], kept["ours"], kept["scipy"]
    )


def _task(samples: int, groups: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return labels, predictions and groups: 15 % positives, and rates that differ by group."""
    rng = np.random.default_rng(0)
    g = rng.integers(0, groups, samples)
    y = (rng.random(samples) < 0.15).astype(int)
    right = rng.random(samples) < 0.9 - 0.3 * g / groups
    return y, np.where(right, y, 1 - y), g


def _scipy(
    y: np.ndarray, p: np.ndarray, g: np.ndarray, groups: int, resamples: int
) -> tuple[float, float]:
    """Return the rival at its best: one count of the rows per resample, no loop over groups."""
    from scipy.stats import bootstrap

    pairs = np.triu_indices(groups, 1)

    def statistic(y: np.ndarray, p: np.ndarray, g: np.ndarray) -> float:
        positives = np.bincount(g, y, groups)
        rates = np.bincount(g, y * p, groups) / positives
        return float(np.abs(rates[pairs[0]] - rates[pairs[1]]).mean())

    result = bootstrap(
        (y, p, g),
        statistic,
        paired=True,
        vectorized=False,
        n_resamples=resamples,
        method="percentile",
        rng=0,
    )
    return float(result.confidence_interval.low), float(result.confidence_interval.high)
