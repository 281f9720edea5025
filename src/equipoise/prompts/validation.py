"""What may go into a book: a text states its group and no other, changes nothing else, and reads as
a prompt.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from itertools import pairwise
from typing import NamedTuple

from equipoise.prompts import marks
from equipoise.prompts.attribute import READY_MADE, Attribute
from equipoise.prompts.book import Entry, PromptBook
from equipoise.prompts.english import (
    is_person,
    is_person_at,
    is_plural,
    plural,
    singular,
    tokens,
    wrong_article,
)
from equipoise.prompts.lexicon import GENERIC, MODIFIERS

MIN_VARIANTS = 5

_LINKS = frozenset(
    ["a", "who", "is", "are", "was", "were", "that", "with", "in", "of", "and", ",", "working as"]
)
_SAME = {
    "an": "a",
    "’s": "'s",
    "them": "their",
    "theirs": "their",
}  # "her" is both "them" and "their"
_ONE, _MANY = "one person", "several people"
LIST_MARK = re.compile(r"^\s*(?:[-*•–]|\(?\d{1,3}[.):]|#|[a-z]\))\s")
_CHATTER = re.compile(
    r"(?:^(?:sure|certainly|of course|okay|ok|here"
    r" (?:is|are|'s)|note|output|answer|variants?|prompt|t_?g)\b\s*[,:!]|^here (?:is|are)\b|"
    r"\b(?:as an ai|i can(?:no|')t|i'm sorry|language model|let me know)\b|\*\*|```|\n)",
    re.IGNORECASE,
)


class Rejected(NamedTuple):
    """A text that may not go into a book, and why."""

    text: str
    reason: str


class Checked(NamedTuple):
    """What of an answer may be kept."""

    anchor: str | None
    variants: tuple[str, ...]
    rejected: tuple[Rejected, ...]


def check(
    prompt: str,
    text: str,
    attribute: Attribute,
    group: str,
    person_nouns: frozenset[str] = frozenset(),
) -> str:
    """Why a text is no wording of the prompt for the group; "" where it is one."""
    return _check(
        prompt, _bare(prompt, attribute, person_nouns), text, attribute, group, person_nouns
    )


def check_answer(
    prompt: str,
    anchor: str,
    variants: Sequence[str],
    attribute: Attribute,
    group: str,
    person_nouns: frozenset[str] = frozenset(),
) -> Checked:
    """The anchor and the variants that may be kept; what may not, with its reason.

    A variant that repeats another is dropped.
    """
    bare = _bare(prompt, attribute, person_nouns)
    against = _check(prompt, bare, anchor, attribute, group, person_nouns)
    rejected, seen, kept = (
        [Rejected(anchor, against)] if against else [],
        {anchor.strip().lower()},
        [],
    )
    for text in variants:
        repeats = text.strip().lower() in seen
        reason = (
            "it repeats another"
            if repeats
            else _check(prompt, bare, text, attribute, group, person_nouns)
        )
        if reason:
            rejected.append(Rejected(text, reason))
        else:
            kept.append(text)
        seen.add(text.strip().lower())
    return Checked(None if against else anchor, tuple(kept), tuple(rejected))


class Problem(NamedTuple):
    """Something wrong with a book's entry."""

    prompt: str
    group: str
    text: str
    reason: str


def check_book(
    book: PromptBook,
    attribute: Attribute,
    *,
    min_variants: int = 0,
    person_nouns: frozenset[str] = frozenset(),
) -> list[Problem]:
    """Every problem of the entries of a book that are of the attribute's groups."""
    problems = []
    for prompt, group, entry in book.entries():
        if group in attribute.groups:
            problems += [
                Problem(prompt, group, *one)
                for one in _check_entry(prompt, entry, attribute, group, person_nouns)
            ]
            if len(entry.variants) < min_variants:
                problems.append(
                    Problem(
                        prompt,
                        group,
                        entry.anchor,
                        f"it has {len(entry.variants)} variants, and {min_variants} are asked for",
                    )
                )
    return problems


