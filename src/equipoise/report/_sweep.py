"""The page of a sweep and its table on a terminal: fairness against utility, a line per method."""

from __future__ import annotations

from dataclasses import dataclass, field

from rich.table import Table
from rich.text import Text

from equipoise.evaluation import SweepResults
from equipoise.evaluation._sweep_document import PointValue, SweepPoint
from equipoise.metrics._intervals import HasInterval
from equipoise.report import _charts as charts
from equipoise.report import _number_format as numbers
from equipoise.report._rendering import render

FORM = "1%"


@dataclass(frozen=True)
class SweepMark:
    """A point of the chart, and where its values stand on the two axes."""

    point: SweepPoint
    x: charts.Whisker
    y: charts.Whisker


@dataclass(frozen=True)
class SweepLine:
    """A method in the chart, from weak to strong. places: of its marks, in percent."""

    name: str
    marks: list[SweepMark] = field(default_factory=list)
    places: list[tuple[float, float]] = field(default_factory=list)

    @property
    def segments(self) -> list[tuple[float, float, float, float]]:
        return charts.segments(self.places)


@dataclass(frozen=True)
class SweepChart:
    """Fairness across and utility up, with a line per method."""

    x: charts.Scale
    y: charts.Scale
    lines: list[SweepLine]


def sweep_page(results: SweepResults) -> str:
    """Return one HTML file with all that it needs inside."""
    return render(
        "sweep.html",
        results,
        points=results.points,
        left_out=results.left_out,
        terms=("method", "interval", "change", "kappa"),
        **vars(_chart(results)),
    )


def _chart(results: SweepResults) -> SweepChart:
    across: list[float | None] = []
    up: list[float | None] = []
    for point in results.points:
        across += charts.ends(point.fairness)
        up += charts.ends(point.utility)
    across.append(results.fairness.floor)
    x = charts.scale(across, zero=False, percent=True)
    y = charts.scale(up, zero=False, percent=True)
    lines: dict[str, SweepLine] = {}
    for point in results.points:
        line = lines.setdefault(point.series, SweepLine(point.series))
        fairness, utility = point.fairness.value, point.utility.value
        if fairness is None or utility is None:
            continue
        mark = SweepMark(point, charts.whisker(point.fairness, x), charts.whisker(point.utility, y))
        line.marks.append(mark)
        line.places.append((x.at(fairness), 100 - y.at(utility)))
    return SweepChart(x, y, list(lines.values()))


def sweep_table(results: SweepResults) -> Table:
    """Return a table for a terminal; a point that no other beats in both has a star."""
    table = Table(title=results.title, caption=results.note)
    for name in ("method", "strength", results.fairness.metric, results.utility.metric):
        table.add_column(name)
    for point in results.points:
        strength = f"{point.param} {point.value}" if point.param else ""
        star = " *" if point.front else ""
        table.add_row(
            f"{point.series}{star}", strength, _cell(point.fairness), _cell(point.utility)
        )
    return table


def _cell(found: PointValue) -> Text:
    if found.difference is None:
        return Text(_interval(found, FORM))
    return Text.assemble(
        _interval(found, FORM), ("\n" + _interval(found.difference, f"+{FORM}"), "dim")
    )


def _interval(found: HasInterval, form: str) -> str:
    value = _percent(found.value, form)
    low, high = _percent(found.low, form), _percent(found.high, form)
    return f"{value} [{low},\u00a0{high}]"


def _percent(value: float | None, form: str) -> str:
    return numbers.text(value, form).removesuffix(" %")
