"""Check what may go into a book.

A text states its group and no other, changes nothing else, and reads as a prompt.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import chain, pairwise
from typing import NamedTuple

from equipoise.prompts import _stated_groups as marks
from equipoise.prompts._attribute import READY_MADE, Attribute, Wordings
from equipoise.prompts._english import (
    NO_NOUNS,
    Nouns,
    Token,
    Words,
    is_person,
    is_person_at,
    is_plural,
    lower_at,
    plural,
    singular,
    tokens,
    wrong_article,
)
from equipoise.prompts._lexicon import GENERIC, MODIFIERS
from equipoise.prompts._prompt_book import PromptBook

MIN_VARIANTS = 5

LIST_MARK = re.compile(r"^\s*(?:[-*•–]|\(?\d{1,3}[.):]|#|[a-z]\))\s")
_CHATTER = re.compile(
    r"(?:^(?:sure|certainly|of course|okay|ok|here"
    r" (?:is|are|'s)|note|output|answer|variants?|prompt|t_?g)\b\s*[,:!]|^here (?:is|are)\b|"
    r"\b(?:as an ai|i can(?:no|')t|i'm sorry|language model|let me know)\b|\*\*|```|\n)",
    re.IGNORECASE,
)
_QUOTES = "\"'“‘`"

# Texts are compared word by word. People are counted there and not named, so that a person may
# become a man, and words that mean the same are one word.
_ONE, _MANY = "one person", "several people"
_PERSON = frozenset([_ONE, _MANY])
_WORKING_AS = "working as"
_SAME = {
    "an": "a",
    "’s": "'s",
    "them": "their",  # "her" is both
    "theirs": "their",
    "someone": _ONE,
    "somebody": _ONE,
}
_LINKS = frozenset(
    ["a", "who", "is", "are", "was", "were", "that", "with", "in", "of", "and", ",", _WORKING_AS]
)
_SECOND_MENTION = frozenset(["who", "is", "are", "that", ",", _WORKING_AS])
_INFLECTIONS = ("", "e", "er", "ish")


class Rejected(NamedTuple):
    """A text that may not go into a book, and why."""

    text: str
    reason: str


class CheckedAnswer(NamedTuple):
    """What of an answer may be kept."""

    anchor: str | None
    variants: tuple[str, ...]
    rejected: tuple[Rejected, ...]


class Problem(NamedTuple):
    """Something wrong with a book's entry."""

    prompt: str
    group: str
    text: str
    reason: str


def check(
    prompt: str,
    text: str,
    attribute: Attribute,
    group: str,
    person_nouns: Nouns = NO_NOUNS,
) -> str:
    """Return why a text is no wording of the prompt for the group, "" where it is one."""
    return _Wanted.of(prompt, attribute, group, person_nouns).reason_against(text)


def check_answer(
    prompt: str,
    anchor: str,
    variants: Sequence[str],
    attribute: Attribute,
    group: str,
    person_nouns: Nouns = NO_NOUNS,
) -> CheckedAnswer:
    """Return the anchor and the variants that may be kept, and the rest with their reasons.

    A variant that repeats another is dropped.
    """
    wanted = _Wanted.of(prompt, attribute, group, person_nouns)
    kept: list[str] = []
    rejected: list[Rejected] = []
    kept_anchor: str | None = anchor
    reason = wanted.reason_against(anchor)
    if reason:
        kept_anchor = None
        rejected.append(Rejected(anchor, reason))
    seen = {anchor.strip().lower()}
    for text in variants:
        key = text.strip().lower()
        reason = "it repeats another" if key in seen else wanted.reason_against(text)
        seen.add(key)
        if reason:
            rejected.append(Rejected(text, reason))
        else:
            kept.append(text)
    return CheckedAnswer(kept_anchor, tuple(kept), tuple(rejected))


