"""``Measured``: what a task gives, the metrics of every method on the same resamples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from equipoise.errors import InputError
from equipoise.metrics import Bootstrap, Shuffled

# method, metric
Key = tuple[str, str]


@dataclass(frozen=True)
class Measured:
    """Metrics of every method, with the floors of those that have some.

    bootstrap: values and resamples. better: metric -> "higher" or "lower". floors, shuffled: the
    floors of skews, exact and by permuted labels.
    """

    bootstrap: Bootstrap
    better: Mapping[str, str]
    floors: Mapping[str, float] = field(default_factory=dict)
    shuffled: Mapping[Key, Shuffled] = field(default_factory=dict)

    def rows(
        self, baseline: str | None = None, level: float = 0.95, kind: str = "percentile"
    ) -> list[dict[str, Any]]:
        """Return one record per method and metric, in JSON's own types.

        ``difference`` is paired, from the baseline.
        """
        rows = []
        for method, metric in self.bootstrap.values:
            estimate = asdict(self.bootstrap.estimate(method, metric, level=level, kind=kind))
            row = {"method": method, "metric": metric, "better": self.better[metric], **estimate}
            if baseline not in (None, method):
                gap = self.bootstrap.difference(method, baseline, metric, level=level, kind=kind)
                row["difference"] = {
                    "from": baseline,
                    "value": gap.value,
                    "low": gap.low,
                    "high": gap.high,
                }
            if metric in self.floors:
                row["floor"] = self.floors[metric]
            if (method, metric) in self.shuffled:
                row["permuted"] = self.shuffled[method, metric]._asdict()
            rows.append(row)
        return rows


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


def gated(gate: Any) -> dict[str, Any]:
    """Return the gate as an argument, and none without a gate, which some operators do not know."""
    return {} if gate is None else {"gate": gate}
