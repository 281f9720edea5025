"""``Attribute``: its groups, how English words them, and a data set's labels for them.

Intersections with ``&``; one's own in TOML.
"""

from __future__ import annotations

import itertools
import os
import tomllib
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from equipoise.display import cut, listed
from equipoise.errors import InputError

READY_MADE = ("gender", "age", "skin tone", "race")
_FOLDER = resources.files("equipoise.prompts") / "attributes"
_FIELDS = ("adjectives", "person_adjectives", "compounds", "phrases")


@dataclass(frozen=True)
class Wordings:
    """How a group is said.

    The first adjective is the anchor's; what ``also`` holds is understood and never written.

    adjectives: before any person noun ("male"). person_adjectives: before "person", "man", "woman"
    only ("senior"). compounds: nouns that stand before another ("a woman doctor"). phrases: after
    the noun ("with dark skin"). nouns: by the neutral noun whose place they take ({"person":
    ("man", "gentleman")}).
    """

    adjectives: tuple[str, ...] = ()
    person_adjectives: tuple[str, ...] = ()
    compounds: tuple[str, ...] = ()
    phrases: tuple[str, ...] = ()
    nouns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    also_adjectives: tuple[str, ...] = ()
    also_phrases: tuple[str, ...] = ()
    also_nouns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def words(self) -> Iterable[str]:
        """Everything that states the group."""
        yield from (
            *self.adjectives,
            *self.person_adjectives,
            *self.compounds,
            *self.phrases,
            *self.also_adjectives,
            *self.also_phrases,
        )
        for nouns in (*self.nouns.values(), *self.also_nouns.values()):
            yield from nouns


