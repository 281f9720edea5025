"""The page of a sweep and its table on a terminal: fairness against utility, a line per method."""

from __future__ import annotations

from typing import Any

from rich.table import Table
from rich.text import Text

from equipoise.report import _numbers as numbers
from equipoise.report._page import assets, embedded, environment

FORM = "1%"


def sweep_page(results: dict[str, Any]) -> str:
    """Return one HTML file with all that it needs inside."""
    template = environment(results).get_template("sweep.html")
    return template.render(
        points=results["points"],
        left_out=results["left_out"],
        results=embedded(results),
        **assets("sweep.js"),
    )


def sweep_table(results: dict[str, Any]) -> Table:
    """Return a table for a terminal; a point that no other beats in both has a star."""
    table = Table(title=results["title"], caption=results["note"])
    for name in ("method", "strength", results["fairness"]["metric"], results["utility"]["metric"]):
        table.add_column(name)
    for point in results["points"]:
        strength = f"{point['param']} {point['value']}" if point["param"] else ""
        star = " *" if point["front"] else ""
        table.add_row(
            f"{point['series']}{star}",
            strength,
            _cell(point["fairness"]),
            _cell(point["utility"]),
        )
    return table


def _cell(record: dict[str, Any]) -> Text:
    if record["difference"] is None:
        return Text(_interval(record, FORM))
    return Text.assemble(
        _interval(record, FORM), ("\n" + _interval(record["difference"], f"+{FORM}"), "dim")
    )


def _interval(record: dict[str, Any], form: str) -> str:
    value = _percent(record["value"], form)
    low, high = _percent(record["low"], form), _percent(record["high"], form)
    return f"{value} [{low},\u00a0{high}]"


def _percent(value: float | None, form: str) -> str:
    return numbers.text(value, form).removesuffix(" %")
