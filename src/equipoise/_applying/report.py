"""The report of a run: what it did, in a few numbers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from equipoise._artefact import NOT_WHOLE
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


def read_totals(data: Any) -> Totals:
    """Return the totals that a note of a run holds; raise ValueError where they are not whole."""
    try:
        totals = Totals.from_json(data)
        _require_numbers(totals)
        totals.summary()
        merged([("", totals), ("", totals)])
    except NOT_WHOLE as error:
        raise ValueError(f"its totals are not whole ({error!r})") from None
    return totals


def _require_numbers(totals: Totals) -> None:
    found = [totals.n, totals.invalid]
    found += [getattr(totals, name) for name in Totals.WORST]
    for tally in (totals.leakage_before, totals.leakage, totals.self_loss):
        found += [tally.total, tally.largest, *tally.counts.values()]
    for number in found:
        if type(number) not in (int, float):
            raise ValueError(f"{number!r} is no number")


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
