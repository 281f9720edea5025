"""``GroupDraws``: a group for each picture, in the shares asked for, and how its prompt says it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from fractions import Fraction
from typing import NamedTuple

from equipoise.errors import InputError
from equipoise.generation._quota import Quota
from equipoise.generation._shares import EQUAL, GroupShares, checked, exact_shares, shares_of
from equipoise.prompts._attribute import Attribute
from equipoise.prompts._book_writers import BookWriter, GrammarWriter, Writer
from equipoise.prompts._prompt_book import PromptBook
from equipoise.prompts._stated_groups import explicit_groups, names_person

NAMED = "it names a group"
NOBODY = "it speaks of no person"
MOST = 2_000_000  # pictures of a prompt that can be told apart


class DrawnGroup(NamedTuple):
    """What was drawn for a picture.

    group: "" where the prompt is left alone, and left_alone says why. wording: the prompt with the
    group in it, or as it is.
    """

    group: str
    wording: str
    left_alone: str = ""


class GroupDraws:
    """Draws a group for each picture of a prompt, and words the prompt for it.

    Picture i of a prompt has the same group whenever it is drawn, and any 100 in a row have the
    shares to within one. Prompts that name a group and prompts about nobody are left alone.

    target: "equal", shares such as "male=0.3,female=0.7", the name or file of a table, or a mapping
    of group to share. book: where anchors are looked up first; others come from the curated books,
    and else by rule. shares: of single prompts, in place of the target's.
    """

    def __init__(
        self,
        attribute: Attribute | str,
        target: str | Mapping[str, float] = EQUAL,
        book: PromptBook | str | os.PathLike[str] | None = None,
        *,
        shares: Mapping[str, GroupShares] | None = None,
    ):
        self.attribute: Attribute = _attribute(attribute)
        self.target: str | Mapping[str, float] = target
        self._writers = _writers(book)
        self._anchors: dict[str, dict[str, str]] = {}
        self._left_alone: dict[str, str] = {}
        self._shares: dict[str, GroupShares] = dict(shares or {})
        self._quotas: dict[tuple[Fraction, ...], Quota] = {}

    def __call__(self, prompt: str, position: int) -> DrawnGroup:
        """Return what is drawn for a picture of a prompt.

        position: the picture's place among those of its prompt, such as its seed.
        """
        if not isinstance(position, int) or not 0 <= position < MOST:
            raise InputError(
                f"position={position!r} is not legal; it is a whole number from 0, below {MOST:,}"
            )
        if reason := self.left_alone(prompt):
            return DrawnGroup("", prompt, reason)
        exact = exact_shares(self.shares(prompt))
        quota = self._quotas.setdefault(exact, Quota(exact))
        group = self.attribute.groups[quota[position]]
        return DrawnGroup(group, self.anchors(prompt)[group])

    def shares(self, prompt: str) -> GroupShares:
        """Return group -> the share that is aimed at for a prompt."""
        if prompt not in self._shares:
            self._shares[prompt] = self._read_shares(prompt)
        return self._shares[prompt]

    def aim(self, prompt: str, shares: GroupShares) -> None:
        """Draw with other shares for a prompt from now on, as a closed loop does."""
        self._shares[prompt] = dict(shares)

    def left_alone(self, prompt: str) -> str:
        """Return why a prompt is left as it is; "" where a group is drawn for it."""
        if prompt not in self._left_alone:
            self._left_alone[prompt] = self._reason(prompt)
        return self._left_alone[prompt]

    def anchors(self, prompt: str) -> dict[str, str]:
        """Return group -> the prompt's anchor; empty where it has none for some group."""
        if prompt not in self._anchors:
            self._anchors[prompt] = self._written(prompt)
        return self._anchors[prompt]

    def _read_shares(self, prompt: str) -> GroupShares:
        if isinstance(self.target, str):
            return shares_of(self.target, prompt, self.attribute)
        return checked(self.target, self.attribute, "target")

    def _reason(self, prompt: str) -> str:
        if explicit_groups(prompt, self.attribute):
            return NAMED
        if self.anchors(prompt):
            return ""
        if not names_person(prompt, self.attribute):
            return NOBODY
        return f"no book has it, and no rule words it for every group of {self.attribute.name}"

    def _written(self, prompt: str) -> dict[str, str]:
        groups = self.attribute.groups
        for writer in self._writers:
            book = writer.write([prompt], self.attribute).book
            if not book.missing([prompt], self.attribute):
                return {group: book[prompt][group].anchor for group in groups}
        return {}


def _attribute(attribute: Attribute | str) -> Attribute:
    return Attribute.load(attribute) if isinstance(attribute, str) else attribute


def _writers(book: PromptBook | str | os.PathLike[str] | None) -> list[Writer]:
    """Return who words prompts, in the order in which they are asked."""
    writers: list[Writer] = [BookWriter(), GrammarWriter()]
    if book is not None:
        given = book if isinstance(book, PromptBook) else PromptBook.load(book)
        writers.insert(0, BookWriter(given))
    return writers
