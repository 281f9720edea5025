"""The page of several audits: the same measures side by side, and how far they differ."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from equipoise._audit.results import AuditDocument, MethodValue, Ranged, ResultsPart
from equipoise._documents import Number
from equipoise.report import _charts as charts
from equipoise.report import _measures as measures
from equipoise.report import _sentences as words
from equipoise.report._headline import headline_with_places
from equipoise.report._measures import PlacedAudit
from equipoise.report._number_format import NumberPlace
from equipoise.report._rendering import filled, render


class NamedAudit(ResultsPart):
    name: str
    results: AuditDocument


class AuditDifference(ResultsPart):
    """A measure of an audit, ``here``, less that of the first. run: the place of the audit."""

    run: int
    key: str
    name: str
    method: str
    first: Number
    here: Number
    value: Number
    low: Number
    high: Number


class Comparison(ResultsPart):
    """What the page of several audits carries."""

    runs: list[NamedAudit]
    differences: list[AuditDifference]


@dataclass(frozen=True)
class ChartRow:
    """A method of an audit in the chart. audit, label, path: the places of its names and value."""

    audit: str
    label: str | None
    path: str
    record: MethodValue
    floor: float | None


@dataclass(frozen=True)
class ComparisonChart:
    """The measure that all audits have and their verdicts go by, a row per method."""

    key: str
    rows: list[ChartRow]
    axis: charts.Scale
    digits: str


def comparison(audits: Sequence[tuple[str, AuditDocument | Mapping[str, object]]]) -> str:
    """Return the page of several audits: name and document, or what results.json holds."""
    runs = []
    for name, audit in audits:
        runs.append(NamedAudit(name=name, results=AuditDocument.model_validate(audit)))
    compared = Comparison(runs=runs, differences=_differences(runs))
    placed, headlines, caveats = [], [], []
    for number, run in enumerate(runs):
        place = NumberPlace().runs[number]
        placed.append(PlacedAudit(run.results, place.results, place.name))
        headline = headline_with_places(run.results, place.results)
        headlines.append(filled(headline, compared, terms=False))
        caveats += words.caveats(run.results)
    return render(
        "comparison.html",
        compared,
        runs=compared.runs,
        differences=compared.differences,
        digits=measures.digits,
        headlines=headlines,
        chart=_chart(placed),
        sections=measures.sections(placed),
        axes=_difference_axes(compared.differences),
        caveats=list(dict.fromkeys(caveats)),
    )


def _chart(audits: Sequence[PlacedAudit]) -> ComparisonChart:
    skewed = all(audit.document.verdict.measure == "max_skew" for audit in audits)
    key = "max_skew" if skewed else "lean"
    rows, values = [], []
    for audit in audits:
        floor = measures.floor_of(audit.document, key)
        place = audit.places()[key]
        values.append(floor)
        for method, record in enumerate(audit.document.summary[place].values):
            values += charts.ends(record)
            row = ChartRow(
                audit=str(audit.name),
                label=str(audit.at.methods[method].label) if method else None,
                path=str(audit.at.summary[place].values[method]),
                record=record,
                floor=floor,
            )
            rows.append(row)
    return ComparisonChart(key, rows, charts.scale(values), measures.digits(key))


# --- Differences ------------------------------------------------------------------------


def _differences(runs: Sequence[NamedAudit]) -> list[AuditDifference]:
    """Return each measure of each audit less that of the first, for the methods that both have."""
    first = _by_name(runs[0].results)
    found = []
    for number, run in enumerate(runs[1:], 1):
        for (key, label), (name, record) in _by_name(run.results).items():
            if (key, label) not in first:
                continue
            _, other = first[key, label]
            difference = AuditDifference(
                run=number,
                key=key,
                name=name,
                method=label,
                first=other.value,
                here=record.value,
                **dict(_less(record, other)),
            )
            found.append(difference)
    return found


def _by_name(audit: AuditDocument) -> dict[tuple[str, str], tuple[str, MethodValue]]:
    found = {}
    for row in audit.summary:
        name = row.name
        if row.section == measures.GATED:
            name += ", with the gate"
        for method, record in zip(audit.methods, row.values, strict=True):
            found[row.key, method.label] = (name, record)
    return found


def _less(one: Ranged, other: Ranged) -> Ranged:
    """Return a difference with the interval that both intervals give where they are independent.

    Each end is as far from the difference as the root of the sum of squares of the two distances
    that it comes from (Zou and Donner, 2008).
    """
    if one.value is None or other.value is None:
        return Ranged(value=None, low=None, high=None)
    value = one.value - other.value
    if one.low is None or one.high is None or other.low is None or other.high is None:
        return Ranged(value=value, low=None, high=None)
    down = math.hypot(one.value - one.low, other.high - other.value)
    up = math.hypot(one.high - one.value, other.value - other.low)
    return Ranged(value=value, low=value - down, high=value + up)


def _difference_axes(differences: Sequence[AuditDifference]) -> dict[str, charts.Scale]:
    """Return an axis per metric, with zero on it."""
    values: dict[str, list[float | None]] = {}
    for one in differences:
        values.setdefault(one.key, []).extend(charts.ends(one))
    return {key: charts.scale(known) for key, known in values.items()}
