"""``Measured``: what a task gives, the metrics of every method on the same resamples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from equipoise.errors import InputError
from equipoise.evaluation._run_document import Better, Difference, MetricRow, PermutedFloor
from equipoise.metrics import Bootstrap, Shuffled
from equipoise.metrics._intervals import CENTRED, POSITIVE, SHARE, Chance, Limits, lifted

# method, metric
Key = tuple[str, str]


@dataclass(frozen=True)
class Measured:
    """Metrics of every method, with the floors of those that have some.

    bootstrap: values and resamples. better: metric -> "higher" or "lower". floors, shuffled: the
    floors of skews, exact and by permuted labels. small: metric -> the cells of fewer than 20
    images that it rests on.
    """

    bootstrap: Bootstrap
    better: Mapping[str, Better]
    floors: Mapping[str, float] = field(default_factory=dict)
    shuffled: Mapping[Key, Shuffled] = field(default_factory=dict)
    small: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def rows(
        self, baseline: str | None = None, level: float = 0.95, kind: str = CENTRED
    ) -> list[MetricRow]:
        """Return one row per method and metric.

        ``difference`` is paired, from the baseline.
        """
        rows = []
        for method, metric in self.bootstrap.values:
            estimate = self.bootstrap.estimate(
                method, metric, level=level, kind=kind, limits=limits_of(metric)
            )
            found: dict[str, Any] = asdict(estimate)
            if baseline is not None and baseline != method:
                gap = self.bootstrap.difference(method, baseline, metric, level=level, kind=kind)
                found["difference"] = Difference(
                    baseline=baseline, value=gap.value, low=gap.low, high=gap.high
                )
            if metric in self.floors:
                found["floor"] = self.floors[metric]
            if self.small.get(metric):
                found["small"] = list(self.small[metric])
            if (method, metric) in self.shuffled:
                shuffled = self.shuffled[method, metric]
                found["permuted"] = PermutedFloor(**shuffled._asdict())
                if kind == CENTRED:
                    chance = Chance(shuffled.value, shuffled.high)
                    found["low"] = lifted(estimate.value, estimate.low, chance)
            rows.append(
                MetricRow(method=method, metric=metric, better=self.better[metric], **found)
            )
        return rows


def limits_of(metric: str) -> Limits:
    """Return what a metric may be: skews and divergences are not negative, the rest are shares."""
    return POSITIVE if metric.startswith(("MS@", "NDKL@")) else SHARE


def check_operators(operators: Any) -> Mapping[str, Any]:
    """Return the operators; raise unless they are a mapping of name -> operator."""
    if not isinstance(operators, Mapping) or not operators:
        raise InputError(
            f"operators are {type(operators).__name__}; pass a mapping from the name of each method"
            " to its operator"
        )
    for name, operator in operators.items():
        for method in ("image", "text", "scores"):
            if not callable(getattr(operator, method, None)):
                raise InputError(
                    f"{name!r} is no operator ({type(operator).__name__} has no {method}); pass"
                    " what fitting a method gave"
                )
    return operators


def gated(operator: Any, gate: Any) -> dict[str, Any]:
    """Return the gate as a keyword argument; nothing without one, as some operators take none.

    A method is measured on every prompt that is given: an operator that gates searches by default
    is told not to.
    """
    if gate is None and getattr(operator, "gates_by_default", False):
        return {"gate": False}
    return {} if gate is None else {"gate": gate}
