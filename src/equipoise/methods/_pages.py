"""A balanced page: the order of its candidates, and the certificate of what balancing did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from equipoise.geometry import Float64


@dataclass(frozen=True)
class PageCertificate:
    """What balancing one page did.

    before, after: shares of the groups, as the prototypes name them, among the first k. kept: the
    page's total score as a share of the undebiased page's, and of the largest that any page of that
    mean membership can have (``kept_of_bound``). kept_above_mean: the first of these with scores
    counted from the collection's mean score. gap: of the programme and its dual, which is rounding.
    largest_move: no similarity of a unit image moves by more. candidates: images that were looked
    at. exact: no other image could change the answer. left_alone: why nothing was done, or "".
    """

    k: int
    before: Mapping[str, float]
    after: Mapping[str, float]
    kept: float
    kept_of_bound: float
    kept_above_mean: float
    gap: float
    largest_move: float
    candidates: int
    exact: bool
    left_alone: str = ""

    @classmethod
    def unchanged(
        cls, k: int, shares: Mapping[str, float], candidates: int, reason: str
    ) -> PageCertificate:
        """Return the certificate of a page that was left as it is."""
        return cls(k, shares, shares, 1.0, 1.0, 1.0, 0.0, 0.0, candidates, True, reason)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain JSON."""
        return asdict(self)

    def __repr__(self) -> str:
        if self.left_alone:
            return f"PageCertificate(first {self.k} left as they are: {self.left_alone})"
        shares = ", ".join(
            f"{group} {self.before[group]:.0%} -> {self.after[group]:.0%}" for group in self.before
        )
        proof = "exact" if self.exact else "more candidates could change it"
        return (
            f"PageCertificate(first {self.k}: {shares}; score kept {self.kept:.1%}, {proof} with"
            f" {self.candidates} candidates)"
        )


@dataclass(frozen=True, eq=False)
class BalancedPage:
    """A balanced search: the shifted query (d,), all candidates in the balanced order, their
    adjusted scores, and the certificate of the first k.
    """

    query: np.ndarray
    ids: list[Any]
    scores: Float64
    certificate: PageCertificate

    def __repr__(self) -> str:
        return f"BalancedPage(first {self.ids[:3]!r} of {len(self.ids)}; {self.certificate!r})"


class Ranked(NamedTuple):
    """Balanced rankings of one index: places and adjusted scores (queries, k), and the certificate
    of each first page.
    """

    indices: np.ndarray
    scores: np.ndarray
    certificates: list[PageCertificate]
