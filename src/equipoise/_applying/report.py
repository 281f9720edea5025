"""The report of a run: what it did, in a few numbers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from equipoise._certificate import Totals


@dataclass(frozen=True)
class ApplyReport:
    """What a call wrote: rows and bytes, and the certificate of all rows per modality.

    A resumed run counts only what it wrote itself.
    """

    destination: str
    rows: int
    bytes: int
    shards: int
    seconds: float
    certificate: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def merged(parts: Iterable[tuple[str, Totals]]) -> dict[str, Totals]:
    """Return the totals of each modality; parts are (modality, totals of a piece), in row order."""
    totals: dict[str, Totals] = {}
    for modality, part in parts:
        if modality in totals:
            totals[modality] += part
        else:
            totals[modality] = part
    return totals


def certificate(totals: dict[str, Totals], theory: bool, space: bool) -> dict[str, Any]:
    """Return the summaries by modality.

    theory: whether the method has one to be compared with. space: whether one was given; without
    it, only counts are known.
    """
    summaries = {}
    for modality, part in totals.items():
        summary = {"n": part.n, "invalid": part.invalid}
        if space:
            summary = part.summary()
            if not theory:
                del summary["differs_from_theory_by"]
        summaries[modality] = summary
    return summaries
