"""A search as it is and balanced, and what changed between the two rows.

Both rows are those of ``eq.search``; the collection is read and multiplied once for the two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from equipoise import _rows
from equipoise._balance import InfeasibleTargetError
from equipoise._explore.answers import (
    BalancedRow,
    PlainRow,
    RankedImage,
    Said,
    SearchRow,
    Trouble,
)
from equipoise._explore.operators import Operators
from equipoise._explore.question import Controls, SearchQuestion
from equipoise._explore.words import joined, percent, say
from equipoise._search import top_k
from equipoise.errors import InputError
from equipoise.methods._balanced_page import PageCertificate

KEPT = 256  # answers that are kept: typing back and forth asks for the same again

Search = Callable[..., Any]  # eq.search


@dataclass(frozen=True)
class _SecondRow:
    """A row after a method, the share of the score that it keeps, and how that is proved."""

    row: SearchRow
    kept: float
    note: str = ""
    certificate: PageCertificate | None = None


class Searcher:
    """The two rows of a search.

    search: ``eq.search``, which nothing here imports, because verbs lie above this room.
    """

    def __init__(self, operators: Operators, search: Search):
        self.operators, self.search = operators, search
        self.collection, self.encoder = operators.collection, operators.encoder
        self.before = lru_cache(KEPT)(self._before)
        self.after = lru_cache(KEPT)(self._after)
        self.shares = lru_cache(KEPT)(self._collection_shares)
        self._encoded = lru_cache(KEPT)(self._encode)
        self._plain = lru_cache(KEPT)(self._search_plain)

    # --- The first row

    def _before(self, question: SearchQuestion) -> PlainRow:
        """Return the plain row: images, the shares of the groups, and why it is left alone."""
        controls = question.controls
        row = self._row(controls, *self._plain(question.text, controls.k))
        reason = ""
        trouble = ""
        try:
            reason = self.operators.base(controls.attribute).left_alone(question.text)
        except InputError as error:
            trouble = str(error)
        shares = self.shares(controls.attribute)
        return PlainRow(**dict(row), left_alone=reason, trouble=trouble, collection=shares)

    def _encode(self, text: str) -> np.ndarray:
        """Return the row (1, d) of a text."""
        return self.encoder.encode_text([text])

    def _search_plain(self, text: str, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the places and the scores of the k best images."""
        indices, scores = top_k(
            self._encoded(text),
            self.collection.rows,
            k,
            show_progress=False,
            recent=self.operators.recent,
        )
        return indices[0], scores[0]

    # --- The second row

    def _after(self, question: SearchQuestion) -> BalancedRow | Trouble:
        """Return the balanced row, what moved, and the price."""
        before = self.before(question)
        if before.trouble:
            return Trouble(trouble=before.trouble)
        if before.left_alone:
            found = _SecondRow(before, kept=1.0)
        elif question.controls.method == "balanced":
            found = self._balanced(question)
        else:
            found = self._debiased(question)
        old = [image.id for image in before.images]
        new = [image.id for image in found.row.images]
        moved_in = [place for place in new if place not in old]
        return BalancedRow(
            images=found.row.images,
            shares=found.row.shares,
            note=found.note,
            certificate=found.certificate,
            kept=found.kept,
            left_alone=before.left_alone,
            moved_in=moved_in,
            moved_out=[place for place in old if place not in new],
            said=_said(before, found, len(moved_in), question.controls.k),
        )

    def _balanced(self, question: SearchQuestion) -> _SecondRow:
        controls = question.controls
        note = ""
        try:
            operator = self.operators.balanced(controls, nearest=False)
            found = self._search_balanced(question, operator)
        except InfeasibleTargetError as error:
            note = str(error)
            operator = self.operators.balanced(controls, nearest=True)
            found = self._search_balanced(question, operator)
        row = self._row(controls, found.indices[0], found.scores[0])
        certificate = found.certificates[0]
        return _SecondRow(row, certificate.kept, note, certificate)

    def _search_balanced(self, question: SearchQuestion, operator: Any) -> Any:
        text = self._encoded(question.text)
        return self.search(self.collection.rows, text, question.controls.k, balance=operator)

    def _debiased(self, question: SearchQuestion) -> _SecondRow:
        """Return the row of a method that changes images, texts or both."""
        controls = question.controls
        operator = self.operators.method(controls)
        text = self._encoded(question.text)
        blocks = _rows.blocks_of(self.collection.rows, _rows.BLOCK)
        changed = (operator.image(block) for block in blocks)
        found = self.search(changed, operator.text(text, [question.text]), controls.k)
        indices = found.indices[0]
        similar = self.collection.rows[indices] @ text[0]
        _, plain_scores = self._plain(question.text, controls.k)
        kept = float(similar.sum() / plain_scores.sum())
        return _SecondRow(self._row(controls, indices, found.scores[0]), kept)

    # --- What both rows have

    def _row(self, controls: Controls, indices: np.ndarray, scores: np.ndarray) -> SearchRow:
        groups = self.groups(controls.attribute, indices)
        places: list[int] = indices.tolist()
        images = []
        for i, place in enumerate(places):
            group = None if groups is None else groups[i]
            name, score = self.collection.names[place], float(scores[i])
            images.append(RankedImage(id=place, name=name, group=group, score=score))
        shares = None
        if groups is not None:
            shares = shares_of(groups, self.operators.attributes[controls.attribute].groups)
        return SearchRow(images=images, shares=shares)

    def groups(self, attribute: str, indices: np.ndarray) -> np.ndarray | None:
        """Return the group of images: labelled, else as the prompts see it; None where neither."""
        labels = self.collection.labels(self.operators.attributes[attribute])
        if labels is not None:
            return labels[indices]
        try:
            return self.operators.base(attribute).groups_of(indices)
        except InputError:
            return None

    def _collection_shares(self, attribute: str) -> dict[str, float] | None:
        """Return the shares of the groups in the whole collection."""
        groups = self.groups(attribute, np.arange(len(self.collection)))
        if groups is None:
            return None
        return shares_of(groups, self.operators.attributes[attribute].groups)


def _said(before: PlainRow, found: _SecondRow, moved: int, k: int) -> Said:
    """Return the sentences that say what happened. moved: how many of the k pictures are new."""
    if before.left_alone:
        return Said(change=say("left-alone", reason=before.left_alone), price="")
    change = say("no-change")
    if moved:
        shares = changed_shares(before.shares or {}, found.row.shares or {})
        change = say("change", count=moved, k=k, shares=shares)
    sentence = "price-unproved"
    if found.certificate is not None:
        proved = found.certificate.exact and not found.note
        sentence = "price" if proved else "price-near"
    return Said(change=change, price=say(sentence, kept=_kept(found.kept)))


def shares_of(groups: np.ndarray, names: tuple[str, ...]) -> dict[str, float]:
    """Return the share of each group among those whose group is known."""
    counts = [int((groups == name).sum()) for name in names]
    total = max(1, sum(counts))
    return {name: count / total for name, count in zip(names, counts, strict=True)}


def changed_shares(before: Mapping[str, float], after: Mapping[str, float]) -> str:
    """Return each group with its share before and after, in words."""
    parts = []
    for name in before:
        old, new = percent(before[name]), percent(after[name])
        parts.append(say("share-change", group=name, before=old, after=new))
    return joined(parts)


def _kept(share: float) -> str:
    """Return the share of the score, cut and not rounded: 100 % is said of all of it alone."""
    return f"{int(1000 * share + 1e-6) / 10:.1f} %"