def check_book(
    book: PromptBook,
    attribute: Attribute,
    *,
    min_variants: int = 0,
    person_nouns: Nouns = NO_NOUNS,
) -> list[Problem]:
    """Return every problem of the book's entries for the attribute's groups."""
    problems = []
    for prompt, group, entry in book.entries():
        if group not in attribute.groups:
            continue
        checked = check_answer(prompt, entry.anchor, entry.variants, attribute, group, person_nouns)
        problems += [Problem(prompt, group, *rejected) for rejected in checked.rejected]
        count = len(entry.variants)
        if count < min_variants:
            reason = f"it has {count} variants, and {min_variants} are asked for"
            problems.append(Problem(prompt, group, entry.anchor, reason))
    return problems


class _Wanted(NamedTuple):
    """A prompt, and the group that its wordings must state."""

    prompt: str
    bare: _Bare
    attribute: Attribute
    group: str
    more: Nouns

    @classmethod
    def of(cls, prompt: str, attribute: Attribute, group: str, more: Nouns) -> _Wanted:
        """Return what is wanted of the wordings of a prompt."""
        return cls(prompt, _bare(prompt, attribute, more), attribute, group, more)

    def reason_against(self, text: str) -> str:
        """Return why a text is not wanted, "" where it is."""
        if not text.strip():
            return "it is empty"
        prompt = self.prompt
        reason = _problem_around(prompt, text) or _problem_of_grammar(prompt, text)
        if reason:
            return reason
        bare = _bare(text, self.attribute, self.more)
        if bare.split and not self.bare.split:
            return f"{bare.split!r} is cut off from its noun"
        reason, derives = _difference(self, bare)
        return reason or _problem_of_group(self, bare, derives)


# --- Form -------------------------------------------------------------------------------


def _problem_around(prompt: str, text: str) -> str:
    """Return what is wrong with a text before its words are looked at, "" for nothing."""
    if text != text.strip():
        return "it has space around it"
    if LIST_MARK.match(text) and not LIST_MARK.match(prompt):
        return "it begins with a list marker"
    if _CHATTER.search(text) and not _CHATTER.search(prompt):
        return "it holds words that are no prompt"
    if text[0] in _QUOTES and text[0] != prompt[0]:
        return "it stands in quotation marks"
    if len(text) > 2 * len(prompt) + 80:
        return "it is far longer than the prompt"
    return ""


def _problem_of_grammar(prompt: str, text: str) -> str:
    """Return a wrong article, a doubled word or a wrong verb that the prompt does not have."""
    wrong = wrong_article(text)
    if wrong and wrong not in prompt:
        return f"{wrong!r} should have the other article"
    words = [token.lower for token in tokens(text)]
    before = prompt.lower()
    return _doubled_word(words, before) or _wrong_verb(words, before)


def _doubled_word(words: list[str], prompt: str) -> str:
    for first, second in pairwise(words):
        is_doubled = first == second and first.isalpha()
        if is_doubled and f"{first} {second}" not in prompt:
            return f"it repeats {first!r}"
    return ""


def _wrong_verb(words: list[str], prompt: str) -> str:
    """Return what is wrong with the verb after "who": "a man who are a doctor"."""
    for noun, who, verb in zip(words, words[1:], words[2:], strict=False):
        if who != "who" or not is_person(noun):
            continue
        wrong = "is" if is_plural(noun) else "are"
        if verb == wrong and f"{noun} who {verb}" not in prompt:
            return f"{noun!r} and {verb!r} do not agree"
    return ""


# --- The group --------------------------------------------------------------------------


def _problem_of_group(wanted: _Wanted, bare: _Bare, derives: bool) -> str:
    """Return what is wrong with the groups that a text states.

    derives: a word that derives from the group's was met, which states the group too.
    """
    attribute = wanted.attribute
    is_stated = derives and len(attribute.parts) == 1
    for named, group in zip(bare.named, attribute.split(wanted.group), strict=True):
        others = [other for other in named if other != group]
        if others:
            return f"it says {others[0]!r} and should say {group!r}"
        if not named and not is_stated:
            return f"it does not say {group!r}"
    for now, before in zip(bare.statements, wanted.bare.statements, strict=True):
        if now > max(1, before, wanted.bare.people):
            return f"it says {wanted.group!r} more than once"
    return ""


