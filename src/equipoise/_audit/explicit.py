"""Explicit prompts: whether "a female doctor" still means a woman after debiasing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from equipoise.prompts._attribute import Attribute
from equipoise.prompts._book import PromptBook
from equipoise.prompts._marks import explicit_groups

MOST = 200  # texts


class Explicit(NamedTuple):
    """A text and the place of the one group it names."""

    text: str
    group: int


def explicit_texts(
    prompts: Sequence[str], given: Sequence[str], book: PromptBook, attribute: Attribute
) -> list[Explicit]:
    """Those that were given, and the anchors of the prompts (of the whole book, where it holds none
    of them) for every group.
    """
    places = {group: i for i, group in enumerate(attribute.groups)}
    found = [
        Explicit(text, places[named[0]])
        for text in given
        if len(named := explicit_groups(text, attribute)) == 1
    ]
    inside = [prompt for prompt in prompts if prompt in book] or list(book.prompts)
    anchors = [
        Explicit(book[prompt][group].anchor, places[group])
        for prompt in inside
        for group in attribute.groups
    ]
    return list(dict.fromkeys(found + anchors))[:MOST]
