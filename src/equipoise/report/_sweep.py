"""The page of a sweep, and its table on a terminal: fairness against utility, a line a method."""

from __future__ import annotations

from typing import Any

from rich.table import Table
from rich.text import Text

from equipoise.report import _numbers as numbers
from equipoise.report._page import assets, embedded, environment

FORM = "1%"


def sweep_page(results: dict[str, Any]) -> str:
    """One HTML file with all that it needs inside."""
    context = {
        "points": results["points"],
        "left_out": results["left_out"],
        "results": embedded(results),
    }
    return environment(results).get_template("sweep.html").render(**context, **assets("sweep.js"))


def sweep_table(results: dict[str, Any]) -> Table:
    """For a terminal; a point that no other beats in both has a star."""
    table = Table(title=results["title"], caption=results["note"])
    for name in ("method", "strength", results["fairness"]["metric"], results["utility"]["metric"]):
        table.add_column(name)
    for point in results["points"]:
        strength = f"{point['param']} {point['value']}" if point["param"] else ""
        star = " *" if point["front"] else ""
        table.add_row(
            f"{point['series']}{star}",
            strength,
            *(_cell(point[axis]) for axis in ("fairness", "utility")),
        )
    return table


def _cell(record: dict[str, Any]) -> Text:
    if record["difference"] is None:
        return Text(_interval(record, FORM))
    return Text.assemble(
        _interval(record, FORM), ("\n" + _interval(record["difference"], f"+{FORM}"), "dim")
    )


def _interval(record: dict[str, Any], form: str) -> str:
    value, low, high = (
        numbers.text(record[key], form).removesuffix(" %") for key in ("value", "low", "high")
    )
    return f"{value} [{low},\u00a0{high}]"
