"""Where a text states a group: the words, which group, and what they are (adjective, noun, phrase, pronoun, title)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from equipoise.prompts.attribute import Attribute, Wordings
from equipoise.prompts.english import Token, find_slot, is_person, is_plural, leads_to_person, plural, qualified, singular, tokens
from equipoise.prompts.lexicon import ANIMALS, GENERIC, STOPS


class Mark(NamedTuple):
    """Words [first, last) that state a group. neutral: the noun or pronoun that would state none; case: of a pronoun."""

    first: int
    last: int
    group: str
    kind: str
    neutral: str = ""
    case: str = ""


class _Word(NamedTuple):
    words: tuple[str, ...]
    group: str
    kind: str
    neutral: str


PRONOUNS = {  # case: (male, female, neutral)
    "subject": ("he", "she", "they"),
    "object": ("him", "her", "them"),
    "possessive": ("his", "her", "their"),
    "independent": ("his", "hers", "theirs"),
    "reflexive": ("himself", "herself", "themself"),
}
TITLES = {"mr": "male", "mrs": "female", "ms": "female", "miss": "female"}
_GENDERS = ("male", "female")
_PRONOUN_WORDS = frozenset(word for forms in PRONOUNS.values() for word in forms[:2])

_NOT_AFTER = {  # words after which it is no longer about a person
    "king": "size sized bed crab penguin cobra",
    "queen": "size sized bed bee ant",
    "lady": "bug bird finger",
    "guy": "wire",
    "father": "christmas",
    "mother": "nature earth board ship",
    "sister": "city ship",
    "male": "plug connector",
    "female": "plug connector",
    "black": "eye belt sheep",
    "baby": "carriage blue grand",
    "boy": "scout",
    "white": "house",
}
_NOUN_LESS = frozenset(
    [
        "again",
        "there",
        "here",
        "now",
        "then",
        "too",
        "also",
        "today",
        "yesterday",
        "alone",
        "away",
        "back",
        "home",
        "well",
        "outside",
        "inside",
    ]
)
_STRONG = re.compile(r"-(?:skinned|complexioned|toned|presenting|identifying|looking|faced|haired|descendant)$")


def find(text: str, attribute: Attribute, more: frozenset[str] = frozenset()) -> list[Mark]:
    """Every statement of a group of a plain attribute, left to right, the longest where several begin. ``more``: further person nouns."""
    return find_in(tokens(text), attribute, more)


def find_in(words: list[Token], attribute: Attribute, more: frozenset[str] = frozenset()) -> list[Mark]:
    """As ``find``, for a text that is already cut into words."""
    vocabulary, gendered = _vocabulary(attribute), set(_GENDERS) <= set(attribute.groups)
    lower = [word.lower for word in words]
    marks, i = [], 0
    while i < len(words):
        mark = _pronoun_or_title(words, i) if gendered else None
        for length in vocabulary.lengths.get(lower[i], ()) if mark is None else ():
            entries = vocabulary.entries.get(tuple(lower[i : i + length]), ())
            mark = mark or next(filter(None, (_mark(words, i, entry, more) for entry in entries)), None)
        if mark and not (marks and mark.first < marks[-1].last):
            marks.append(mark)
        i = mark.last if mark else i + 1
    return marks


def names_person(text: str, attribute: Attribute, more: frozenset[str] = frozenset()) -> bool:
    """Whether a text is about a person, as far as the word lists reach."""
    words = tokens(text)
    somebody = any(word.lower in ("someone", "somebody", "they", "we", "you", "i") for word in words)
    return somebody or find_slot(words, more) is not None or any(find_in(words, part, more) for part in attribute.parts)


def stated(marks: Iterable[Mark], attribute: Attribute) -> tuple[str, ...]:
    """The groups that marks name, in the attribute's order."""
    named = {mark.group for mark in marks}
    return tuple(group for group in attribute.groups if group in named)


def explicit_groups(text: str, attribute: Attribute) -> tuple[str, ...]:
    """The groups that a text asks for by name, () where it asks for none. Of an intersection, those that fit every part that is named."""
    if not isinstance(text, str) or not isinstance(attribute, Attribute):
        from equipoise.errors import InputError

        raise InputError(f"explicit_groups takes a text and an Attribute, and {type(text).__name__}, {type(attribute).__name__} were given")
    named = [set(stated(find(text, part), part)) for part in attribute.parts]
    if not any(named):
        return ()
    splits = ((group, attribute.split(group)) for group in attribute.groups)
    return tuple(group for group, parts in splits if all(not asked or one in asked for asked, one in zip(named, parts, strict=True)))


