"""What a run did, in a few numbers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from equipoise._artefact import NOT_WHOLE
from equipoise._certificate import Totals


@dataclass(frozen=True)
class ApplyReport:
    """rows and bytes written by this call (all of the run where it was not resumed), and the
    certificate of all rows, a modality.
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
    """Return the totals that a note of a run holds; ValueError where they are not whole."""
    try:
        totals = Totals.from_json(data)
        _require_numbers(totals)
        totals.summary()
        merged([("", totals), ("", totals)])
    except NOT_WHOLE as error:
        raise ValueError(f"its totals are not whole ({error!r})") from None
    return totals


def _require_numbers(totals: Totals) -> None:
    found = [totals.n, totals.invalid, *(getattr(totals, name) for name in Totals.WORST)]
    for tally in (totals.leakage_before, totals.leakage, totals.self_loss):
        found += [tally.total, tally.largest, *tally.counts.values()]
    for number in found:
        if type(number) not in (int, float):
            raise ValueError(f"{number!r} is no number")


def merged(parts: Iterable[tuple[str, Totals]]) -> dict[str, Totals]:
    """(modality, totals of a piece), in the order of rows: the totals of each modality."""
    totals: dict[str, Totals] = {}
    for modality, part in parts:
        totals[modality] = totals[modality] + part if modality in totals else part
    return totals


def certificate(totals: dict[str, Totals], theory: bool, space: bool) -> dict[str, Any]:
    """Summaries; without the distance from the theory for methods that have another, or none; only
    counts where no space was given.
    """
    summaries = {}
    for modality, part in totals.items():
        summary = part.summary()
        if not theory:
            summary.pop("differs_from_theory_by")
        summaries[modality] = summary if space else {"n": part.n, "invalid": part.invalid}
    return summaries