# --- A text without its group -----------------------------------------------------------


class _Bare(NamedTuple):
    """A text without what states a group."""

    said: list[str]  # the words left, people counted and not named
    beside: list[bool]  # whether each stands beside words that were taken
    named: list[tuple[str, ...]]  # the groups stated, for each part of the attribute
    statements: list[int]  # how often, pronouns and titles left out
    people: int
    split: str  # the first word of a name that an adjective stands inside of ("tennis male player")


def _bare(text: str, attribute: Attribute, more: Nouns) -> _Bare:
    words = tokens(text)
    found = [marks.find_in(words, part, more) for part in attribute.parts]
    in_order = sorted(chain.from_iterable(found))
    said, beside = _words_left(words, in_order)
    parts = zip(found, attribute.parts, strict=True)
    return _Bare(
        said,
        beside,
        named=[marks.stated(of_part, part) for of_part, part in parts],
        statements=[_count_statements(of_part) for of_part in found],
        people=sum(is_person_at(words, i, more) for i in range(len(words))),
        split=_split_name(words, in_order),
    )


def _count_statements(found: marks.Marks) -> int:
    return sum(mark.kind not in ("pronoun", "title") for mark in found)


def _split_name(words: Words, found: marks.Marks) -> str:
    """Return the word before an adjective that belongs to the noun after it, "" for none."""
    for mark in found:
        before = lower_at(words, mark.first - 1)
        if mark.kind == "adjective" and before in MODIFIERS:
            return before
    return ""


def _words_left(words: Words, found: marks.Marks) -> tuple[list[str], list[bool]]:
    """Return the words without those of the marks, and whether each stands beside such."""
    taken = _taken(len(words), found)
    neutral = _neutral_words(words, found)
    said: list[str] = []
    beside: list[bool] = []
    for i, word in enumerate(words):
        if i in neutral:
            new = neutral[i]
            if i and taken[i - 1] and _is_person_again(said, new):
                continue
            said += new
            beside += [True] * len(new)
        elif taken[i]:
            continue
        elif word.lower == "as" and said[-1:] in (["working"], ["works"], ["work"]):
            said[-1] = _WORKING_AS
        else:
            said.append(_plain(word))
            beside.append(any(taken[max(i - 1, 0) : i + 2]))
    return said, beside


def _taken(count: int, found: marks.Marks) -> list[bool]:
    """Return which words belong to a mark."""
    taken = [False] * count
    for mark in found:
        for i in range(mark.first, mark.last):
            taken[i] = True
    return taken


def _is_person_again(said: list[str], new: list[str]) -> bool:
    """Return whether new words repeat the person that was said last."""
    return new in ([_ONE], [_MANY]) and said[-1:] == new


def _neutral_words(words: Words, found: marks.Marks) -> dict[int, list[str]]:
    """Return what is left of nouns and pronouns that state a group, by where they begin."""
    neutral: dict[int, list[str]] = {}
    for mark in found:
        if mark.kind == "noun":
            # "boy" states a gender and an age: take both, and a person is left
            noun = "person" if mark.first in neutral else mark.neutral
            many = is_plural(words[mark.last - 1].text)
            neutral[mark.first] = _counted(noun, many)
        elif mark.kind == "pronoun":
            neutral[mark.first] = [_SAME.get(mark.neutral, mark.neutral)]
    return neutral


def _counted(noun: str, many: bool) -> list[str]:
    """Return the words of a noun in its number; of a noun for anybody, the count."""
    if noun in GENERIC:
        return [_MANY if many else _ONE]
    if many:
        noun = plural(noun)
    return [token.lower for token in tokens(noun)]


def _plain(word: Token) -> str:
    """Return a word as it is compared."""
    one = singular(word.lower)
    if one in GENERIC:
        return _counted(one, is_plural(word.text))[0]
    return _SAME.get(word.lower, word.lower)


# --- What else differs ------------------------------------------------------------------


