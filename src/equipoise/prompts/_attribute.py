"""Define ``Attribute``: its groups, how English words them, and the labels that data sets use.

Attributes intersect with ``&``. One's own are TOML files.
"""

from __future__ import annotations

import itertools
import os
import tomllib
from collections.abc import Hashable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, reduce
from importlib import resources
from operator import and_
from pathlib import Path
from typing import Any

from equipoise._display import cut, listed
from equipoise._documents import validated
from equipoise._near_names import nearest
from equipoise.errors import InputError
from equipoise.prompts._attribute_document import (
    POSITION,
    AttributeFacts,
    AttributeFile,
    GroupTable,
    GroupWords,
)

READY_MADE = ("gender", "age", "skin tone", "race")
_FOLDER = resources.files("equipoise.prompts") / "attributes"

Groups = tuple[str, ...]
Texts = tuple[str, ...]


@dataclass(frozen=True)
class Wordings:
    """How a group is said.

    The anchor takes the first adjective. The words of the ``also`` fields are understood and never
    written.

    adjectives: before any person noun ("male"). person_adjectives: before "person", "man", "woman"
    only ("senior"). compounds: nouns that stand before another ("a woman doctor"). phrases: after
    the noun ("with dark skin"). nouns: by the neutral noun whose place they take ({"person":
    ("man", "gentleman")}).
    """

    adjectives: Texts = ()
    person_adjectives: Texts = ()
    compounds: Texts = ()
    phrases: Texts = ()
    nouns: Mapping[str, Texts] = field(default_factory=dict)
    also_adjectives: Texts = ()
    also_phrases: Texts = ()
    also_nouns: Mapping[str, Texts] = field(default_factory=dict)

    def words(self) -> Iterator[str]:
        """Yield everything that states the group."""
        yield from self.adjectives
        yield from self.person_adjectives
        yield from self.compounds
        yield from self.phrases
        yield from self.also_adjectives
        yield from self.also_phrases
        for nouns in (*self.nouns.values(), *self.also_nouns.values()):
            yield from nouns


@dataclass(frozen=True)
class Attribute:
    """A named attribute with two groups or more: ``Attribute("gender", ("male", "female"))``.

    labels maps a data set's labels to groups. wordings gives a group's words as a ``Wordings``, a
    mapping of its fields or a list of adjectives; groups of the ready-made attributes know theirs,
    and any other is worded by its name. position says where the adjective stands among those of
    other attributes, and parts holds the attributes of an intersection.
    """

    name: str
    groups: Groups
    labels: Mapping[Hashable, str] = field(default_factory=dict, compare=False)
    wordings: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    position: int | None = field(default=None, compare=False, repr=False)
    parts: tuple[Attribute, ...] = field(default=(), compare=False, repr=False)

    def __repr__(self) -> str:
        return f"Attribute({cut(self.name)}: {listed(self.groups)})"

    def __post_init__(self) -> None:
        _require_name(self.name)
        groups = _checked_groups(self.name, self.groups)
        given = {str(group): _wordings(words) for group, words in self.wordings.items()}
        for group in (*given, *self.labels.values()):
            if group not in groups:
                raise _no_group(group, self.name, groups)
        ready = _ready_made_facts(self.name.lower())
        position = self.position
        if position is None:
            position = ready.position
        wordings = {group: given.get(group) or ready.wordings_of(group) for group in groups}
        _require_wordings(self.name, wordings)
        labels = {label: group for label, group in ready.labels.items() if group in groups}
        labels.update(self.labels)
        # The dataclass is frozen, so what was completed is set around it.
        object.__setattr__(self, "groups", groups)
        object.__setattr__(self, "wordings", wordings)
        object.__setattr__(self, "labels", labels)
        object.__setattr__(self, "position", position)
        object.__setattr__(self, "parts", self.parts or (self,))

    def __and__(self, other: object) -> Attribute:
        """Return the intersection, which has every combination of groups.

        They are named as English orders adjectives: "old female", "dark-skinned male".
        """
        if not isinstance(other, Attribute):
            return NotImplemented
        parts = self.parts + other.parts
        part_names = [part.name for part in parts]
        if len(set(part_names)) < len(parts):
            raise InputError(
                f"{self.name!r} and {other.name!r} share an attribute; an intersection may have"
                " each only once"
            )
        groups = [_joined_name(parts, combination) for combination in _combinations(parts)]
        return Attribute(" & ".join(part_names), tuple(groups), position=0, parts=parts)

    @classmethod
    def named(cls, name: str, groups: Groups) -> Attribute:
        """Return the attribute that a space remembers by its name and groups.

        It is the ready-made one, or an intersection of such, where the groups are the same.
        """
        if name and not name.endswith(".toml"):
            with suppress(InputError):
                known = cls.load(name)
                if set(known.groups) == set(groups):
                    return known
        return cls(name or "attribute", groups)

    def split(self, group: str) -> Groups:
        """Return one group of each part for a group; of a plain attribute, the group alone."""
        if len(self.parts) == 1 and group in self.groups:
            return (group,)
        for combination in _combinations(self.parts):
            if _joined_name(self.parts, combination) == group:
                return combination
        raise _no_group(group, self.name, self.groups)

    def group(self, label: Hashable) -> str:
        """Return the group that a data set's label means.

        A label is a group's own name, a known label or, for an intersection, a tuple of one label
        per part.
        """
        if isinstance(label, str) and label in self.groups:
            return label
        if isinstance(label, tuple) and len(label) == len(self.parts) > 1:
            labels = zip(self.parts, label, strict=True)
            groups = [part.group(one) for part, one in labels]
            return _joined_name(self.parts, tuple(groups))
        if label in self.labels:
            return self.labels[label]
        for group in self.groups:
            if isinstance(label, str) and group.lower() == label.strip().lower():
                return group
        known = ", ".join(map(str, (*self.groups, *self.labels)))
        raise InputError(
            f"{label!r} is no label of {self.name!r} (known: {known}); pass labels={{{label!r}: one"
            " of the groups}, or write that in a .toml file of your own"
        )

    def facts(self) -> list[AttributeFacts]:
        """Return the names and groups of the parts, for a file.

        Wordings and labels stay behind, as nothing fitted needs them.
        """
        return [AttributeFacts(name=part.name, groups=list(part.groups)) for part in self.parts]

    @classmethod
    def from_facts(cls, parts: Iterable[AttributeFacts]) -> Attribute:
        """Return the attribute that ``facts`` described."""
        return reduce(and_, [cls(part.name, tuple(part.groups)) for part in parts])

    @classmethod
    def load(cls, name_or_path: str | os.PathLike[str]) -> Attribute:
        """Return a ready-made attribute by name, or one's own from a TOML file.

        Several are joined with &: "gender & age", "hair.toml & gender".
        """
        text = os.fspath(name_or_path)
        if Path(text).is_file():
            return _load_one(text)
        return reduce(and_, [_load_one(name.strip()) for name in text.split("&")])

    def __str__(self) -> str:
        return f"{self.name} ({', '.join(self.groups)})"


