"""A balanced page: the order of its candidates, and the certificate of what balancing did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from equipoise._balance import first
from equipoise.geometry import Float64
from equipoise.methods._search_rounds import Solved
from equipoise.prompts._attribute import Attribute
from equipoise.prompts._stated_groups import names_person


def nobody(prompt: str, attribute: Attribute) -> str:
    """Return why a page for a prompt about no person is left as it is; "" for other prompts."""
    return "" if names_person(prompt, attribute) else "it speaks of no person"


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
    def of(
        cls, solved: Solved, groups: Sequence[str], usual: float, move: float, reason: str
    ) -> PageCertificate:
        """Return the certificate of a page.

        usual: the collection's mean score. move: what no similarity moves by more than. reason: why
        the page was left as it is, or "".
        """
        answer, found = solved.answer, solved.pool.all
        k = len(answer.page)
        candidates = len(found.ids)
        before = _shares(found.groups[first(found.scores, k)], groups)
        if reason:
            return cls(k, before, before, 1.0, 1.0, 1.0, 0.0, 0.0, candidates, True, reason)
        return cls(
            k,
            before,
            _shares(found.groups[answer.page], groups),
            answer.kept,
            answer.kept_of_bound,
            (answer.score - k * usual) / (answer.plain_score - k * usual),
            answer.gap,
            move,
            candidates,
            solved.exact,
        )

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

    @classmethod
    def of(cls, query: np.ndarray, solved: Solved, certificate: PageCertificate) -> BalancedPage:
        """Return the page, and after it the other candidates."""
        page, ranked = solved.answer.page, solved.ranked
        order = first(ranked, len(ranked))
        after = order[~np.isin(order, page)]  # images tied at the edge are on one side of it
        order = np.concatenate([page, after])
        return cls(query, solved.pool.all.ids[order].tolist(), ranked[order], certificate)

    @property
    def first(self) -> list[Any]:
        """Return the ids of the balanced page: the first k."""
        return self.ids[: self.certificate.k]

    def __repr__(self) -> str:
        return f"BalancedPage(first {self.ids[:3]!r} of {len(self.ids)}; {self.certificate!r})"


class Ranked(NamedTuple):
    """Balanced rankings of one index: places and adjusted scores (queries, k), and the certificate
    of the page that each begins in.
    """

    indices: np.ndarray
    scores: np.ndarray
    certificates: Sequence[PageCertificate | None]

    @classmethod
    def of(cls, rows: Sequence[tuple[np.ndarray, Float64, PageCertificate]]) -> Ranked:
        """Return the rankings of queries that were listed one by one."""
        indices, scores, certificates = zip(*rows, strict=True)
        return cls(np.stack(indices), np.stack(scores).astype(np.float32), certificates)

    @classmethod
    def past_the_end(cls, queries: int) -> Ranked:
        """Return the page after the last image."""
        nothing = np.empty((queries, 0))
        return cls(nothing.astype(np.int64), nothing.astype(np.float32), (None,) * queries)


def _shares(codes: np.ndarray, groups: Sequence[str]) -> dict[str, float]:
    counts = np.bincount(codes, minlength=len(groups))
    return dict(zip(groups, (counts / len(codes)).tolist(), strict=True))