class _WordChange(NamedTuple):
    """Words of the prompt that were lost, and words that were added in their place."""

    lost: list[str]
    added: list[str]
    beside: bool  # whether it stands beside words that state a group

    @property
    def links(self) -> list[str]:
        """Return the added words that may go with any group: "who", "is", "person"."""
        return [word for word in self.added if _is_link(word)]

    @property
    def others(self) -> list[str]:
        """Return the added words that only a derived word may be."""
        return [word for word in self.added if not _is_link(word)]


def _is_link(word: str) -> bool:
    return word in _LINKS or word in _PERSON


def _changes(before: list[str], after: _Bare) -> Iterator[_WordChange]:
    """Yield the changes from a prompt's words to a text's."""
    matcher = SequenceMatcher(None, before, after.said, autojunk=False)
    for kind, i1, i2, j1, j2 in matcher.get_opcodes():
        if kind != "equal":
            beside = any(after.beside[max(j1 - 1, 0) : j2 + 1])
            yield _WordChange(before[i1:i2], after.said[j1:j2], beside)


def _difference(wanted: _Wanted, bare: _Bare) -> tuple[str, bool]:
    """Return what else differs from the prompt, "" for nothing.

    Words that plainly derive from the group's pass. Return too whether there was one.
    """
    before = wanted.bare.said
    derives = False
    for change in _changes(before, bare):
        derives = derives or bool(change.others)
        reason = _loss(change) or _addition(change, wanted, derives)
        if reason:
            return reason, derives
    return _dangling_end(before, bare), derives


def _dangling_end(before: list[str], bare: _Bare) -> str:
    """Return what is wrong with the last word: "a photo of a doctor who"."""
    if bare.said[-1:] == before[-1:] or not bare.said:
        return ""
    last = bare.said[-1]
    if last in _LINKS and not bare.beside[-1]:
        return f"it ends in {last!r}"
    return ""


def _loss(change: _WordChange) -> str:
    """Return what is wrong with the words that a change takes away."""
    lost, added = change.lost, change.added
    if any(word not in (_ONE, "a") for word in lost) or (lost and _MANY in added):
        reason = f"it changes {_readable(lost)!r}"
        if added:
            reason += f" to {_readable(added)!r}"
        return reason
    if "a" in lost and "a" not in added and _ONE not in lost:
        return "it drops an article"
    return ""


def _addition(change: _WordChange, wanted: _Wanted, derives: bool) -> str:
    """Return what is wrong with what a change adds.

    derives: a word that derives from the group's was added, here or before.
    """
    for word in change.others:
        if not _derives(word, wanted.attribute, wanted.group):
            return f"it adds {word!r}"
    links = change.links
    if links and not derives and not change.beside:
        return f"it adds {_readable(links[:1])!r}"
    adds_person = not change.lost and not _PERSON.isdisjoint(links)
    if adds_person and _SECOND_MENTION.isdisjoint(links):
        return "it names the person twice"
    return ""


def _readable(words: list[str]) -> str:
    """Return compared words as a person would write them."""
    names = {_ONE: "person", _MANY: "people"}
    return " ".join(names.get(word, word) for word in words)


def _derives(word: str, attribute: Attribute, group: str) -> bool:
    """Return whether a word plainly derives from an adjective of the group.

    "blonde", "blondish" and "blond-haired" do. Only attributes of one's own have such words: the
    ready-made ones list all that states them.
    """
    for part, one in zip(attribute.parts, attribute.split(group), strict=True):
        if part.name not in READY_MADE and _derives_from(word, part.wordings[one]):
            return True
    return False


def _derives_from(word: str, wordings: Wordings) -> bool:
    stems = _long_words(wordings.adjectives)
    grown = {stem + ending for stem in stems for ending in _INFLECTIONS}
    known = _long_words(wordings.words())
    first, *rest = word.split("-")
    for other in rest:
        if other not in known and other.removesuffix("ed") not in known:
            return False
    return first in grown


def _long_words(texts: Iterable[str]) -> set[str]:
    """Return the words of four letters or more."""
    found: set[str] = set()
    for text in texts:
        found.update(token.lower for token in tokens(text) if len(token.lower) >= 4)
    return found
