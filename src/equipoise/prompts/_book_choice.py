"""Which prompt book a run uses: the one that was named, or entries found and written for the very
prompts of the run.
"""

from __future__ import annotations

from collections.abc import Sequence

from equipoise.errors import InputError
from equipoise.prompts._attribute import Attribute
from equipoise.prompts._book_writers import BookWriter, GrammarWriter
from equipoise.prompts._prompt_book import PromptBook

GRAMMAR = "grammar"


def book_for(prompts: Sequence[str], attribute: Attribute, name: str | None) -> PromptBook:
    """Return the book of a run.

    name: a file, a curated book, or "grammar" for entries that are all written by rule. None: the
    curated entries, and the rest by rule. Where no prompt speaks of a person, a curated book about
    people serves.
    """
    if name is not None and name != GRAMMAR:
        return whole(PromptBook.load(name), attribute)
    wanted = list(dict.fromkeys(prompts))
    if name == GRAMMAR:
        book = GrammarWriter().write(wanted, attribute).book
    else:
        book = _curated_and_by_rule(wanted, attribute)
    if complete := _complete(book, attribute):
        return book.subset(complete)
    people = f"people-{attribute.name.replace(' & ', '-').replace(' ', '-')}"
    if name is None and people in PromptBook.curated_names():
        return whole(PromptBook.curated(people), attribute)
    raise InputError(
        f"no anchors can be written by rule: none of the {len(wanted)} prompts, first"
        f" {wanted[0]!r}, speaks of a person whose {attribute.name} could be said; pass `book` with"
        f" one of {', '.join(PromptBook.curated_names())}, or one of your own"
    )


def curated_prompts(attribute: Attribute) -> str:
    """Return the name of the curated book that an audit of this attribute begins with.

    That is the book of occupations where there is one, else the book of people.
    """
    name = attribute.name.replace(" & ", "-").replace(" ", "-")
    known = PromptBook.curated_names()
    for book in (f"occupations-{name}", f"people-{name}"):
        if book in known:
            return book
    raise InputError(
        f"no curated book has prompts for {attribute.name}; pass `prompts` with a text file that"
        f" holds one prompt per line, or with one of {', '.join(known)}"
    )


def _curated_and_by_rule(wanted: list[str], attribute: Attribute) -> PromptBook:
    """Return the curated entries of some prompts, and entries by rule for the others."""
    book = BookWriter().write(wanted, attribute).book
    rest = [prompt for prompt in wanted if prompt not in book]
    if not rest:
        return book
    return book.merge(GrammarWriter().write(rest, attribute).book)


def _complete(book: PromptBook, attribute: Attribute) -> list[str]:
    """Return the prompts of a book that have an anchor for every group."""
    return [prompt for prompt in book.prompts if not book.missing([prompt], attribute)]


def whole(book: PromptBook, attribute: Attribute) -> PromptBook:
    """Return a book without the prompts that lack a group."""
    complete = _complete(book, attribute)
    if not complete:
        raise InputError(
            f"no prompt of the book has every group of {attribute}; its groups are"
            f" {', '.join(book.groups) or 'none'}"
        )
    return book.subset(complete, attribute.groups)


def unworded(book: PromptBook, prompts: Sequence[str], attribute: Attribute) -> int:
    """Return how many of the prompts the book lacks, because no group could be put into them."""
    without = {missing.prompt for missing in book.missing(list(dict.fromkeys(prompts)), attribute)}
    return sum(prompt in without for prompt in prompts)


def require(book: PromptBook, prompts: Sequence[str], attribute: Attribute, label: str) -> None:
    """Raise unless every prompt is there, for a method with one space per prompt."""
    if missing := book.missing(list(dict.fromkeys(prompts)), attribute):
        raise InputError(
            f"{label} has one space per prompt, and the book has no {missing[0].group!r} of"
            f" {missing[0].prompt!r} ({len(missing)} missing); write them (equipoise prompts"
            " write), or pass scope=shared"
        )