def _check_entry(
    prompt: str, entry: Entry, attribute: Attribute, group: str, person_nouns: frozenset[str]
) -> Sequence[Rejected]:
    return check_answer(
        prompt, entry.anchor, entry.variants, attribute, group, person_nouns
    ).rejected


class _Bare(NamedTuple):
    """A text without what states a group: the words left, people counted and not named; whether
    each stands beside words taken.
    """

    said: list[str]
    beside: list[bool]
    named: list[tuple[str, ...]]  # the groups stated, for each part of the attribute
    statements: list[int]  # how often, pronouns and titles left out
    people: int
    split: str  # the first word of a name that an adjective stands inside of ("tennis male player")


def _check(
    prompt: str,
    bare_prompt: _Bare,
    text: str,
    attribute: Attribute,
    group: str,
    more: frozenset[str],
) -> str:
    if not text.strip():
        return "it is empty"
    if form := _form(prompt, text):
        return form
    bare = _bare(text, attribute, more)
    if bare.split and not bare_prompt.split:
        return f"{bare.split!r} is cut off from its noun"
    related: set[str] = set()
    if rest := _rest(bare_prompt.said, bare, attribute, group, related):
        return rest
    for named, one in zip(bare.named, attribute.split(group), strict=True):
        if others := [other for other in named if other != one]:
            return f"it says {others[0]!r} and should say {one!r}"
        if not named and not (related and len(attribute.parts) == 1):
            return f"it does not say {one!r}"
    for have, had in zip(bare.statements, bare_prompt.statements, strict=True):
        if have > max(1, had, bare_prompt.people):
            return f"it says {group!r} more than once"
    return ""


def _form(prompt: str, text: str) -> str:
    """What is wrong with a text before its words are looked at."""
    if text != text.strip():
        return "it has space around it"
    if LIST_MARK.match(text) and not LIST_MARK.match(prompt):
        return "it begins with a list marker"
    if _CHATTER.search(text) and not _CHATTER.search(prompt):
        return "it holds words that are no prompt"
    if text[0] in "\"'“‘`" and text[0] != prompt[0]:
        return "it stands in quotation marks"
    if len(text) > 2 * len(prompt) + 80:
        return "it is far longer than the prompt"
    if (wrong := wrong_article(text)) and wrong not in prompt:
        return f"{wrong!r} should have the other article"
    words = [token.lower for token in tokens(text)]
    for first, second in pairwise(words):
        if first == second and first.isalpha() and f"{first} {second}" not in prompt.lower():
            return f"it repeats {first!r}"
    for noun, who, verb in zip(words, words[1:], words[2:], strict=False):
        wrong_verb = (
            who == "who" and is_person(noun) and verb == ("is" if is_plural(noun) else "are")
        )
        if wrong_verb and f"{noun} who {verb}" not in prompt.lower():
            return f"{noun!r} and {verb!r} do not agree"
    return ""


