"""Explicit prompts: whether "a female doctor" still means a woman after debiasing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from equipoise.prompts._attribute import Attribute
from equipoise.prompts._prompt_book import PromptBook
from equipoise.prompts._stated_groups import explicit_groups

# explicit texts that an audit measures at most
MOST = 200


class Explicit(NamedTuple):
    """A text and the place of the one group it names."""

    text: str
    group: int


def explicit_texts(
    prompts: Sequence[str], given: Sequence[str], book: PromptBook, attribute: Attribute
) -> list[Explicit]:
    """Return the explicit prompts that were given, and the anchors of the prompts for every group.

    Where the book holds none of the prompts, the anchors are those of the whole book. A given
    prompt that names two groups is left out.
    """
    places = {group: i for i, group in enumerate(attribute.groups)}
    found = []
    for text in given:
        named = explicit_groups(text, attribute)
        if len(named) == 1:
            found.append(Explicit(text, places[named[0]]))
    inside = [prompt for prompt in prompts if prompt in book] or list(book.prompts)
    for prompt in inside:
        for group in attribute.groups:
            found.append(Explicit(book[prompt][group].anchor, places[group]))
    unique = list(dict.fromkeys(found))
    return unique[:MOST]