@cache
def ready_made(name: str) -> Attribute:
    """Return one of the attributes that come with the package; KeyError for another name."""
    file = name.strip().lower().replace("_", "-").replace(" ", "-")
    if file.replace("-", " ") not in READY_MADE:
        raise KeyError(name.strip())
    return _described(_document(file))


# --- Groups and their names -------------------------------------------------------------


def _require_name(name: Any) -> None:
    if not isinstance(name, str) or not name.strip():
        raise InputError(f"an attribute needs a name, and {name!r} was given")


def _checked_groups(name: str, given: Any) -> Groups:
    """Return the groups as a tuple, once they are two different words or more."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise InputError(
            f"the groups of {name!r} must be a sequence of names, and {given!r} was given"
        )
    groups = tuple(given)
    for group in groups:
        if not isinstance(group, str) or not group or group != group.strip():
            raise InputError(
                f"the groups of {name!r} must be words without space around them, and"
                f" {group!r} was given"
            )
    if len(groups) < 2:
        raise InputError(
            f"an attribute needs two groups or more, and {name!r} has {len(groups)}:"
            f" {list(groups)}; add the others"
        )
    if len(set(map(str.lower, groups))) < len(groups):
        raise InputError(f"two groups of {name!r} have the same name: {list(groups)}")
    return groups


def _no_group(group: Any, name: str, groups: Groups) -> InputError:
    """Return the error for what is no group."""
    return InputError(f"{group!r} is no group of {name!r}; its groups are {', '.join(groups)}")


def _combinations(parts: tuple[Attribute, ...]) -> Iterator[Groups]:
    """Yield every choice of one group per part."""
    return itertools.product(*(part.groups for part in parts))


def _joined_name(parts: tuple[Attribute, ...], groups: Groups) -> str:
    """Return the groups' names in the order in which English puts adjectives."""
    in_order = sorted(range(len(parts)), key=lambda i: parts[i].position or 0)
    return " ".join(groups[i] for i in in_order)


# --- Wordings ---------------------------------------------------------------------------


