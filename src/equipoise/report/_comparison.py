"""The page of several audits: the same measures side by side, and how far they differ."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from equipoise.report import _charts as charts
from equipoise.report import _measures as measures
from equipoise.report import _sentences as words
from equipoise.report._headline import headline_with_places
from equipoise.report._number_format import PLACE
from equipoise.report._rendering import filled, render

Runs = Sequence[tuple[str, dict[str, Any]]]


def comparison(runs: Runs) -> str:
    """Return the page of several audits, given by name."""
    audits = [audit for _, audit in runs]
    results = {
        "runs": [{"name": name, "results": audit} for name, audit in runs],
        "differences": _differences(audits),
    }
    caveats = [sentence for audit in audits for sentence in words.caveats(audit)]
    named = [(f"runs.{place}.results.", audit) for place, audit in enumerate(audits)]
    context = {
        "runs": results["runs"],
        "differences": results["differences"],
        "digits": measures.digits,
        "headlines": [_headline(results, place) for place in range(len(audits))],
        "chart": _chart(audits),
        "sections": measures.sections(named, several=True),
        "axes": _difference_axes(results["differences"]),
        "caveats": list(dict.fromkeys(caveats)),
    }
    return render("comparison.html", results, **context)


def _headline(results: dict[str, Any], place: int) -> Markup:
    """Return the verdict of one audit, with each number by its place in all results."""
    path = f"runs.{place}.results."
    sentence = headline_with_places(results["runs"][place]["results"])
    placed = PLACE.sub(lambda found: f"{{{path}{found[1]}|{found[2]}}}", sentence)
    return filled(placed, results, terms=False)


def _chart(audits: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the measure that all audits have and their verdicts go by, a row per method."""
    skewed = all(audit["verdict"]["measure"] == "max_skew" for audit in audits)
    key = "max_skew" if skewed else "lean"
    rows, values = [], []
    for number, audit in enumerate(audits):
        floor = measures.floor_of(audit, key)
        place = next(i for i, row in enumerate(audit["summary"]) if row["key"] == key)
        values.append(floor)
        for method, record in enumerate(audit["summary"][place]["values"]):
            values += charts.ends(record)
            path = f"runs.{number}.results."
            rows.append(
                {
                    "audit": f"runs.{number}.name",
                    "label": f"{path}methods.{method}.label" if method else None,
                    "path": f"{path}summary.{place}.values.{method}",
                    "record": record,
                    "floor": floor,
                }
            )
    digits = measures.digits(key)
    return {"key": key, "rows": rows, "axis": charts.scale(values), "digits": digits}


# --- Differences ------------------------------------------------------------------------


def _differences(audits: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return each measure of each audit less that of the first, for the methods that both have."""
    first = _by_name(audits[0])
    found = []
    for number, audit in enumerate(audits[1:], 1):
        for (key, label), (name, record) in _by_name(audit).items():
            if (key, label) not in first:
                continue
            _, other = first[key, label]
            about = {"run": number, "key": key, "name": name, "method": label}
            found.append(
                about | {"first": other["value"], "here": record["value"]} | _less(record, other)
            )
    return found


def _by_name(audit: dict[str, Any]) -> dict[tuple[str, str], tuple[str, dict[str, Any]]]:
    found = {}
    for row in audit["summary"]:
        name = row["name"]
        if row["section"] == measures.GATED:
            name += ", with the gate"
        for method, record in zip(audit["methods"], row["values"], strict=True):
            found[row["key"], method["label"]] = (name, record)
    return found


def _less(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Return a difference with the interval that both intervals give where they are independent.

    Each end is as far from the difference as the root of the sum of squares of the two distances
    that it comes from (Zou and Donner, 2008).
    """
    known = [*charts.ends(one), *charts.ends(other)]
    if one["value"] is None or other["value"] is None:
        return {"value": None, "low": None, "high": None}
    value = one["value"] - other["value"]
    if None in known:
        return {"value": value, "low": None, "high": None}
    down = math.hypot(one["value"] - one["low"], other["high"] - other["value"])
    up = math.hypot(one["high"] - one["value"], other["value"] - other["low"])
    return {"value": value, "low": value - down, "high": value + up}


def _difference_axes(differences: Sequence[dict[str, Any]]) -> dict[str, charts.Scale]:
    """Return an axis per metric, with zero on it."""
    values: dict[str, list[float | None]] = {}
    for one in differences:
        values.setdefault(one["key"], []).extend(charts.ends(one))
    return {key: charts.scale(known) for key, known in values.items()}
