"""Tables of measures: a row per method, a column per measure, each with its interval drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from equipoise.report import _charts as charts

GATED = "explicit, gated"
SECTIONS = {
    "retrieval": "Who is found",
    "classification": "Zero-shot classification",
    "association": "What texts and images carry",
    "probe": "What a trained probe still reads",
    "cost": "What debiasing costs",
    "explicit": "Prompts that name a group",
    GATED: "Prompts that name a group, left alone by the gate",
}
GUESSING = 0.5
# measures that need a fourth digit
SMALL = ("lean", "leakage", "self_loss", "explicit_lean")


def digits(key: str) -> str:
    """Return how many digits of a metric are shown after the point."""
    return "4" if key.startswith(SMALL) else "3"


def floor_of(results: dict[str, Any], key: str) -> float | None:
    """Return what chance gives of a metric; None where it gives nothing in particular."""
    if key == "probe":
        return GUESSING
    if key == "max_skew" and results["chance"]:
        return results["chance"]["mean_max_skew"]["value"]
    return None


@dataclass
class MeasureColumn:
    """A measure. path: of its row in a summary. axis: that on which all of its cells are drawn."""

    key: str
    path: str
    row: dict[str, Any]
    axis: charts.Scale
    digits: str


@dataclass
class MeasureCell:
    """A value by its path, which is None where it was not measured."""

    path: str | None
    record: dict[str, Any] = field(default_factory=dict)
    floor: float | None = None
    n: str | None = None


@dataclass
class MeasureRow:
    """A method of an audit. label: the path of its name, None for the model as it is."""

    label: str | None
    cells: list[MeasureCell]
    audit: str | None = None
    recommended: bool = False


@dataclass
class MeasureSection:
    title: str
    columns: list[MeasureColumn]
    rows: list[MeasureRow]


def sections(
    audits: Sequence[tuple[str, dict[str, Any]]], *, several: bool
) -> list[MeasureSection]:
    """Return the tables of one audit or of several, each audit given with its path."""
    columns = _columns(audits)
    found = []
    for key, title in SECTIONS.items():
        own = [column for column in columns if column.row["section"] == key]
        if own:
            rows = []
            for path, results in audits:
                rows += _rows(path, results, own, several=several)
            found.append(MeasureSection(title, own, rows))
    return found


def _columns(audits: Sequence[tuple[str, dict[str, Any]]]) -> list[MeasureColumn]:
    """Return every metric of the audits, once."""
    rows: dict[str, tuple[str, dict[str, Any]]] = {}
    values: dict[str, list[float | None]] = {}
    for path, results in audits:
        for place, row in enumerate(results["summary"]):
            key = row["key"]
            rows.setdefault(key, (f"{path}summary.{place}", row))
            known = values.setdefault(key, [])
            known.append(floor_of(results, key))
            for record in row["values"]:
                known += charts.ends(record)
    columns = []
    for key, (path, row) in rows.items():
        axis = charts.scale(values[key], zero=key != "probe")
        columns.append(MeasureColumn(key, path, row, axis, digits(key)))
    return columns


def _rows(
    path: str, results: dict[str, Any], columns: Sequence[MeasureColumn], *, several: bool
) -> list[MeasureRow]:
    places = {row["key"]: place for place, row in enumerate(results["summary"])}
    recommended = results["recommendation"]["method"]
    rows = []
    for method in range(len(results["methods"])):
        cells = []
        for column in columns:
            place = places.get(column.key)
            if place is None:
                cells.append(MeasureCell(None))
                continue
            metric = f"{path}summary.{place}"
            record = results["summary"][place]["values"][method]
            number = f"{metric}.n" if several else None
            floor = floor_of(results, column.key)
            cells.append(MeasureCell(f"{metric}.values.{method}", record, floor, number))
        label = f"{path}methods.{method}.label" if method else None
        audit = path.removesuffix("results.") + "name" if several else None
        rows.append(MeasureRow(label, cells, audit, method > 0 and method == recommended))
    return rows