def _require_wordings(name: str, wordings: Mapping[str, Wordings]) -> None:
    """Raise for a group without words, and for a word of two groups."""
    for group, words in wordings.items():
        if not any(words.words()):
            raise InputError(
                f"the group {group!r} of {name!r} has no wording; give it an adjective, a"
                " phrase or a noun"
            )
    said: dict[str, str] = {}
    for group, words in wordings.items():
        for word in words.words():
            other = said.setdefault(word.lower(), group)
            if other != group:
                raise InputError(
                    f"{word!r} is a word of two groups of {name!r}, {other!r} and {group!r}; a word"
                    " may state one group only"
                )


def _wordings(given: Any) -> Wordings:
    """Return wordings from a ``Wordings``, a mapping of its fields or a list of adjectives."""
    if isinstance(given, Wordings):
        return given
    fields = given if isinstance(given, Mapping) else {"adjectives": given}
    try:
        return _worded(validated(GroupWords, dict(fields)))
    except ValueError as error:
        raise InputError(str(error)) from None


def _worded(words: GroupWords, phrases: Texts = (), also_phrases: Texts = ()) -> Wordings:
    """Return the wordings of a table, with more phrases after its own."""
    return Wordings(
        adjectives=words.adjectives,
        person_adjectives=words.person_adjectives,
        compounds=words.compounds,
        phrases=words.phrases + phrases,
        nouns=_without_empty(words.nouns),
        also_adjectives=words.also.adjectives,
        also_phrases=words.also.phrases + also_phrases,
        also_nouns=_without_empty(words.also.nouns),
    )


def _without_empty(nouns: Mapping[str, Texts]) -> dict[str, Texts]:
    return {neutral: texts for neutral, texts in nouns.items() if texts}


# --- Files ------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Facts:
    """What a file says of an attribute, beyond its name and groups."""

    position: int = POSITION
    wordings: dict[str, Wordings] = field(default_factory=dict)
    labels: dict[Hashable, str] = field(default_factory=dict)

    def wordings_of(self, group: str) -> Wordings:
        """Return the wordings of a group, or of what its name is a label of, or its name."""
        known = self.labels.get(group, group)
        return self.wordings.get(known) or Wordings(adjectives=(group,))


@cache
def _ready_made_facts(name: str) -> _Facts:
    """Return the facts of the ready-made attribute of this name, or none of them."""
    if name not in READY_MADE:
        return _Facts()
    return _facts(_document(name.replace(" ", "-")))


@cache
def _document(file: str) -> AttributeFile:
    text = (_FOLDER / f"{file}.toml").read_text(encoding="utf-8")
    return AttributeFile.model_validate(tomllib.loads(text))


def _load_one(name: str) -> Attribute:
    """Return the attribute of a TOML file or a ready-made one."""
    if name.endswith(".toml"):
        return _described(_read_toml(Path(name)))
    try:
        return ready_made(name)
    except KeyError as error:
        raise InputError(
            f"there is no ready-made attribute {error.args[0]!r}; name one of"
            f" {', '.join(READY_MADE)}, join them with &, or pass the path of a .toml file with"
            f" your own{nearest(error.args[0], READY_MADE)}"
        ) from None


def _read_toml(path: Path) -> AttributeFile:
    try:
        return validated(AttributeFile, tomllib.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise InputError(
            f"{path} cannot be read ({error.strerror}); pass the path of an attribute's TOML file"
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not TOML: {error}") from None
    except ValueError as error:
        raise InputError(
            f"{path} is not an attribute file ({error}); it needs a name and one [groups.NAME]"
            " table per group"
        ) from None


def _described(document: AttributeFile) -> Attribute:
    """Return the attribute that a TOML file describes."""
    facts = _facts(document)
    groups = tuple(document.groups)
    return Attribute(document.name, groups, facts.labels, facts.wordings, facts.position)


def _facts(document: AttributeFile) -> _Facts:
    """Return what a TOML file says of an attribute, beyond its name and groups."""
    facts = _Facts(document.position)
    for group, table in document.groups.items():
        facts.labels.update(dict.fromkeys(table.labels, group))
        words = _worded(table, *_family_phrases(table, document))
        if not any(words.words()):
            words = Wordings(adjectives=(group,))
        facts.wordings[group] = words
    return facts


def _family_phrases(table: GroupTable, document: AttributeFile) -> tuple[Texts, Texts]:
    """Return the phrases that the file makes from a group's ``families``.

    Those of the first family are written, and the others are understood.
    """
    understood_forms = document.family_phrases + document.also_family_phrases
    written = _fill(document.family_phrases, table.families[:1])
    understood = _fill(understood_forms, table.families)
    return written, tuple(phrase for phrase in understood if phrase not in written)


def _fill(forms: Iterable[str], families: Iterable[str]) -> Texts:
    """Return each form with each family in the place of its {}."""
    return tuple(form.format(family) for family in families for form in forms)
