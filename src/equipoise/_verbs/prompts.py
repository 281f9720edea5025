"""``equipoise prompts``: write into a book, check one, list its texts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from equipoise._artefact import cache_folder, require_writable
from equipoise.errors import InputError
from equipoise.prompts._attribute import Attribute
from equipoise.prompts._book_writers import (
    BookWriter,
    GrammarWriter,
    Outcome,
    Progress,
    Writer,
    read_prompts,
)
from equipoise.prompts._prompt_book import Missing, PromptBook
from equipoise.prompts._validation import Problem, check_book

WRITERS = ("grammar", "book", "llm")


class WritingTask(NamedTuple):
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
    ) -> WritingTask:
        """Return the task that was typed."""
        texts = list(prompts)
        if file:
            texts += read_prompts(file)
        if not texts:
            raise InputError(
                "no prompt was given; type one in quotation marks, or pass a text file with one per"
                " line: `file`"
            )
        if writer not in WRITERS:
            raise InputError(f"there is no writer {writer!r}; there are {', '.join(WRITERS)}")
        return cls(texts, Attribute.load(attribute), _writer(writer, person_nouns, options))

    def plan(self) -> Any:
        """Return what writing would cost."""
        plan = getattr(self.writer, "plan", None)
        if plan is None:
            raise InputError(
                "`dry_run` estimates what a language model would cost; pass `writer` llm,"
                " or leave it out"
            )
        return plan(self.prompts, self.attribute)

    def write(
        self, out: Path, progress: Progress, *, replace: bool = False
    ) -> tuple[Outcome, PromptBook]:
        """Write what the book at ``out`` lacks, or with ``replace`` every prompt, and save it.

        Return what was written and the whole book. Nothing is saved where nothing was written.
        """
        before = _book_at(out)
        require_writable(out)
        prompts = self.prompts
        if not replace:
            prompts = self._not_in(before)
        outcome = Outcome(PromptBook())
        if prompts:
            outcome = self.writer.write(prompts, self.attribute, progress=progress)
        later = [outcome.book]
        if not replace:
            later.append(before)  # what was there stays
        book = before.merge(*later)
        if len(outcome.book):
            book.save(out)
        return outcome, book

    def _not_in(self, book: PromptBook) -> list[str]:
        """Return the prompts that a book does not have for every group."""
        groups = self.attribute
        return [prompt for prompt in self.prompts if book.missing([prompt.strip()], groups)]


def _book_at(path: Path) -> PromptBook:
    """Return the book at a path, an empty one where there is none.

    Raise for an ``LLM.json``, which would be lost if a book were written over it.
    """
    if not path.exists():
        return PromptBook()
    book = PromptBook.load(path)
    if any(source.writer == "released" for source in book.sources):
        document = json.loads(path.read_text(encoding="utf-8"))
        if "kind" not in document:
            raise InputError(
                f"{path} is an LLM.json of the released code and would be lost; pass another `out`,"
                " and merge the two"
            )
    return book


def _writer(name: str, person_nouns: list[str], options: dict[str, Any]) -> Writer:
    """Return the writer of this name."""
    if name == "grammar":
        return GrammarWriter(person_nouns=person_nouns)
    if name == "book":
        return BookWriter()
    from equipoise.prompts._llm_writer import LLMWriter

    model = options.pop("model")
    cache = options.pop("cache") or cache_folder() / "answers.sqlite"
    return LLMWriter(model, cache=cache, person_nouns=person_nouns, **options)


def refuse_partial(outcome: Outcome, out: Path) -> None:
    """Raise the error for a book that is not whole."""
    saved = "nothing was saved"
    if len(outcome.book):
        saved = f"what was written is in {out}"
    raise InputError(
        f"{len(outcome.failures)} entries (one per prompt and group) could not be written; {saved}."
        " Pass `allow_partial` to accept that"
    )


def plan_text(plan: dict[str, int]) -> str:
    """Return what a dry run found, in words."""
    return (
        f"{plan['pairs']} entries (one per prompt and group), {plan['cached_pairs']} of them"
        " answered already;"
        f" {plan['calls']} requests, about {plan['prompt_tokens']:,} tokens in and"
        f" {plan['answer_tokens']:,} out (estimated at 4 characters per token, if no answer has to"
        " be asked again)"
    )


class BookCheck(NamedTuple):
    """What a check of a book found."""

    problems: list[Problem]
    missing: list[Missing]  # of a file's prompts
    entries: int  # that were checked
    skipped: int  # entries of other groups


def check_file(
    book: str, attribute: str, file: Path | None, min_variants: int, nouns: list[str]
) -> BookCheck:
    """Return what a check of a book's entries for an attribute found."""
    loaded = PromptBook.load(book)
    wanted = Attribute.load(attribute)
    groups = [group for _, group, _ in loaded.entries()]
    entries = sum(group in wanted.groups for group in groups)
    if not entries:
        raise InputError(
            f"{book} has no entry for a group of {wanted}; its groups are"
            f" {', '.join(loaded.groups) or 'none'}"
        )
    person_nouns = frozenset(map(str.lower, nouns))
    problems = check_book(loaded, wanted, min_variants=min_variants, person_nouns=person_nouns)
    prompts = list(loaded.prompts)
    if file:
        prompts = read_prompts(file)
    missing = loaded.missing(prompts, wanted)
    return BookCheck(problems, missing, entries, len(groups) - entries)


def texts(book: PromptBook) -> list[str]:
    """Return every text of a book once: what an encoder has to encode."""
    found: dict[str, None] = {}
    for _, _, entry in book.entries():
        found.update(dict.fromkeys(entry.texts))
    return list(found)