def _bare(text: str, attribute: Attribute, more: frozenset[str]) -> _Bare:
    words = tokens(text)
    of_parts = [marks.find_in(words, part, more) for part in attribute.parts]
    named = [
        marks.stated(found, part) for found, part in zip(of_parts, attribute.parts, strict=True)
    ]
    statements = [
        sum(mark.kind not in ("pronoun", "title") for mark in marks_) for marks_ in of_parts
    ]
    people = sum(is_person_at(words, i, more) for i in range(len(words)))
    found = sorted(mark for marks_ in of_parts for mark in marks_)
    inside = (
        words[mark.first - 1].lower for mark in found if mark.kind == "adjective" and mark.first
    )
    neutral: dict[int, list[str]] = {}
    taken = [False] * len(words)
    for mark in found:
        taken[mark.first : mark.last] = [True] * (mark.last - mark.first)
        if mark.kind == "noun":
            # "boy" states a gender and an age: take both, and a person is left
            noun = "person" if mark.first in neutral else mark.neutral
            neutral[mark.first] = _counted(noun, is_plural(words[mark.last - 1].text))
        elif mark.kind == "pronoun":
            neutral[mark.first] = [_plain(mark.neutral)]
    said: list[str] = []
    beside: list[bool] = []
    for i, word in enumerate(words):
        near = any(taken[max(i - 1, 0) : i + 2])
        if i in neutral and not (
            i and taken[i - 1] and neutral[i] in ([_ONE], [_MANY]) and said[-1:] == neutral[i]
        ):
            said += neutral[i]
            beside += [True] * len(neutral[i])
        elif not taken[i]:
            new = (
                _counted(singular(word.lower), is_plural(word.text))
                if singular(word.lower) in GENERIC
                else [_plain(word.lower)]
            )
            if new == ["as"] and said[-1:] in (["working"], ["works"], ["work"]):
                said[-1:], new = ["working as"], []
            said += new
            beside += [near] * len(new)
    return _Bare(
        said,
        beside,
        named,
        statements,
        people,
        next((word for word in inside if word in MODIFIERS), ""),
    )


def _counted(noun: str, many: bool) -> list[str]:
    if noun in GENERIC:
        return [_MANY if many else _ONE]
    return [token.lower for token in tokens(plural(noun) if many else noun)]


def _readable(words: list[str]) -> str:
    return " ".join({_ONE: "person", _MANY: "people"}.get(word, word) for word in words)


def _plain(word: str) -> str:
    if word in ("someone", "somebody"):
        return _ONE
    return _SAME.get(word, word)


def _rest(
    wanted: list[str], bare: _Bare, attribute: Attribute, group: str, related: set[str]
) -> str:
    """What else differs from the prompt; words that plainly derive from the group's are let
    through, and noted in ``related``.
    """
    said, beside = bare.said, bare.beside
    for kind, i1, i2, j1, j2 in SequenceMatcher(None, wanted, said, autojunk=False).get_opcodes():
        if kind == "equal":
            continue
        lost, added = wanted[i1:i2], said[j1:j2]
        if [word for word in lost if word not in (_ONE, "a")] or (lost and _MANY in added):
            return f"it changes {_readable(lost)!r}" + (
                f" to {_readable(added)!r}" if added else ""
            )
        if "a" in lost and "a" not in added and _ONE not in lost:
            return "it drops an article"
        links = [word for word in added if word in _LINKS or word in (_ONE, _MANY)]
        for word in added:
            if word not in links and not _derives(word, attribute, group):
                return f"it adds {_readable([word])!r}"
        related |= set(added) - set(links)
        if links and not related and not any(beside[max(j1 - 1, 0) : j2 + 1]):
            return f"it adds {_readable(links[:1])!r}"
        people = [word for word in added if word in (_ONE, _MANY)]
        if people and not lost and not {"who", "is", "are", "that", ",", "working as"} & set(added):
            return "it names the person twice"
    if said[-1:] and said[-1] in _LINKS and said[-1:] != wanted[-1:] and not beside[-1]:
        return f"it ends in {said[-1]!r}"
    return ""


def _derives(word: str, attribute: Attribute, group: str) -> bool:
    """Whether a word plainly derives from an adjective of the group: "blonde", "blondish",
    "blond-haired".

    Only of one's own attributes: the ready-made ones list all that states them.
    """
    for part, one in zip(attribute.parts, attribute.split(group), strict=True):
        adjectives = {
            token.lower for text in part.wordings[one].adjectives for token in tokens(text)
        }
        known = {
            token.lower
            for text in part.wordings[one].words()
            for token in tokens(text)
            if len(token.lower) >= 4
        }
        first, *rest = word.split("-")
        grown = {
            stem + ending
            for stem in adjectives
            if len(stem) >= 4
            for ending in ("", "e", "er", "ish")
        }
        if (
            part.name not in READY_MADE
            and first in grown
            and all(other in known or other.removesuffix("ed") in known for other in rest)
        ):
            return True
    return False