@dataclass(frozen=True)
class Attribute:
    """A named attribute with two groups or more: ``Attribute("gender", ("male", "female"))``.

    labels maps a data set's labels to groups. wordings gives a group's words as a ``Wordings``, a
    mapping of its fields or a list of adjectives; groups of the ready-made attributes know theirs,
    and any other is worded by its name.
    """

    name: str
    groups: tuple[str, ...]
    labels: Mapping[Hashable, str] = field(default_factory=dict, compare=False)
    wordings: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    position: int | None = field(default=None, compare=False, repr=False)
    parts: tuple[Attribute, ...] = field(default=(), compare=False, repr=False)

    def __repr__(self) -> str:
        return f"Attribute({cut(self.name)}: {listed(self.groups)})"

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise InputError(f"an attribute needs a name, and {self.name!r} was given")
        if isinstance(self.groups, str) or not isinstance(self.groups, Iterable):
            raise InputError(
                f"the groups of {self.name!r} must be a sequence of names, and {self.groups!r} was"
                " given"
            )
        groups = tuple(self.groups)
        if bad := [
            group
            for group in groups
            if not isinstance(group, str) or not group.strip() or group != group.strip()
        ]:
            raise InputError(
                f"the groups of {self.name!r} must be words without space around them, and"
                f" {bad[0]!r} was given"
            )
        if len(groups) < 2:
            raise InputError(
                f"an attribute needs two groups or more, and {self.name!r} has {len(groups)}:"
                f" {list(groups)}; add the others"
            )
        if len({group.lower() for group in groups}) < len(groups):
            raise InputError(f"two groups of {self.name!r} have the same name: {list(groups)}")
        ready = _ready_made_of(self.name.lower())
        given = {str(group): _wordings(words) for group, words in self.wordings.items()}
        if unknown := [name for name in (*given, *self.labels.values()) if name not in groups]:
            raise InputError(
                f"{unknown[0]!r} is no group of {self.name!r}; its groups are {', '.join(groups)}"
            )
        known = ready[1] if ready else {}
        means = ready[2] if ready else {}
        words = {
            group: (
                given.get(group)
                or known.get(means.get(group, group))
                or Wordings(adjectives=(group,))
            )
            for group in groups
        }
        if silent := (
            [group for group in groups if not any(words[group].words())] if not self.parts else []
        ):
            raise InputError(
                f"the group {silent[0]!r} of {self.name!r} has no wording; give it an adjective, a"
                " phrase or a noun"
            )
        _share_no_word(self.name, words)
        labels = {
            label: group for label, group in (ready[2] if ready else {}).items() if group in groups
        } | dict(self.labels)
        position = self.position if self.position is not None else (ready[0] if ready else 3)
        for name, value in (
            ("groups", groups),
            ("wordings", words),
            ("labels", labels),
            ("position", position),
        ):
            object.__setattr__(self, name, value)
        if not self.parts:
            object.__setattr__(self, "parts", (self,))

    def __and__(self, other: object) -> Attribute:
        """The intersection: every combination of groups, named as English orders adjectives ("old
        female", "dark-skinned male").
        """
        if not isinstance(other, Attribute):
            return NotImplemented
        parts = self.parts + other.parts
        if len({part.name for part in parts}) < len(parts):
            raise InputError(
                f"{self.name!r} and {other.name!r} share an attribute; an intersection takes each"
                " once"
            )
        names = [
            _name(parts, groups) for groups in itertools.product(*(part.groups for part in parts))
        ]
        return Attribute(
            " & ".join(part.name for part in parts), tuple(names), position=0, parts=parts
        )

    @classmethod
    def named(cls, name: str, groups: tuple[str, ...]) -> Attribute:
        """What a space remembers of its attribute: the ready-made one, or an intersection of them,
        where name and groups are its own.
        """
        try:
            known = cls.load(name) if name and not name.endswith(".toml") else None
        except InputError:
            known = None
        return (
            known
            if known and set(known.groups) == set(groups)
            else cls(name or "attribute", groups)
        )

    def split(self, group: str) -> tuple[str, ...]:
        """A group of an intersection as one group of each part; of a plain attribute, the group
        alone.
        """
        if len(self.parts) == 1 and group in self.groups:
            return (group,)
        for groups in itertools.product(*(part.groups for part in self.parts)):
            if _name(self.parts, groups) == group:
                return groups
        raise InputError(
            f"{group!r} is no group of {self.name!r}; its groups are {', '.join(self.groups)}"
        )

    def group(self, label: Hashable) -> str:
        """The group that a data set's label means: a group's own name, a known label, or, for an
        intersection, one label a part.
        """
        if isinstance(label, str) and label in self.groups:
            return label
        if isinstance(label, tuple) and len(label) == len(self.parts) > 1:
            return _name(
                self.parts,
                tuple(part.group(one) for part, one in zip(self.parts, label, strict=True)),
            )
        if label in self.labels:
            return self.labels[label]
        if isinstance(label, str) and (
            found := [group for group in self.groups if group.lower() == label.strip().lower()]
        ):
            return found[0]
        known = ", ".join(map(str, (*self.groups, *self.labels)))
        raise InputError(
            f"{label!r} is no label of {self.name!r} (known: {known}); pass labels={{{label!r}: one"
            " of the groups}, or write that in a .toml file of your own"
        )

    def to_json(self) -> list[dict[str, Any]]:
        """The parts' names and groups, for a file; wordings and labels stay behind, as nothing
        fitted needs them.
        """
        return [{"name": part.name, "groups": list(part.groups)} for part in self.parts]

    @classmethod
    def from_json(cls, parts: list[dict[str, Any]]) -> Attribute:
        """What ``to_json`` gave."""
        first, *rest = [cls(part["name"], tuple(part["groups"])) for part in parts]
        for other in rest:
            first = first & other
        return first

    @classmethod
    def load(cls, name_or_path: str | os.PathLike) -> Attribute:
        """A ready-made attribute by name, one's own from a TOML file, or several joined with &
        ("gender & age", "hair.toml & gender").
        """
        text = os.fspath(name_or_path)
        names = [text] if Path(text).is_file() else [name.strip() for name in text.split("&")]
        try:
            first, *rest = [
                (
                    _from_document(_read_toml(Path(name)), name)
                    if name.endswith(".toml")
                    else ready_made(name)
                )
                for name in names
            ]
        except KeyError as error:
            raise InputError(
                f"there is no ready-made attribute {error.args[0]!r}; name one of"
                f" {', '.join(READY_MADE)}, join them with &, or pass the path of a .toml file with"
                " your own"
            ) from None
        for other in rest:
            first = first & other
        return first

    def __str__(self) -> str:
        return f"{self.name} ({', '.join(self.groups)})"


@cache
def ready_made(name: str) -> Attribute:
    """One of the attributes that come with the package; KeyError for another name."""
    file = name.strip().lower().replace("_", "-").replace(" ", "-")
    if file.replace("-", " ") not in READY_MADE:
        raise KeyError(name.strip())
    return _from_document(_document(file), file)


