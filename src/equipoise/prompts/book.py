"""``PromptBook``: prompt -> group -> anchor and variants, with who wrote them; a JSON file with a
published schema.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    model_validator,
)

from equipoise.artefact import parse_json, require_format, write_atomically
from equipoise.display import listed
from equipoise.errors import ArtefactError, InputError
from equipoise.prompts.attribute import Attribute

SCHEMA = 1
_FOLDER = resources.files("equipoise.prompts") / "books"

Text = Annotated[str, StringConstraints(min_length=1, pattern=r"\S")]


class Entry(BaseModel):
    """A prompt made explicit for one group."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    anchor: Text = Field(description="The prompt with the group stated and every other word kept.")
    variants: tuple[Text, ...] = Field(default=(), description="Other wordings of the anchor.")
    source: int = Field(
        default=0, ge=0, description="Who wrote it: an index into the book's sources."
    )

    @property
    def texts(self) -> tuple[str, ...]:
        return (self.anchor, *self.variants)


class Source(BaseModel):
    """Who wrote entries, when and how."""

    model_config = ConfigDict(frozen=True, extra="forbid")

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

    Never changed in place: ``merge`` and ``subset`` give new books.
    """

    model_config = ConfigDict(
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
                    f"the entry of {prompt!r}, {group!r} names source {entry.source}, and there are"
                    f" {len(self.sources)}"
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
        """Every prompt, group and entry."""
        for prompt, groups in self.prompts.items():
            for group, entry in groups.items():
                yield prompt, group, entry

    @property
    def groups(self) -> tuple[str, ...]:
        """Every group that some prompt has, in order of appearance."""
        return tuple(dict.fromkeys(group for _, group, _ in self.entries()))

    @property
    def hash(self) -> str:
        """Of what is said, not of who said it: the same anchors and variants have the same hash."""
        said = {
            prompt: {group: entry.texts for group, entry in groups.items()}
            for prompt, groups in self.prompts.items()
        }
        return hashlib.sha256(
            json.dumps(said, sort_keys=True, ensure_ascii=False).encode()
        ).hexdigest()[:16]

    # --- Making one from others
    # ------------------------------------------------------------------------------------------

    @classmethod
    def of(cls, prompts: dict[str, dict[str, Any]], **source: str) -> Self:
        """From prompt -> group -> [anchor, variant, ...], all by one source (``writer="hand"``
        unless said otherwise).
        """
        for prompt, groups in prompts.items():
            for group, texts in groups.items():
                if (
                    isinstance(texts, str)
                    or not texts
                    or not all(isinstance(text, str) and text.strip() for text in texts)
                ):
                    raise InputError(
                        f"{prompt!r}, {group!r}: a list of texts is needed, the anchor first, and"
                        f" {texts!r} was given"
                    )
        rows = {
            prompt: {
                group: Entry(anchor=texts[0], variants=tuple(texts[1:]))
                for group, texts in groups.items()
            }
            for prompt, groups in prompts.items()
        }
        return cls(sources=(Source(**{"writer": "hand", **source}),), prompts=rows)

    def merge(self, *others: PromptBook) -> PromptBook:
        """All entries together; where two books have the same prompt and group, the later one's."""
        sources: dict[Source, int] = {}
        rows: dict[str, dict[str, Entry]] = {}
        for book in (self, *others):
            for prompt, group, entry in book.entries():
                source = book.sources[entry.source] if book.sources else Source(writer="unknown")
                index = sources.setdefault(source, len(sources))
                rows.setdefault(prompt, {})[group] = entry.model_copy(update={"source": index})
        return PromptBook(sources=tuple(sources), prompts=rows)

    def subset(
        self, prompts: Iterable[str] | None = None, groups: Iterable[str] | None = None
    ) -> PromptBook:
        """Only these prompts and groups; an error for one that the book does not have."""
        wanted = list(dict.fromkeys(self.prompts if prompts is None else prompts))
        kept = set(self.groups if groups is None else groups)
        if unknown := kept - set(self.groups):
            raise InputError(
                f"the book has no group {min(unknown)!r}; it has {', '.join(self.groups)}"
            )
        rows = {
            prompt: {group: entry for group, entry in self[prompt].items() if group in kept}
            for prompt in wanted
        }
        return PromptBook(
            prompts={prompt: groups for prompt, groups in rows.items() if groups},
            sources=self.sources,
        )

    # --- Looking at one
    # ------------------------------------------------------------------------------------

    def missing(
        self, prompts: Iterable[str], attribute: Attribute | Sequence[str]
    ) -> list[Missing]:
        """What of prompts x groups the book does not cover."""
        groups = attribute.groups if isinstance(attribute, Attribute) else tuple(attribute)
        return [
            Missing(prompt, group)
            for prompt in prompts
            for group in groups
            if group not in self.prompts.get(prompt, {})
        ]

    def statistics(self) -> dict[str, Any]:
        """Counts: prompts, groups, entries, texts, and variants an entry (smallest, mean,
        largest).
        """
        counts = [len(entry.variants) for _, _, entry in self.entries()]
        texts = {text for _, _, entry in self.entries() for text in entry.texts}
        spread = (
            {"min": min(counts), "mean": sum(counts) / len(counts), "max": max(counts)}
            if counts
            else {"min": 0, "mean": 0.0, "max": 0}
        )
        return {
            "prompts": len(self),
            "groups": list(self.groups),
            "entries": len(counts),
            "texts": len(texts),
            "variants": spread,
            "hash": self.hash,
        }

    def diff(self, other: PromptBook) -> list[str]:
        """What changes from this book to the other, a line each: ``- prompt | group | text`` and
        ``+ prompt | group | text``.
        """
        mine, theirs = (
            {(p, g): entry.texts for p, g, entry in book.entries()} for book in (self, other)
        )
        lines = []
        for key in dict.fromkeys((*mine, *theirs)):
            before, after = mine.get(key, ()), theirs.get(key, ())
            if before[:1] != after[:1]:
                lines += [
                    f"{sign} {key[0]} | {key[1]} | anchor: {text}"
                    for sign, texts in (("-", before), ("+", after))
                    for text in texts[:1]
                ]
            lines += [
                f"- {key[0]} | {key[1]} | {text}" for text in before[1:] if text not in after[1:]
            ]
            lines += [
                f"+ {key[0]} | {key[1]} | {text}" for text in after[1:] if text not in before[1:]
            ]
        return lines

    # --- The file -----------------------------------------------------------------------

    def save(self, path: str | os.PathLike) -> None:
        """Write the JSON file atomically, one line per list of variants, for short diffs."""
        write_atomically(Path(path), self.to_json().encode())

    def to_json(self) -> str:
        """The file's text."""

        def compact(value: Any) -> str:
            return json.dumps(value, ensure_ascii=False)

        rows = []
        for prompt, groups in self.prompts.items():
            inner = [
                f"   {compact(group)}:"
                f" {compact(entry.model_dump(exclude_defaults=True) | {'anchor': entry.anchor})}"
                for group, entry in groups.items()
            ]
            rows.append(f"  {compact(prompt)}: {{\n" + ",\n".join(inner) + "\n  }")
        sources = ",\n".join(
            f"  {compact(source.model_dump(exclude_defaults=True))}" for source in self.sources
        )
        head = (
            f'{{\n "kind": {compact(self.kind)},\n "format": {self.format},\n "sources":'
            f' [\n{sources}\n ],\n "prompts": {{\n'
        )
        return head + ",\n".join(rows) + "\n }\n}\n"

    @classmethod
    def load(cls, path: str | os.PathLike) -> PromptBook:
        """Read a book, or the ``LLM.json`` of the paper's released code. A bare name is a curated
        book of the package.
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
            raise ArtefactError(
                f"there is no book {path}; pass a file, or a curated one:"
                f" {', '.join(cls.curated_names())}"
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
        """From parsed JSON, checked; ``name`` is for messages."""
        from equipoise.prompts.released import is_released, read_released

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
                f"{name} is not a whole prompt book: {place}: {first['msg']} ({error.error_count()}"
                " in all)"
            ) from None

    @staticmethod
    def curated_names() -> tuple[str, ...]:
        """The books that come with the package."""
        return tuple(
            sorted(
                file.name.removesuffix(".json")
                for file in _FOLDER.iterdir()
                if file.name.endswith(".json")
            )
        )

    @classmethod
    def curated(cls, name: str) -> PromptBook:
        """A book that comes with the package."""
        if name not in cls.curated_names():
            raise InputError(
                f"there is no curated book {name!r}; there are {', '.join(cls.curated_names())}"
            )
        return cls.from_document(
            json.loads((_FOLDER / f"{name}.json").read_text(encoding="utf-8")), name
        )


def _few(names: Iterable[str]) -> str:
    return ", ".join(repr(name) for name, _ in zip(names, range(3), strict=False)) or "none"
