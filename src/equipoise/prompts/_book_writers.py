"""Write prompt books by rule or from other books; ``_llm_writer.py`` uses a language model."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from equipoise import _clock as clock
from equipoise.errors import InputError
from equipoise.prompts import _grammar as grammar
from equipoise.prompts._attribute import Attribute
from equipoise.prompts._prompt_book import Entry, PromptBook, Source
from equipoise.prompts._validation import CheckedAnswer, check_answer

TABLES = (".csv", ".tsv", ".parquet")

Progress = Callable[[int, int], None]
"""A function that is told how many pairs of prompt and group are done, and of how many."""


class Failure(NamedTuple):
    """A prompt and group that could not be written, and why."""

    prompt: str
    group: str
    reason: str


class Outcome(NamedTuple):
    """What a writer wrote, and what it could not."""

    book: PromptBook
    failures: tuple[Failure, ...] = ()
    rejected: int = 0  # texts that validation turned away
    asked: int = 0  # requests to a language model
    cached: int = 0  # answers that had been asked for before


class Writer(Protocol):
    """Writes anchors and variants of prompts for every group of an attribute."""

    def write(
        self, prompts: Sequence[str], attribute: Attribute, *, progress: Progress | None = None
    ) -> Outcome:
        """Return a book of what could be written; failures say what could not."""
        ...


class GrammarWriter:
    """Writes by rule, offline, for any prompt with a person in it.

    person_nouns: further nouns that name a person.
    """

    def __init__(self, *, person_nouns: Iterable[str] = (), most: int = grammar.MOST):
        self.person_nouns = frozenset(noun.lower() for noun in person_nouns)
        self.most = most

    def write(
        self, prompts: Sequence[str], attribute: Attribute, *, progress: Progress | None = None
    ) -> Outcome:
        """Return a book by the rules of ``grammar.py``."""
        pairs = pairs_of(prompts, attribute)
        rows: dict[tuple[str, str], Entry] = {}
        failures = []
        rejected = 0
        for done, (prompt, group) in enumerate(pairs, 1):
            try:
                checked = self._write_and_check(prompt, attribute, group)
                rejected += len(checked.rejected)
                if checked.anchor:
                    rows[prompt, group] = Entry(anchor=checked.anchor, variants=checked.variants)
                else:
                    first = checked.rejected[0]
                    failures.append(Failure(prompt, group, f"{first.text!r}: {first.reason}"))
            except grammar.CannotWrite as error:
                failures.append(Failure(prompt, group, str(error)))
            if progress:
                progress(done, len(pairs))
        source = Source(writer="grammar", date=today(), instructions=grammar.RULES)
        return Outcome(make_book(rows, source), tuple(failures), rejected)

    def _write_and_check(self, prompt: str, attribute: Attribute, group: str) -> CheckedAnswer:
        nouns = self.person_nouns
        entry = grammar.write_entry(prompt, attribute, group, most=self.most, person_nouns=nouns)
        return check_answer(prompt, entry.anchor, entry.variants, attribute, group, nouns)


class BookWriter:
    """Takes entries from books: the curated ones of the package, unless others are given."""

    def __init__(self, *books: PromptBook):
        self.books = books

    def write(
        self, prompts: Sequence[str], attribute: Attribute, *, progress: Progress | None = None
    ) -> Outcome:
        """Return the entries that the books have, with their sources."""
        books = self.books or tuple(map(PromptBook.curated, PromptBook.curated_names()))
        pairs = pairs_of(prompts, attribute)
        groups = attribute.groups
        found = PromptBook()
        failures = []
        for prompt in dict.fromkeys(prompt for prompt, _ in pairs):
            book = _book_with(books, prompt, groups)
            if book:
                found = found.merge(book.subset([prompt], groups))
            else:
                reason = "no book has it; let the grammar or a language model write it"
                failures += [Failure(prompt, group, reason) for group in groups]
        if progress:
            progress(len(pairs), len(pairs))
        return Outcome(found, tuple(failures))


def _book_with(
    books: Iterable[PromptBook], prompt: str, groups: tuple[str, ...]
) -> PromptBook | None:
    """Return the first book that has the prompt for every group, or None."""
    for book in books:
        if not book.missing([prompt], groups):
            return book
    return None


def pairs_of(prompts: Sequence[str], attribute: Attribute) -> list[tuple[str, str]]:
    """Return every prompt with every group, checked and without repeats."""
    if isinstance(prompts, str):
        raise InputError(
            "prompts must be a list of texts, and one text was given; put it in a list"
        )
    if not isinstance(attribute, Attribute):
        raise InputError(
            f"attribute must be an Attribute, and {type(attribute).__name__} was given;"
            " Attribute.load('gender') is one"
        )
    for prompt in prompts:
        if not isinstance(prompt, str) or not prompt.strip():
            raise InputError(f"a prompt must be a text with words in it, and {prompt!r} was given")
    if not prompts:
        raise InputError("no prompt was given; pass one or more")
    unique = dict.fromkeys(map(str.strip, prompts))
    return list(itertools.product(unique, attribute.groups))


def make_book(rows: dict[tuple[str, str], Entry], source: Source) -> PromptBook:
    """Return a book of entries by one source, with prompts in the order of the rows."""
    prompts: dict[str, dict[str, Entry]] = {}
    for (prompt, group), entry in rows.items():
        prompts.setdefault(prompt, {})[group] = entry
    return PromptBook(sources=(source,), prompts=prompts)


def read_prompts(path: Path) -> list[str]:
    """Return the prompts of a text file, one per line; empty lines and # lines are skipped."""
    if path.suffix.lower() in TABLES:
        raise InputError(f"{path} is a table; pass a text file with one prompt per line")
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except OSError as error:
        raise InputError(
            f"{path} cannot be read ({error.strerror}); pass a text file with one prompt per line"
        ) from None
    except UnicodeDecodeError:
        raise InputError(
            f"{path} is not UTF-8 text; pass a text file with one prompt per line"
        ) from None
    stripped = map(str.strip, lines)
    prompts = [line for line in stripped if line and not line.startswith("#")]
    if not prompts:
        raise InputError(f"{path} holds no prompt; write one per line")
    return prompts


def today() -> str:
    """Return the date as a book's provenance has it."""
    return clock.now().date().isoformat()
