"""Which prompt book a run uses: the one that was named, or entries found and written for the very
prompts of the run.
"""

from __future__ import annotations

from collections.abc import Sequence

from equipoise.errors import InputError
from equipoise.prompts._attribute import Attribute
from equipoise.prompts._book import PromptBook
from equipoise.prompts._writing import BookWriter, GrammarWriter

GRAMMAR = "grammar"


def book_for(prompts: Sequence[str], attribute: Attribute, name: str | None) -> PromptBook:
    """``name``: a file, a curated book, or "grammar" to have all written by rule.

    None: curated entries, the rest by rule.

    Where not one of the prompts speaks of a person, a curated book about people serves.
    """
    if name is not None and name != GRAMMAR:
        return whole(PromptBook.load(name), attribute)
    wanted = list(dict.fromkeys(prompts))
    book = PromptBook() if name == GRAMMAR else BookWriter().write(wanted, attribute).book
    rest = [prompt for prompt in wanted if prompt not in book]
    book = book.merge(GrammarWriter().write(rest, attribute).book) if rest else book
    if complete := [prompt for prompt in book.prompts if not book.missing([prompt], attribute)]:
        return book.subset(complete)
    people = f"people-{attribute.name.replace(' & ', '-').replace(' ', '-')}"
    if name is None and people in PromptBook.curated_names():
        return whole(PromptBook.curated(people), attribute)
    raise InputError(
        f"no anchors can be written by rule: none of the {len(wanted)} prompts, first"
        f" {wanted[0]!r}, speaks of a person whose {attribute.name} could be said; pass `book` with"
        f" one of {', '.join(PromptBook.curated_names())}, or one of your own"
    )


def whole(book: PromptBook, attribute: Attribute) -> PromptBook:
    """The prompts of a book that have every group."""
    complete = [prompt for prompt in book.prompts if not book.missing([prompt], attribute)]
    if not complete:
        raise InputError(
            f"no prompt of the book has every group of {attribute}; its groups are"
            f" {', '.join(book.groups) or 'none'}"
        )
    return book.subset(complete, attribute.groups)


def unworded(book: PromptBook, prompts: Sequence[str], attribute: Attribute) -> int:
    """How many of the prompts no group could be put into, so that the book is without them."""
    without = {missing.prompt for missing in book.missing(list(dict.fromkeys(prompts)), attribute)}
    return sum(prompt in without for prompt in prompts)


def require(book: PromptBook, prompts: Sequence[str], attribute: Attribute, label: str) -> None:
    """Raise unless every prompt is there, for a method with a space a prompt."""
    if missing := book.missing(list(dict.fromkeys(prompts)), attribute):
        raise InputError(
            f"{label} has a space a prompt, and the book has no {missing[0].group!r} of"
            f" {missing[0].prompt!r} ({len(missing)} missing); write them (equipoise prompts"
            " write), or pass scope=shared"
        )
