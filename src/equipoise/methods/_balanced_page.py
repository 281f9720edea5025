"""A balanced page: the order of its candidates, and the certificate of what balancing did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from equipoise._balance import Balance, first
from equipoise.geometry import Float64
from equipoise.methods._memberships import Memberships
from equipoise.methods._search_rounds import Solved
from equipoise.prompts._attribute import Attribute
from equipoise.prompts._stated_groups import names_person


def nobody(prompt: str, attribute: Attribute) -> str:
    """Return why a page for a prompt about no person is left as it is; "" for other prompts."""
    return "" if names_person(prompt, attribute) else "it speaks of no person"


class Aim(NamedTuple):
    """What pages are held to: the share of each group, and what tells shares from a mean
    membership. doubt: why shares may mean nothing, or "".
    """

    target: Mapping[str, float]
    memberships: Memberships
    doubt: str = ""

    def nearest(self, answer: Balance) -> dict[str, float] | None:
        """Return the shares that an answer went for, where the target was out of its reach."""
        if not answer.nearest:
            return None
        shares = self.memberships.shares(answer.target)
        return dict(zip(self.target, shares.tolist(), strict=True))


@dataclass(frozen=True)
class PageCertificate:
    """What balancing one page did.

    target: the shares of the groups that were aimed at, and strength: how far the page was to go
    there. nearest: the nearest shares that k images reach, where the target is out of reach.
    before, after: the shares among the first k, where each image counts for the group whose
    prototype is nearest. The mean membership is what is held to the target, so these counts may be
    off it where the prompts are unsure. They are what the prompts see, and no count of people: a
    page whose counts are nearer to the target need not be nearer by true labels. kept: the page's
    total score as a share of the undebiased page's, and of the largest that any page of that mean
    membership can have (``kept_of_bound``, above 1 where images that tie leave the page a little
    off its mean). kept_above_mean: the first of these with scores counted from the collection's
    mean score. gap: of the programme and its dual, which is rounding. largest_move: no similarity
    of a unit image moves by more. candidates: images that were looked at. exact: no other image
    could change the answer. left_alone: why nothing was done, or "". doubt: why the shares may mean
    nothing, or "".
    """

    k: int
    target: Mapping[str, float]
    strength: float
    before: Mapping[str, float]
    after: Mapping[str, float]
    kept: float
    kept_of_bound: float
    kept_above_mean: float
    gap: float
    largest_move: float
    candidates: int
    exact: bool
    nearest: Mapping[str, float] | None = None
    left_alone: str = ""
    doubt: str = ""

    @classmethod
    def of(
        cls, solved: Solved, aim: Aim, usual: float, move: float, reason: str
    ) -> PageCertificate:
        """Return the certificate of a page.

        usual: the collection's mean score. move: what no similarity moves by more than. reason: why
        the page was left as it is, or "".
        """
        answer, found = solved.answer, solved.pool.all
        k = len(answer.page)
        groups = list(aim.target)
        before = _shares(found.groups[first(found.scores, k)], groups)
        certificate = cls(
            k,
            aim.target,
            answer.strength,
            before,
            _shares(found.groups[answer.page], groups),
            answer.kept,
            answer.kept_of_bound,
            (answer.score - k * usual) / (answer.plain_score - k * usual),
            answer.gap,
            move,
            len(found.ids),
            solved.exact,
            aim.nearest(answer),
            doubt=aim.doubt,
        )
        return certificate._left_alone(reason) if reason else certificate

    def _left_alone(self, reason: str) -> PageCertificate:
        """Return the certificate of the page as it was before."""
        return replace(
            self,
            strength=0.0,
            after=self.before,
            kept=1.0,
            kept_of_bound=1.0,
            kept_above_mean=1.0,
            gap=0.0,
            largest_move=0.0,
            exact=True,
            nearest=None,
            left_alone=reason,
        )

    @property
    def off_target(self) -> float:
        """Return how far the counted shares are off the target: what would have to change groups,
        as a share of the page.
        """
        return self._off(self.after)

    def _off(self, shares: Mapping[str, float]) -> float:
        return sum(abs(shares[group] - aimed) for group, aimed in self.target.items()) / 2

    def _counts_miss(self) -> bool:
        """Return whether the counts are further off than images that tie at the edge explain."""
        held = self.strength == 1 and self.nearest is None
        return held and self.off_target > len(self.target) / self.k

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain JSON."""
        return asdict(self)

    def __repr__(self) -> str:
        if self.left_alone:
            return f"PageCertificate(first {self.k} left as they are: {self.left_alone})"
        shares = []
        for group, aimed in self.target.items():
            before, after = self.before[group], self.after[group]
            shares.append(f"{group} {before:.0%} -> {after:.0%} (target {aimed:.0%})")
        notes = [
            f"score kept {self.kept:.1%}",
            "exact" if self.exact else "more candidates could change it",
            f"{self.candidates} candidates",
        ]
        if self.strength < 1:
            notes.append(f"strength {self.strength:g}")
        if self.nearest is not None:
            notes.append("the target is out of reach, so the nearest shares were aimed at")
        if self.doubt:
            notes.append(f"in doubt: {self.doubt}")
        if self._counts_miss():
            notes.append(
                f"counted so, {self.off_target:.0%} of the page is off the target"
                f" ({self._off(self.before):.0%} before), and its mean membership is at it: only"
                " labels could say which of the two is right"
            )
        page = f"first {self.k}, as the prompts see them"
        return f"PageCertificate({page}: {', '.join(shares)}; {', '.join(notes)})"


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
