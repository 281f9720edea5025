"""The page of a sweep and its table on a terminal: fairness against utility, a line per method."""

from __future__ import annotations

from typing import Any

from rich.table import Table
from rich.text import Text

from equipoise.evaluation import SweepResults
from equipoise.evaluation._grids import HasInterval
from equipoise.evaluation._sweep_document import PointValue
from equipoise.report import _charts as charts
from equipoise.report import _number_format as numbers
from equipoise.report._rendering import render

FORM = "1%"


def sweep_page(results: SweepResults) -> str:
    """Return one HTML file with all that it needs inside."""
    document = results.to_plain()
    return render(
        "sweep.html",
        document,
        points=document["points"],
        left_out=document["left_out"],
        terms=("method", "interval", "change", "kappa"),
        **_chart(document),
    )


def _chart(results: dict[str, Any]) -> dict[str, Any]:
    """Return fairness across and utility up, with a line per method."""
    axes = {}
    for name in ("fairness", "utility"):
        values: list[float | None] = []
        for point in results["points"]:
            values += charts.ends(point[name])
        if name == "fairness":
            values.append(results["fairness"].get("floor"))
        axes[name] = charts.scale(values, zero=False, percent=True)
    series: dict[str, list[dict[str, Any]]] = {}
    for point in results["points"]:
        marks = series.setdefault(point["series"], [])
        if point["fairness"]["value"] is None or point["utility"]["value"] is None:
            continue
        x = charts.whisker(point["fairness"], axes["fairness"])
        y = charts.whisker(point["utility"], axes["utility"])
        marks.append({"point": point, "x": x, "y": y})
    lines = []
    for name, marks in series.items():
        places = [(mark["x"]["at"], 100 - mark["y"]["at"]) for mark in marks]
        lines.append({"name": name, "marks": marks, "segments": charts.segments(places)})
    return {"x": axes["fairness"], "y": axes["utility"], "lines": lines}


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