class _Vocabulary(NamedTuple):
    entries: dict[tuple[str, ...], list[_Word]]  # what a run of words may state, adjectives before nouns
    lengths: dict[str, list[int]]  # first word -> how long the runs that begin with it are, the longest first


def _vocabulary(attribute: Attribute) -> _Vocabulary:
    """Made once and kept on the attribute."""
    if "_vocabulary" not in attribute.__dict__:
        entries: dict[tuple[str, ...], list[_Word]] = {}
        lengths: dict[str, set[int]] = {}
        for group in attribute.groups:
            for entry in _words_of(group, attribute.wordings[group]):
                entries.setdefault(entry.words, []).append(entry)
                lengths.setdefault(entry.words[0], set()).add(len(entry.words))
        for alike in entries.values():
            alike.sort(key=lambda entry: entry.kind == "noun")
        vocabulary = _Vocabulary(entries, {word: sorted(all_lengths, reverse=True) for word, all_lengths in lengths.items()})
        object.__setattr__(attribute, "_vocabulary", vocabulary)
    return attribute.__dict__["_vocabulary"]


def _words_of(group: str, wordings: Wordings) -> Iterable[_Word]:
    def cut(text: str) -> tuple[str, ...]:
        return tuple(token.lower for token in tokens(text))

    adjectives = (*wordings.adjectives, *wordings.also_adjectives)
    predicates = tuple(f"who is {adjective}" for adjective in adjectives)
    for phrase in dict.fromkeys((*wordings.phrases, *wordings.also_phrases, *predicates)):
        for form in forms_of_phrase(phrase):
            yield _Word(cut(form), group, "phrase", "")
    for table in (wordings.nouns, wordings.also_nouns):
        for neutral, nouns in table.items():
            for noun in nouns:
                yield _Word(cut(noun), group, "noun", neutral)
                yield _Word(cut(plural(noun)), group, "noun", neutral)
    for adjective in adjectives:
        yield _Word(cut(adjective), group, "adjective", "")
    for adjective in wordings.person_adjectives:
        yield _Word(cut(adjective), group, "person adjective", "")
    for noun in wordings.compounds:
        yield _Word(cut(noun), group, "noun", "person")


def forms_of_phrase(phrase: str) -> list[str]:
    """A phrase in the singular as it is written, and as it is understood: plural, past, with "that"."""
    forms = [phrase]
    if match := re.match(r"who (is|looks|has|identifies|presents) (?:(an?) )?(.+)$", phrase):
        verb, determiner, rest = match.groups()
        many = {"is": "are", "has": "have"}.get(verb, verb.removesuffix("s"))
        forms.append(f"who {many} {plural(rest) if determiner and verb == 'is' else rest}")
        if verb == "is":
            forms += [f"{start} {phrase.removeprefix('who is ')}" for start in ("who was", "that is", "who's")]
            forms.append(forms[1].replace("who are", "who were"))
    return forms


def _mark(words: list[Token], i: int, entry: _Word, more: frozenset[str]) -> Mark | None:
    """The mark, where what stands around it allows: "black" needs a person to qualify, "king" no bed after it."""
    last = i + len(entry.words)
    following = words[last].lower if last < len(words) else ""
    if following in _NOT_AFTER.get(words[last - 1].lower, "").split():
        return None
    if entry.kind != "phrase" and singular(following) in ANIMALS:
        return None
    if entry.words[-1] in _GENDERS and following.isalpha() and following not in STOPS and not re.search(r"(?:ing|ed|ly|s)$", following):
        return Mark(i, last, entry.group, "adjective")  # whatever noun it is: "a female astrologer"
    if entry.kind == "noun":
        if person := qualified(words, last - 1, more):
            says_so = entry.neutral == "person" and _may_qualify(words[i:last], words[person])
            return Mark(i, last, entry.group, "adjective") if says_so else None
        return Mark(i, last, entry.group, "noun", entry.neutral)
    if entry.kind == "phrase" or _STRONG.search(entry.words[-1]):
        return Mark(i, last, entry.group, entry.kind)
    if _predicate(words, i, last):
        return Mark(i - 1, last, entry.group, "phrase")
    person = leads_to_person(words, last, more)
    if person is None or (entry.kind == "person adjective" and singular(words[person].lower) not in _PLAIN_PEOPLE):
        return None
    return Mark(i, last, entry.group, "adjective")


