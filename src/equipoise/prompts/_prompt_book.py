"""Define ``PromptBook``: prompt -> group -> anchor and variants, with who wrote them.

A book is a JSON file with a published schema.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    model_validator,
)

from equipoise._artefact import parse_json, require_format, write_atomically
from equipoise._display import listed
from equipoise._near_names import nearest
from equipoise.errors import ArtefactError, InputError
from equipoise.prompts._attribute import Attribute

SCHEMA = 1
_FOLDER = resources.files("equipoise.prompts") / "books"

Text = Annotated[str, StringConstraints(min_length=1, pattern=r"\S")]


class Entry(BaseModel):
    """A prompt made explicit for one group."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")

    anchor: Text = Field(description="The prompt with the group stated and every other word kept.")
    variants: tuple[Text, ...] = Field(default=(), description="Other wordings of the anchor.")
    source: int = Field(
        default=0, ge=0, description="Who wrote it: an index into the book's sources."
    )

    @property
    def texts(self) -> tuple[str, ...]:
        """Return the anchor and the variants."""
        return (self.anchor, *self.variants)


class Source(BaseModel):
    """Who wrote entries, when and how."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")

    writer: str = Field(description='"llm", "grammar", "curated", "released" or "hand".')
    model: str = Field(default="", description="The language model, where one wrote.")
    date: str = Field(default="", description="ISO date of writing.")
    instructions: str = Field(
        default="", description="Version of the instructions or rules that were followed."
    )
    note: str = Field(default="", description="Anything a reader should know.")


class Missing(NamedTuple):
    """A prompt and a group that a book says nothing about."""

    prompt: str
    group: str


class PromptBook(BaseModel):
    """Anchors and variants of many prompts.

    A book is never changed in place: ``merge`` and ``subset`` return new ones.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True, extra="forbid", populate_by_name=True, title="equipoise prompt book"
    )

    kind: Literal["equipoise prompt book"] = "equipoise prompt book"
    format: int = Field(default=SCHEMA, ge=1, description="Version of this schema.")
    sources: tuple[Source, ...] = ()
    prompts: dict[Text, dict[Text, Entry]] = Field(
        default_factory=dict, description="prompt -> group -> entry"
    )

    @model_validator(mode="after")
    def _sources_exist(self) -> Self:
        for prompt, group, entry in self.entries():
            if entry.source >= max(len(self.sources), 1):
                raise ValueError(
                    f"the entry of {prompt!r}, {group!r} names source {entry.source}, and the book"
                    f" has {len(self.sources)} sources"
                )
        return self

    def __getitem__(self, prompt: str) -> dict[str, Entry]:
        try:
            return self.prompts[prompt]
        except KeyError:
            raise InputError(
                f"the book has no prompt {prompt!r}; it has {len(self.prompts)}, such as"
                f" {_few(self.prompts)}"
            ) from None

    def __contains__(self, prompt: object) -> bool:
        return prompt in self.prompts

    def __len__(self) -> int:
        return len(self.prompts)

    def __repr__(self) -> str:
        return f"PromptBook({len(self)} prompts, groups {listed(self.groups) or 'none'})"

    def entries(self) -> Iterator[tuple[str, str, Entry]]:
        """Yield every prompt, group and entry."""
        for prompt, groups in self.prompts.items():
            for group, entry in groups.items():
                yield prompt, group, entry

    @property
    def groups(self) -> tuple[str, ...]:
        """Return the groups that some prompt has, in order of appearance."""
        return tuple(dict.fromkeys(group for _, group, _ in self.entries()))

    @property
    def hash(self) -> str:
        """Return a hash of the anchors and variants; it does not depend on who wrote them."""
        said: dict[str, dict[str, tuple[str, ...]]] = {}
        for prompt, groups in self.prompts.items():
            said[prompt] = {group: entry.texts for group, entry in groups.items()}
        text = json.dumps(said, sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    # --- Making one from others ---------------------------------------------------------

    @classmethod
    def of(cls, prompts: dict[str, dict[str, Any]], **source: str) -> Self:
        """Return a book from prompt -> group -> [anchor, variant, ...], all by one source.

        The source's writer is "hand" unless another is given.
        """
        rows: dict[str, dict[str, Entry]] = {}
        for prompt, groups in prompts.items():
            rows[prompt] = {}
            for group, texts in groups.items():
                _require_texts(prompt, group, texts)
                anchor, *variants = texts
                rows[prompt][group] = Entry(anchor=anchor, variants=tuple(variants))
        written_by = Source(**{"writer": "hand", **source})
        return cls(sources=(written_by,), prompts=rows)

    def merge(self, *others: PromptBook) -> PromptBook:
        """Return a book of all entries; of the same prompt and group, the later book's."""
        sources: dict[Source, int] = {}
        rows: dict[str, dict[str, Entry]] = {}
        for book in (self, *others):
            for prompt, group, entry in book.entries():
                source = book._source_of(entry)
                index = sources.setdefault(source, len(sources))
                rows.setdefault(prompt, {})[group] = entry.model_copy(update={"source": index})
        return PromptBook(sources=tuple(sources), prompts=rows)

    def _source_of(self, entry: Entry) -> Source:
        if not self.sources:
            return Source(writer="unknown")
        return self.sources[entry.source]

    def subset(
        self, prompts: Iterable[str] | None = None, groups: Iterable[str] | None = None
    ) -> PromptBook:
        """Return a book of these prompts and groups; raise for one that this book lacks."""
        if prompts is None:
            prompts = self.prompts
        if groups is None:
            groups = self.groups
        kept = set(groups)
        unknown = kept - set(self.groups)
        if unknown:
            raise InputError(
                f"the book has no group {min(unknown)!r}; it has {', '.join(self.groups)}"
            )
        rows: dict[str, dict[str, Entry]] = {}
        for prompt in prompts:
            entries = {group: entry for group, entry in self[prompt].items() if group in kept}
            if entries:
                rows[prompt] = entries
        return PromptBook(prompts=rows, sources=self.sources)

    # --- Looking at one -----------------------------------------------------------------

    def missing(
        self, prompts: Iterable[str], attribute: Attribute | Sequence[str]
    ) -> list[Missing]:
        """Return every pair of prompt and group that the book says nothing about."""
        groups = attribute.groups if isinstance(attribute, Attribute) else tuple(attribute)
        lacking = []
        for prompt in prompts:
            have = self.prompts.get(prompt, {})
            lacking += [Missing(prompt, group) for group in groups if group not in have]
        return lacking

    def statistics(self) -> dict[str, Any]:
        """Return counts of prompts, groups, entries, different texts, and variants per entry."""
        counts = [len(entry.variants) for _, _, entry in self.entries()]
        texts: set[str] = set()
        for _, _, entry in self.entries():
            texts.update(entry.texts)
        mean = sum(counts) / max(len(counts), 1)
        smallest, largest = min(counts, default=0), max(counts, default=0)
        return {
            "prompts": len(self),
            "groups": list(self.groups),
            "entries": len(counts),
            "texts": len(texts),
            "variants": {"min": smallest, "mean": mean, "max": largest},
            "hash": self.hash,
        }

    def diff(self, other: PromptBook) -> list[str]:
        """Return what changes from this book to the other, one line per text.

        A line is ``- prompt | group | text`` or ``+ prompt | group | text``.
        """
        mine, theirs = self._texts(), other._texts()
        lines = []
        for key in dict.fromkeys((*mine, *theirs)):
            place = " | ".join(key)
            changes = _changed_texts(mine.get(key, ()), theirs.get(key, ()))
            lines += [f"{sign} {place} | {text}" for sign, text in changes]
        return lines

    def _texts(self) -> dict[tuple[str, str], tuple[str, ...]]:
        return {(prompt, group): entry.texts for prompt, group, entry in self.entries()}

    # --- The file -----------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the JSON file atomically, one line per list of variants, for short diffs."""
        write_atomically(Path(path), self.to_json().encode())

    def push_to_hub(self, repo_id: str, **options: Any) -> str:
        """Upload to the Hugging Face hub with a card; return the address of the commit.

        options: private, token, revision.
        """
        from equipoise import _hub as hub

        return hub.push(self, hub.BOOK, hub.book_card(self, repo_id), repo_id, **options)

    @classmethod
    def from_pretrained(
        cls, repo_id_or_folder: str | os.PathLike[str], **options: Any
    ) -> PromptBook:
        """Load from a folder or from the Hugging Face hub. options: revision, token, offline."""
        from equipoise import _hub as hub

        return cls.load(hub.fetch(repo_id_or_folder, hub.BOOK, **options))

    def to_json(self) -> str:
        """Return the file's text."""
        sources = []
        for source in self.sources:
            fields = source.model_dump(exclude_defaults=True)
            sources.append(f"  {_on_one_line(fields)}")
        prompts = []
        for prompt, groups in self.prompts.items():
            entries = []
            for group, entry in groups.items():
                fields = entry.model_dump(exclude_defaults=True)
                entries.append(f"   {_on_one_line(group)}: {_on_one_line(fields)}")
            inside = ",\n".join(entries)
            prompts.append(f"  {_on_one_line(prompt)}: {{\n{inside}\n  }}")
        lines = [
            "{",
            f' "kind": {_on_one_line(self.kind)},',
            f' "format": {self.format},',
            ' "sources": [',
            ",\n".join(sources),
            " ],",
            ' "prompts": {',
            ",\n".join(prompts),
            " }",
            "}",
        ]
        return "\n".join(lines) + "\n"

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> PromptBook:
        """Read a book, or the ``LLM.json`` of the paper's released code.

        A bare name is that of a curated book of the package.
        """
        if not isinstance(path, str | os.PathLike):
            raise InputError(
                f"a book is loaded from a path or by its name, and {type(path).__name__} was given"
            )
        if os.fspath(path) in cls.curated_names():
            return cls.curated(os.fspath(path))
        path = Path(path)
        try:
            document = parse_json(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            known = cls.curated_names()
            raise ArtefactError(
                f"there is no book {path}; pass a file, or a curated one:"
                f" {', '.join(known)}{nearest(str(path), known)}"
            ) from None
        except OSError as error:
            raise ArtefactError(
                f"{path} cannot be read ({error.strerror}); pass the path of a prompt book"
            ) from None
        except ValueError as error:
            raise ArtefactError(
                f"{path} is not JSON ({error}); it is damaged or no prompt book, so pass another or"
                " write it again"
            ) from None
        return cls.from_document(document, str(path))

    @classmethod
    def from_document(cls, document: Any, name: str) -> PromptBook:
        """Return the book that parsed JSON holds, checked; ``name`` is for messages."""
        from equipoise.prompts._released_book import is_released, read_released

        if is_released(document):
            return read_released(document)
        if not isinstance(document, dict) or document.get("kind") != "equipoise prompt book":
            raise ArtefactError(
                f"{name} is JSON, but no prompt book; pass one that equipoise wrote, or a released"
                " LLM.json"
            )
        version = document.get("format")
        if isinstance(version, int):
            require_format(name, version, SCHEMA, "schema")
        try:
            return cls.model_validate(document)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            place = " / ".join(map(str, first["loc"])) or "the whole"
            raise ArtefactError(
                f"{name} is not a complete prompt book: {place}: {first['msg']}"
                f" ({error.error_count()} in all)"
            ) from None

    @staticmethod
    def curated_names() -> tuple[str, ...]:
        """Return the names of the books that come with the package."""
        files = [file.name for file in _FOLDER.iterdir()]
        names = [name.removesuffix(".json") for name in files if name.endswith(".json")]
        return tuple(sorted(names))

    @classmethod
    def curated(cls, name: str) -> PromptBook:
        """Return a book that comes with the package."""
        if name not in cls.curated_names():
            raise InputError(
                f"there is no curated book {name!r}; there are {', '.join(cls.curated_names())}"
            )
        text = (_FOLDER / f"{name}.json").read_text(encoding="utf-8")
        return cls.from_document(json.loads(text), name)


def _require_texts(prompt: str, group: str, texts: Any) -> None:
    """Raise for what is no list of texts with words in them."""
    if texts and not isinstance(texts, str) and all(map(_has_words, texts)):
        return
    raise InputError(
        f"{prompt!r}, {group!r}: a list of texts is needed, the anchor first, and {texts!r} was"
        " given"
    )


def _has_words(text: Any) -> bool:
    return isinstance(text, str) and bool(text.strip())


def _changed_texts(before: tuple[str, ...], after: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield "-" with each text that goes and "+" with each that comes, anchors first."""
    if before[:1] != after[:1]:
        for sign, texts in (("-", before), ("+", after)):
            for anchor in texts[:1]:
                yield sign, f"anchor: {anchor}"
    for text in before[1:]:
        if text not in after[1:]:
            yield "-", text
    for text in after[1:]:
        if text not in before[1:]:
            yield "+", text


def _on_one_line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _few(names: Iterable[str]) -> str:
    """Return the first three names, or "none"."""
    first = itertools.islice(names, 3)
    return ", ".join(map(repr, first)) or "none"
