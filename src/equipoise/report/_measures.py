"""Tables of measures: a row per method, a column per measure, each with its interval drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from equipoise._audit.results import AuditDocument, MethodValue, SummaryMetric
from equipoise.report import _charts as charts
from equipoise.report._number_format import NumberPlace

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


def floor_of(document: AuditDocument, key: str) -> float | None:
    """Return what chance gives of a metric; None where it gives nothing in particular."""
    if key == "probe":
        return GUESSING
    if key == "max_skew" and document.chance is not None:
        return document.chance.mean_max_skew.value
    return None


@dataclass(frozen=True)
class PlacedAudit:
    """An audit, and its place in the results of a page.

    name: the place of its name, where there are several.
    """

    document: AuditDocument
    at: NumberPlace = field(default_factory=NumberPlace)
    name: NumberPlace | None = None

    def places(self) -> dict[str, int]:
        """Return the row of each metric in the summary, by its key."""
        return {row.key: place for place, row in enumerate(self.document.summary)}


@dataclass(frozen=True)
class MeasureColumn:
    """A measure. path: of its row in a summary. axis: that on which all of its cells are drawn."""

    key: str
    path: str
    row: SummaryMetric
    axis: charts.Scale
    digits: str


@dataclass(frozen=True)
class MeasureCell:
    """A value by its path; both are None where it was not measured. n: the path of its n."""

    path: str | None = None
    record: MethodValue | None = None
    floor: float | None = None
    n: str | None = None


@dataclass(frozen=True)
class MeasureRow:
    """A method of an audit. label: the path of its name, None for the model as it is."""

    label: str | None
    cells: list[MeasureCell]
    audit: str | None = None
    recommended: bool = False


@dataclass(frozen=True)
class MeasureSection:
    title: str
    columns: list[MeasureColumn]
    rows: list[MeasureRow]


def sections(audits: Sequence[PlacedAudit]) -> list[MeasureSection]:
    """Return the tables of one audit or of several."""
    columns = _columns(audits)
    found = []
    for key, title in SECTIONS.items():
        own = [column for column in columns if column.row.section == key]
        if own:
            rows = []
            for audit in audits:
                rows += _rows(audit, own)
            found.append(MeasureSection(title, own, rows))
    return found


def _columns(audits: Sequence[PlacedAudit]) -> list[MeasureColumn]:
    """Return every metric of the audits, once."""
    rows: dict[str, tuple[NumberPlace, SummaryMetric]] = {}
    values: dict[str, list[float | None]] = {}
    for audit in audits:
        for place, row in enumerate(audit.document.summary):
            rows.setdefault(row.key, (audit.at.summary[place], row))
            known = values.setdefault(row.key, [])
            known.append(floor_of(audit.document, row.key))
            for record in row.values:
                known += charts.ends(record)
    columns = []
    for key, (place, row) in rows.items():
        axis = charts.scale(values[key], zero=key != "probe")
        columns.append(MeasureColumn(key, str(place), row, axis, digits(key)))
    return columns


def _rows(audit: PlacedAudit, columns: Sequence[MeasureColumn]) -> list[MeasureRow]:
    recommended = audit.document.recommendation.method
    name = None if audit.name is None else str(audit.name)
    rows = []
    for method in range(len(audit.document.methods)):
        label = str(audit.at.methods[method].label) if method else None
        cells = [_cell(audit, column.key, method) for column in columns]
        rows.append(MeasureRow(label, cells, name, method > 0 and method == recommended))
    return rows


def _cell(audit: PlacedAudit, key: str, method: int) -> MeasureCell:
    """Return a metric of a method, with its n where audits of several n stand in one table."""
    place = audit.places().get(key)
    if place is None:
        return MeasureCell()
    metric = audit.at.summary[place]
    return MeasureCell(
        path=str(metric.values[method]),
        record=audit.document.summary[place].values[method],
        floor=floor_of(audit.document, key),
        n=None if audit.name is None else str(metric.n),
    )