@cache
def _document(file: str) -> dict[str, Any]:
    return tomllib.loads((_FOLDER / f"{file}.toml").read_text(encoding="utf-8"))


@cache
def _ready_made_of(name: str) -> tuple[int, dict[str, Wordings], dict[Hashable, str]] | None:
    """Position, wordings and labels of the ready-made attribute of this name."""
    return _parse(_document(name.replace(" ", "-"))) if name in READY_MADE else None


def _share_no_word(name: str, words: Mapping[str, Wordings]) -> None:
    said: dict[str, str] = {}
    for group, wordings in words.items():
        for word in wordings.words():
            if (other := said.setdefault(word.lower(), group)) != group:
                raise InputError(
                    f"{word!r} words two groups of {name!r}, {other!r} and {group!r}; a word may"
                    " state one group only"
                )


def _from_document(document: dict[str, Any], source: str) -> Attribute:
    try:
        position, wordings, labels = _parse(document)
        return Attribute(document["name"], tuple(document["groups"]), labels, wordings, position)
    except KeyError as error:
        raise InputError(
            f"{source} has no {error.args[0]!r}; an attribute file needs a name and a [groups.NAME]"
            " table a group"
        ) from None
    except (TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{source} is not an attribute file: {error}") from None


def _parse(document: dict[str, Any]) -> tuple[int, dict[str, Wordings], dict[Hashable, str]]:
    wordings, labels = {}, {}
    position = document.get("position", 3)
    if not isinstance(position, int):
        raise InputError(
            "position must be a whole number (where the adjective stands among others), and"
            f" {position!r} was given"
        )
    if not isinstance(document["groups"], Mapping) or not all(
        isinstance(given, Mapping) for given in document["groups"].values()
    ):
        raise InputError(
            f"groups must be a [groups.NAME] table a group, and {document['groups']!r} was given"
        )
    for group, given in document["groups"].items():
        table = dict(given)
        labels |= dict.fromkeys(table.pop("labels", ()), group)
        families = table.pop("families", ())
        written = [
            phrase.format(family)
            for family in families[:1]
            for phrase in document.get("family_phrases", ())
        ]
        understood = [
            phrase.format(family)
            for family in families
            for phrase in (
                *document.get("family_phrases", ()),
                *document.get("also_family_phrases", ()),
            )
        ]
        table["phrases"] = [*table.get("phrases", ()), *written]
        also = dict(table.get("also", {}))
        also["phrases"] = [
            *also.get("phrases", ()),
            *(phrase for phrase in understood if phrase not in written),
        ]
        table["also"] = also
        words = _wordings(table)
        wordings[group] = words if any(words.words()) else Wordings(adjectives=(group,))
    return position, wordings, labels


def _wordings(given: Any) -> Wordings:
    if isinstance(given, Wordings):
        return given
    if isinstance(given, Mapping):
        table = dict(given)
        also = dict(table.pop("also", {}))
        nouns = table.pop("nouns", {})
        lists = {name: _strings(name, table.pop(name)) for name in _FIELDS if name in table}
        if table:
            fields = ", ".join((*_FIELDS, "nouns", "also"))
            raise InputError(
                f"a group's wordings have no field {next(iter(table))!r}; they have {fields}"
            )
        return Wordings(
            **lists,
            nouns=_nouns(nouns),
            also_adjectives=_strings("adjectives", also.pop("adjectives", ())),
            also_phrases=_strings("phrases", also.pop("phrases", ())),
            also_nouns=_nouns(also),
        )
    return Wordings(adjectives=_strings("adjectives", given))


def _nouns(given: Any) -> dict[str, tuple[str, ...]]:
    table = given if isinstance(given, Mapping) else {"person": given}
    return {str(neutral): _strings("nouns", nouns) for neutral, nouns in table.items() if nouns}


def _strings(name: str, given: Any) -> tuple[str, ...]:
    given = (given,) if isinstance(given, str) else given
    if not isinstance(given, Sequence) or not all(
        isinstance(word, str) and word.strip() for word in given
    ):
        raise InputError(f"{name} must be a list of words, and {given!r} was given")
    return tuple(given)


def _name(parts: tuple[Attribute, ...], groups: tuple[str, ...]) -> str:
    ordered = sorted(range(len(parts)), key=lambda i: parts[i].position or 0)
    return " ".join(groups[i] for i in ordered)


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(
            f"{path} cannot be read ({error.strerror}); pass the path of an attribute's TOML file"
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not TOML: {error}") from None
