"""``AttributeFile``: what the TOML file of an attribute holds, table by table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from equipoise._documents import Document

POSITION = 3  # of an adjective whose file does not say


class AttributeFacts(Document):
    """The attribute that images are grouped by."""

    name: str
    groups: list[str]


def _words(given: Any) -> Any:
    """Return words as a tuple, once they are words. One word is a list of one."""
    if isinstance(given, str):
        given = (given,)
    if not isinstance(given, Sequence) or not all(map(_is_word, given)):
        raise ValueError("it must be a list of words")
    return tuple(given)


def _is_word(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _by_neutral_noun(given: Any) -> Any:
    """Return nouns by the neutral noun whose place they take, which is "person" for a list."""
    return given if isinstance(given, Mapping) else {"person": given}


def _listed(given: Any) -> Any:
    """Return labels as a list. One label is a list of one."""
    return [given] if isinstance(given, str) else given


Words = Annotated[tuple[str, ...], BeforeValidator(_words)]
Nouns = Annotated[dict[str, Words], BeforeValidator(_by_neutral_noun)]
Labels = Annotated[list[str | bool | int | float], BeforeValidator(_listed)]


class UnderstoodWords(Document):
    """Words that are understood and never written.

    Any other field is a neutral noun, and holds the nouns that take its place.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="allow")
    __pydantic_extra__: dict[str, Words]

    adjectives: Words = ()
    phrases: Words = ()

    @property
    def nouns(self) -> dict[str, tuple[str, ...]]:
        """Return nouns by the neutral noun whose place they take."""
        return self.__pydantic_extra__


class GroupWords(Document):
    """How a group is said."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")

    adjectives: Words = Field(default=(), description="Before any person noun; the first anchors.")
    person_adjectives: Words = Field(default=(), description="Before person, man and woman only.")
    compounds: Words = Field(default=(), description="Nouns that stand before another.")
    phrases: Words = Field(default=(), description="After the noun.")
    nouns: Nouns = Field(default={}, description="By the neutral noun whose place they take.")
    also: UnderstoodWords = UnderstoodWords.model_validate({})

    @model_validator(mode="before")
    @classmethod
    def _check_names(cls, given: Any) -> Any:
        """Raise for an unknown field, and name the known ones."""
        for name in given if isinstance(given, Mapping) else ():
            if name not in cls.model_fields:
                fields = ", ".join(cls.model_fields)
                raise ValueError(f"a group's wordings have no field {name!r}; they have {fields}")
        return given


class GroupTable(GroupWords):
    """A table [groups.NAME]: how the group is said, and what data sets call it."""

    labels: Labels = Field(default=[], description="What data sets call it.")
    families: Words = Field(default=(), description="Each stands for {} in family phrases.")


def _tables(given: Any) -> Any:
    """Return the tables of groups, once each group has one."""
    if isinstance(given, Mapping) and all(isinstance(table, Mapping) for table in given.values()):
        return given
    raise ValueError("there must be one [groups.NAME] table per group")


class AttributeFile(Document):
    """What the TOML file of an attribute holds."""

    name: str
    position: int = Field(
        default=POSITION,
        strict=True,
        description="Where the adjective stands among those of other attributes.",
    )
    family_phrases: Words = Field(default=(), description="With {} for a group's first family.")
    also_family_phrases: Words = Field(
        default=(), description="With {} for each family; understood and never written."
    )
    groups: Annotated[dict[str, GroupTable], BeforeValidator(_tables)]
