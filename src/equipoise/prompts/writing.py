"""Who writes a prompt book: one interface for the grammar, the curated books and the language model
(``llm.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from equipoise import clock
from equipoise.errors import InputError
from equipoise.prompts import grammar
from equipoise.prompts.attribute import Attribute
from equipoise.prompts.book import Entry, PromptBook, Source
from equipoise.prompts.validation import check_answer

Progress = Callable[[int, int], None]
"""Told how many (prompt, group) pairs are done, of how many."""


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
        """A book of what could be written; failures say what could not."""
        ...


class GrammarWriter:
    """By rule, offline, for any prompt with a person in it.

    person_nouns: further nouns that name a person.
    """

    def __init__(self, *, person_nouns: Iterable[str] = (), most: int = grammar.MOST):
        self.person_nouns = frozenset(noun.lower() for noun in person_nouns)
        self.most = most

    def write(
        self, prompts: Sequence[str], attribute: Attribute, *, progress: Progress | None = None
    ) -> Outcome:
        """A book by the rules of ``grammar.py``."""
        pairs = pairs_of(prompts, attribute)
        rows: dict[tuple[str, str], Entry] = {}
        failures = []
        rejected = 0
        for done, (prompt, group) in enumerate(pairs, 1):
            try:
                entry = grammar.write_entry(
                    prompt, attribute, group, most=self.most, person_nouns=self.person_nouns
                )
                checked = check_answer(
                    prompt, entry.anchor, entry.variants, attribute, group, self.person_nouns
                )
                rejected += len(checked.rejected)
                if checked.anchor:
                    rows[prompt, group] = Entry(anchor=checked.anchor, variants=checked.variants)
                else:
                    failures.append(
                        Failure(
                            prompt,
                            group,
                            f"{checked.rejected[0].text!r}: {checked.rejected[0].reason}",
                        )
                    )
            except grammar.CannotWrite as error:
                failures.append(Failure(prompt, group, str(error)))
            if progress:
                progress(done, len(pairs))
        return Outcome(
            make_book(rows, Source(writer="grammar", date=today(), instructions=grammar.RULES)),
            tuple(failures),
            rejected,
        )


class BookWriter:
    """From books that are already written: the curated ones of the package, unless others are
    given.
    """

    def __init__(self, *books: PromptBook):
        self.books = books

    def write(
        self, prompts: Sequence[str], attribute: Attribute, *, progress: Progress | None = None
    ) -> Outcome:
        """The entries that the books have, with their sources."""
        books = self.books or tuple(PromptBook.curated(name) for name in PromptBook.curated_names())
        pairs = pairs_of(prompts, attribute)
        found, failures = PromptBook(), []
        for prompt, groups in _grouped(pairs).items():
            have = next(
                (
                    book
                    for book in books
                    if all(group in book.prompts.get(prompt, {}) for group in groups)
                ),
                None,
            )
            if have:
                found = found.merge(have.subset([prompt], groups))
            else:
                failures += [
                    Failure(
                        prompt,
                        group,
                        "no book has it; let the grammar or a language model write it",
                    )
                    for group in groups
                ]
        if progress:
            progress(len(pairs), len(pairs))
        return Outcome(found, tuple(failures))


def pairs_of(prompts: Sequence[str], attribute: Attribute) -> list[tuple[str, str]]:
    """Every prompt with every group, checked and without repeats."""
    if isinstance(prompts, str):
        raise InputError(
            "prompts must be a list of texts, and one text was given; put it in a list"
        )
    if not isinstance(attribute, Attribute):
        raise InputError(
            f"attribute must be an Attribute, and {type(attribute).__name__} was given;"
            " Attribute.load('gender') is one"
        )
    if bad := [prompt for prompt in prompts if not isinstance(prompt, str) or not prompt.strip()]:
        raise InputError(f"a prompt must be a text with words in it, and {bad[0]!r} was given")
    if not prompts:
        raise InputError("no prompt was given; pass one or more")
    return [
        (prompt, group)
        for prompt in dict.fromkeys(prompt.strip() for prompt in prompts)
        for group in attribute.groups
    ]


def make_book(rows: dict[tuple[str, str], Entry], source: Source) -> PromptBook:
    """A book of entries by one source, prompts in the order of the rows."""
    prompts: dict[str, dict[str, Entry]] = {}
    for (prompt, group), entry in rows.items():
        prompts.setdefault(prompt, {})[group] = entry
    return PromptBook(sources=(source,), prompts=prompts)


def read_prompts(path: Path) -> list[str]:
    """Prompts from a text file, one a line; empty lines and lines that begin with # are skipped."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except OSError as error:
        raise InputError(
            f"{path} cannot be read ({error.strerror}); pass a text file with one prompt a line"
        ) from None
    except UnicodeDecodeError:
        raise InputError(
            f"{path} is not UTF-8 text; pass a text file with one prompt a line"
        ) from None
    prompts = [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
    if not prompts:
        raise InputError(f"{path} holds no prompt; write one a line")
    return prompts


def today() -> str:
    """The date, as a book's provenance has it."""
    return clock.now().date().isoformat()


def _grouped(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    grouped: dict[str, list[str]] = {}
    for prompt, group in pairs:
        grouped.setdefault(prompt, []).append(group)
    return grouped
