"""Intervals from replicates, of one method's value or of the paired difference of two.

All that is printed is of the kind "centred": the percentiles of the replicates, moved so that their
mean is the value. A resample repeats some rows and lacks others, which alone raises maxima such as
skews and gaps; the plain percentiles can then miss the value that they are for. docs/intervals.md
has the coverage, measured. BCa, basic and plain percentiles are there for who asks for them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from equipoise.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

CENTRED = "centred"
KINDS = (CENTRED, "percentile", "bca", "basic")
# what a quantity may be: a share, something that is never negative, any number
Limits = tuple[float, float]
SHARE: Limits = (0.0, 1.0)
POSITIVE: Limits = (0.0, np.inf)
ANY: Limits = (-np.inf, np.inf)


class HasInterval(Protocol):
    """A value with its interval, such as a row of a run or a difference."""

    @property
    def value(self) -> float | None: ...
    @property
    def low(self) -> float | None: ...
    @property
    def high(self) -> float | None: ...


class Chance(NamedTuple):
    """What random rankings have: their mean, and what hardly any of them has more than."""

    mean: float
    most: float


class LeaveOneOut(NamedTuple):
    """The metric without each row in turn: values (k,), each for ``rows`` (k,) rows."""

    values: np.ndarray
    rows: np.ndarray


@dataclass(frozen=True)
class Estimate:
    """A value with its interval [low, high] at ``level``.

    n: how many were resampled. left_out: how many were not, because they have no label.
    """

    value: float
    low: float
    high: float
    level: float
    kind: str
    over: str
    n: int
    left_out: int
    resamples: int
    undefined: int  # resamples in which the metric had no value; the interval is of the others
    mean: float  # of the replicates
    std: float

    def __str__(self) -> str:
        return f"{self.value:.4f} [{self.low:.4f}, {self.high:.4f}]"


@dataclass(frozen=True)
class Bootstrap:
    """What resampling gave for several methods and metrics, all of them on the same resamples.

    values and replicates are keyed by (method, metric). leave_one_out gives the samples' jackknife
    for a key, for BCa.
    """

    values: Mapping[tuple[str, str], float]
    replicates: Mapping[tuple[str, str], np.ndarray]
    leave_one_out: Callable[[tuple[str, str]], list[LeaveOneOut]]
    over: str
    n: int
    left_out: int

    def __repr__(self) -> str:
        shown = ", ".join(
            f"{method} {metric} {self.estimate(method, metric)}" for method, metric in self.values
        )
        return f"Bootstrap({shown}; n={self.n}, over={self.over!r}, left_out={self.left_out})"

    @property
    def methods(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(method for method, _ in self.values))

    @property
    def metrics(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(metric for _, metric in self.values))

    def estimate(
        self,
        method: str,
        metric: str,
        *,
        level: float = 0.95,
        kind: str = CENTRED,
        limits: Limits = ANY,
    ) -> Estimate:
        """Return the metric of one method. limits: what the metric may be."""
        key = self._key(method, metric)
        return self._estimate(
            self.values[key],
            self.replicates[key],
            lambda: self.leave_one_out(key),
            level,
            kind,
            limits,
        )

    def difference(
        self,
        method: str,
        baseline: str,
        metric: str,
        *,
        level: float = 0.95,
        kind: str = CENTRED,
    ) -> Estimate:
        """Return the metric of ``method`` minus that of ``baseline``, resample by resample."""
        a, b = self._key(method, metric), self._key(baseline, metric)

        def without() -> list[LeaveOneOut]:
            pairs = zip(self.leave_one_out(a), self.leave_one_out(b), strict=True)
            return [LeaveOneOut(x.values - y.values, x.rows) for x, y in pairs]

        return self._estimate(
            self.values[a] - self.values[b],
            self.replicates[a] - self.replicates[b],
            without,
            level,
            kind,
            ANY,
        )

    def table(
        self, *, baseline: str | None = None, level: float = 0.95, kind: str = CENTRED
    ) -> pd.DataFrame:
        """Return one line for each method and metric.

        baseline: adds the paired difference from it, with its low and high.
        """
        import pandas as pd

        lines = []
        for method, metric in self.values:
            estimate = self.estimate(method, metric, level=level, kind=kind)
            line = {"method": method, "metric": metric, **asdict(estimate)}
            if baseline is not None:
                gap = self.difference(method, baseline, metric, level=level, kind=kind)
                line["difference"] = gap.value
                line["difference_low"] = gap.low
                line["difference_high"] = gap.high
            lines.append(line)
        return pd.DataFrame(lines)

    def _key(self, method: str, metric: str) -> tuple[str, str]:
        if (method, metric) not in self.values:
            raise InputError(
                f"method {method!r} with metric {metric!r} was not resampled; methods:"
                f" {list(self.methods)}, metrics: {list(self.metrics)}"
            )
        return method, metric

    def _estimate(
        self,
        value: float,
        replicates: np.ndarray,
        without: Callable[[], list[LeaveOneOut]],
        level: float,
        kind: str,
        limits: Limits,
    ) -> Estimate:
        defined = replicates[~np.isnan(replicates)]
        low, high = interval(value, defined, level, kind, without, limits)
        mean = float(defined.mean()) if defined.size else np.nan
        std = float(defined.std(ddof=1)) if defined.size > 1 else np.nan
        return Estimate(
            value=value,
            low=low,
            high=high,
            level=level,
            kind=kind,
            over=self.over,
            n=self.n,
            left_out=self.left_out,
            resamples=len(replicates),
            undefined=len(replicates) - len(defined),
            mean=mean,
            std=std,
        )


def interval(
    value: float,
    replicates: np.ndarray,
    level: float = 0.95,
    kind: str = CENTRED,
    without: Callable[[], list[LeaveOneOut]] = list,
    limits: Limits = ANY,
) -> tuple[float, float]:
    """Return the ends of the interval; NaN where there are fewer than two replicates.

    A centred interval always holds the value. without: gives the jackknife of each sample; only
    BCa asks for it. limits: what the quantity may be; no end lies beyond.
    """
    if kind not in KINDS:
        raise InputError(f"kind={kind!r} is not legal; pass one of {', '.join(KINDS)}")
    check_level(level)
    if replicates.size < 2 or np.isnan(value):
        return np.nan, np.nan
    tails = np.array([(1 - level) / 2, (1 + level) / 2])
    if kind == "bca":
        tails = _bca_tails(value, replicates, tails, without())
    low, high = np.quantile(replicates, tails)
    if kind == "basic":
        low, high = 2 * value - high, 2 * value - low
    if kind == CENTRED:
        bias = replicates.mean() - value
        # a mean may lie beyond the percentiles, by rounding or by one replicate far off
        low, high = min(low - bias, value), max(high - bias, value)
    return float(max(low, limits[0])), float(min(high, limits[1]))


def lifted(value: float, low: float, chance: Chance) -> float:
    """Return the low end of an interval, above chance where the value is.

    A centred interval is too wide at the floor, which no collection lies below on average. Where
    chance hardly reaches the value, the value did not come from the floor, and the floor is left
    out. Above the floor that uncovers nothing.
    """
    if value <= chance.most:
        return low
    return max(low, float(np.nextafter(chance.mean, np.inf)))


def _bca_tails(
    value: float, replicates: np.ndarray, tails: np.ndarray, samples: list[LeaveOneOut]
) -> np.ndarray:
    """Return Efron's bias-corrected and accelerated tails.

    They are the plain ones where the replicates are all alike or all on one side of the value.
    """
    from scipy.special import ndtr, ndtri

    below = ((replicates < value).mean() + (replicates <= value).mean()) / 2
    if not 0 < below < 1:
        return tails
    bias, a = ndtri(below), acceleration(samples)
    z = bias + ndtri(tails)
    return ndtr(bias + z / (1 - a * z))


def acceleration(samples: list[LeaveOneOut]) -> float:
    """Return the skewness of the jackknife over six, for one sample or several independent ones.

    It is eq. 14.15 of Efron and Tibshirani 1993.
    """
    second = third = 0.0
    for values, rows in samples:
        defined = ~np.isnan(values)
        v, weight = values[defined], rows[defined]
        n = weight.sum()
        if not n:
            continue
        u = (n - 1) / n * ((v * weight).sum() / n - v)
        second += (weight * u**2).sum()
        third += (weight * u**3).sum()
    return third / (6 * second**1.5) if second > 0 else 0.0


def check_level(level: float) -> None:
    """Raise unless the level is a share between 0 and 1."""
    if not 0 < level < 1:
        raise InputError(f"level={level} is not legal; pass a share between 0 and 1, such as 0.95")


def check_methods(methods: Any, resamples: int, what: str) -> Mapping[str, Any]:
    """Return the mapping of method -> what it gave; raise where it is none."""
    if not isinstance(methods, Mapping) or not methods:
        raise InputError(
            f"{what} is {type(methods).__name__}; pass a mapping from the name of each method to"
            " what it gave"
        )
    if isinstance(resamples, bool) or not isinstance(resamples, int | np.integer) or resamples < 1:
        raise InputError(
            f"resamples={resamples!r} is not legal; pass a whole number from 1 (1000 is usual)"
        )
    return methods


def check_metrics(metrics: Any) -> dict[str, Callable]:
    """Return the mapping of metric -> function; raise where it is none."""
    is_mapping = isinstance(metrics, Mapping) and len(metrics) > 0
    if not is_mapping or not all(callable(function) for function in metrics.values()):
        raise InputError(
            f"metrics is {type(metrics).__name__}; pass a mapping from the name of each metric to"
            " its function"
        )
    return dict(metrics)


def checked(values: Any, size: int, metric: str) -> np.ndarray:
    """Return what a metric gave; raise unless it is one number per resample."""
    values = np.asarray(values, float)
    if values.shape != (size,):
        raise InputError(
            f"metric {metric!r} gave shape {values.shape} for {size} resamples; it must give one"
            " number for each"
        )
    return values