def _may_qualify(noun: list[Token], person: Token) -> bool:
    """A noun for an adult of a gender may; "senior engineer" and "child psychologist" say no age."""
    return noun[-1].lower in _QUALIFIERS and (not is_plural(noun[-1].text) or is_plural(person.text))


_PLAIN_PEOPLE = GENERIC | frozenset(["man", "woman", "gentleman", "lady", "guy", "gal", "male", "female", "citizen", "fellow"])
_QUALIFIERS = frozenset(
    ["man", "men", "woman", "women", "gentleman", "gentlemen", "lady", "ladies", "male", "males", "female", "females", "boy", "girl", "guy"]
)


def _predicate(words: list[Token], i: int, last: int) -> bool:
    """Whether an adjective is said of a person: "the doctor is old"."""
    if i < 2 or words[i - 1].lower not in ("is", "are", "was", "were", "looks", "look"):
        return False
    ends = last == len(words) or not words[last].is_word or words[last].lower in STOPS
    return ends and (is_person(words[i - 2].text) or words[i - 2].lower in ("he", "she", "they", "who"))


def _pronoun_or_title(words: list[Token], i: int) -> Mark | None:
    lower = words[i].lower
    if lower not in _PRONOUN_WORDS and lower not in TITLES:
        return None
    if lower in TITLES and i + 1 < len(words):
        dot = words[i + 1].text == "." and i + 2 < len(words)
        named = words[i + 1 + dot]
        if words[i].text[0].isupper() and named.text[0].isupper():
            return Mark(i, i + 1 + dot, TITLES[lower], "title")
    case = _case(words, i)
    if case is None:
        return None
    male, _, neutral = PRONOUNS[case]
    if i + 2 < len(words) and words[i + 1].lower in ("or", "/") and _case(words, i + 2):
        return Mark(i, i + 3, "", "pronoun", PRONOUNS[_case(words, i + 2) or case][2], _case(words, i + 2) or case)
    return Mark(i, i + 1, _GENDERS[lower != male], "pronoun", neutral, case)


def _case(words: list[Token], i: int) -> str | None:
    """The case of a gendered pronoun; "her" and "his" by what follows."""
    lower = words[i].lower
    for case in ("subject", "reflexive"):
        if lower in PRONOUNS[case][:2]:
            return case
    if lower in ("him", "hers"):
        return "object" if lower == "him" else "independent"
    if lower in ("his", "her"):
        return "possessive" if _noun_follows(words, i) else ("object" if lower == "her" else "independent")
    return None


def _noun_follows(words: list[Token], i: int) -> bool:
    """Whether "her" owns what follows: not before a preposition, a determiner, an adverb of place, the end, or a participle alone."""
    if i + 1 == len(words) or not words[i + 1].is_word:
        return False
    lower = words[i + 1].lower
    if lower in _NOUN_LESS or (lower in STOPS and lower not in _OWNABLE):
        return False
    if lower.endswith("ing") and lower not in _OWNABLE and words[i].lower == "her":
        after = words[i + 2] if i + 2 < len(words) else None
        return after is not None and after.is_word and after.lower not in STOPS  # "her running shoes", "saw her running"
    return True


_OWNABLE = frozenset(  # words that look like verbs or quantities, and can be owned
    [
        "photo",
        "picture",
        "image",
        "portrait",
        "photograph",
        "painting",
        "sketch",
        "drawing",
        "selfie",
        "face",
        "one",
        "two",
        "three",
        "four",
        "five",
        "six",
        "seven",
        "eight",
        "nine",
        "ten",
        "wedding",
        "clothing",
        "swing",
        "building",
        "ceiling",
        "thing",
        "evening",
        "morning",
        "king",
        "string",
        "spring",
        "offspring",
        "belongings",
        "surroundings",
        "earring",
        "ring",
        "wing",
        "sibling",
    ]
)
