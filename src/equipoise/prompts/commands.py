"""What the command line asks of this room: writing into a book that may be there already, checking
one, listing its texts.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from equipoise.artefact import cache_folder, require_writable
from equipoise.errors import InputError
from equipoise.prompts.attribute import Attribute
from equipoise.prompts.book import Missing, PromptBook
from equipoise.prompts.validation import Problem, check_book
from equipoise.prompts.writing import (
    BookWriter,
    GrammarWriter,
    Outcome,
    Progress,
    Writer,
    read_prompts,
)

WRITERS = ("grammar", "book", "llm")


class Task(NamedTuple):
    """Prompts, an attribute and who is to write."""

    prompts: list[str]
    attribute: Attribute
    writer: Writer

    @classmethod
    def of(
        cls,
        prompts: list[str],
        file: Path | None,
        attribute: str,
        writer: str,
        person_nouns: list[str],
        options: dict[str, Any],
    ) -> Task:
        """From what was typed."""
        texts = [*prompts, *(read_prompts(file) if file else ())]
        if not texts:
            raise InputError(
                "no prompt was given; type one in quotation marks, or pass --from FILE with one a"
                " line"
            )
        if writer not in WRITERS:
            raise InputError(f"there is no writer {writer!r}; there are {', '.join(WRITERS)}")
        return cls(texts, Attribute.load(attribute), _writer(writer, person_nouns, options))

    def plan(self) -> Any:
        """What writing would cost."""
        plan = getattr(self.writer, "plan", None)
        if plan is None:
            raise InputError(
                "only a language model costs anything; --dry-run goes with --writer llm"
            )
        return plan(self.prompts, self.attribute)

    def write(
        self, out: Path, progress: Progress, *, replace: bool = False
    ) -> tuple[Outcome, PromptBook]:
        """Write what the book at ``out`` lacks (with replace: all), and save both; nothing is saved
        where nothing was written.
        """
        before = PromptBook.load(out) if out.exists() else PromptBook()
        if any(
            source.writer == "released" for source in before.sources
        ) and "kind" not in json.loads(out.read_text(encoding="utf-8")):
            raise InputError(
                f"{out} is an LLM.json of the released code and would be lost; pass another --out,"
                " and merge the two"
            )
        require_writable(out)
        prompts = (
            self.prompts
            if replace
            else [
                prompt
                for prompt in self.prompts
                if before.missing([prompt.strip()], self.attribute)
            ]
        )
        outcome = (
            self.writer.write(prompts, self.attribute, progress=progress)
            if prompts
            else Outcome(PromptBook())
        )
        book = before.merge(outcome.book, *(() if replace else (before,)))
        if len(outcome.book):
            book.save(out)
        return outcome, book


def _writer(name: str, person_nouns: list[str], options: dict[str, Any]) -> Writer:
    if name == "grammar":
        return GrammarWriter(person_nouns=person_nouns)
    if name == "book":
        return BookWriter()
    from equipoise.prompts.llm import LLMWriter

    model = options.pop("model")
    cache = options.pop("cache") or cache_folder() / "answers.sqlite"
    return LLMWriter(model, cache=cache, person_nouns=person_nouns, **options)


def refuse_partial(outcome: Outcome, out: Path) -> None:
    """The error for a book that is not whole."""
    saved = f"what was written is in {out}" if len(outcome.book) else "nothing was saved"
    raise InputError(
        f"{len(outcome.failures)} of the prompts x groups could not be written; {saved}. Pass"
        " --allow-partial to accept that"
    )


def plan_text(plan: dict[str, int]) -> str:
    """A dry run, in words."""
    return (
        f"{plan['pairs']} prompts x groups, {plan['cached_pairs']} of them answered already;"
        f" {plan['calls']} requests, about {plan['prompt_tokens']:,} tokens in and"
        f" {plan['answer_tokens']:,} out (estimated at 4 characters a token, if no answer has to be"
        " asked again)"
    )


class Checked(NamedTuple):
    """Problems of a book's entries, what it lacks of a file's prompts, how many entries were
    checked, and how many are of other groups.
    """

    problems: list[Problem]
    missing: list[Missing]
    entries: int
    skipped: int


def check_file(
    book: str, attribute: str, file: Path | None, min_variants: int, nouns: list[str]
) -> Checked:
    """Validate a book's entries for an attribute."""
    loaded, wanted = PromptBook.load(book), Attribute.load(attribute)
    entries = sum(group in wanted.groups for _, group, _ in loaded.entries())
    if not entries:
        raise InputError(
            f"{book} has no entry for a group of {wanted}; its groups are"
            f" {', '.join(loaded.groups) or 'none'}"
        )
    problems = check_book(
        loaded,
        wanted,
        min_variants=min_variants,
        person_nouns=frozenset(noun.lower() for noun in nouns),
    )
    missing = loaded.missing(read_prompts(file) if file else loaded.prompts, wanted)
    return Checked(problems, missing, entries, sum(1 for _ in loaded.entries()) - entries)


def texts(book: PromptBook) -> list[str]:
    """Every text of a book once: what an encoder has to encode."""
    return list(dict.fromkeys(text for _, _, entry in book.entries() for text in entry.texts))
