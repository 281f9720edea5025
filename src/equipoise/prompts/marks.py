"""Where a text states a group: the words, which group, and what they are (adjective, noun, phrase,
pronoun, title).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from equipoise.prompts.attribute import Attribute, Wordings
from equipoise.prompts.english import (
    Token,
    find_slot,
    is_person,
    is_plural,
    leads_to_person,
    plural,
    qualified,
    singular,
    tokens,
)
from equipoise.prompts.lexicon import (
    AMBIGUOUS,
    ANIMALS,
    BARE_VERBS,
    DEGREES,
    GIVING,
    LETTING,
    LIFE_STAGES,
    MEASURES,
    NO_MAN,
    NOUN_LESS,
    OWNABLE,
    PERSON_NOUNS,
    PLAIN,
    QUALIFIERS,
    STOPS,
)


class Mark(NamedTuple):
    """Words [first, last) that state a group.

    neutral: the noun or pronoun that would state none; case: of a pronoun.

    group is "" where no group can be told: "he or she", "a 5 year old".
    """

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
_MEN, _WOMEN = frozenset(["man", "male"]), frozenset(["woman", "female"])
_OWNERS = frozenset(["his", "her", "their", "my", "our", "your", "its", "'s"])
_BY_ENDING = re.compile(r"(.{2,}?)(?:(woman|girl|lady)|man|boy)$")
_PRONOUN_WORDS = frozenset(word for forms in PRONOUNS.values() for word in forms[:2])

_STRONG = re.compile(
    r"-(?:skinned|complexioned|toned|presenting|identifying|looking|faced|haired|descendant)$"
)


def find(text: str, attribute: Attribute, more: frozenset[str] = frozenset()) -> list[Mark]:
    """Every statement of a group of a plain attribute, left to right, the longest where several
    begin. ``more``: further person nouns.
    """
    return find_in(tokens(text), attribute, more)


def find_in(
    words: list[Token], attribute: Attribute, more: frozenset[str] = frozenset()
) -> list[Mark]:
    """As ``find``, for a text that is already cut into words."""
    vocabulary = _vocabulary(attribute)
    at = [i for i, word in enumerate(words) if word.lower not in DEGREES]  # "with very dark skin"
    lower = [words[i].lower for i in at]
    marks: list[Mark] = []
    end = 0
    for k, i in enumerate(at):
        if i < end or words[i].fixed or _negated(words, i):
            continue
        mark = _of_gender(words, i, vocabulary.genders) if vocabulary.genders else None
        mark = mark or (_years(words, i) if "old" in vocabulary.lengths else None)
        for length in vocabulary.lengths.get(lower[k], ()) if mark is None else ():
            entries = (
                vocabulary.entries.get(tuple(lower[k : k + length]), ())
                if k + length <= len(at)
                else ()
            )
            candidates = (_mark(words, i, at[k + length - 1] + 1, entry, more) for entry in entries)
            mark = mark or next(filter(None, candidates), None)
        mark = mark or (_by_rule(words, i, vocabulary) if vocabulary.genders else None)
        if mark and mark.first >= end:
            marks.append(mark)
            end = mark.last
    return marks


def _negated(words: list[Token], i: int) -> bool:
    """ "who is not male", "isn't a man"."""
    before = [word.lower for word in words[max(i - 3, 0) : i] if word.lower not in ("a", "an")]
    return before[-1:] in (["not"], ["non"]) or before[-2:] == ["'", "t"]


def names_person(text: str, attribute: Attribute, more: frozenset[str] = frozenset()) -> bool:
    """Whether a text is about a person, as far as the word lists reach."""
    words = tokens(text)
    somebody = any(
        word.lower in ("someone", "somebody", "they", "we", "you", "i") for word in words
    )
    return (
        somebody
        or find_slot(words, more) is not None
        or any(find_in(words, part, more) for part in attribute.parts)
    )


def stated(marks: Iterable[Mark], attribute: Attribute) -> tuple[str, ...]:
    """The groups that marks name, in the attribute's order."""
    named = {mark.group for mark in marks}
    return tuple(group for group in attribute.groups if group in named)


def explicit_groups(text: str, attribute: Attribute) -> tuple[str, ...]:
    """The groups that a text asks for by name, () where it asks for none.

    Of an intersection, those that fit every part that is named.
    """
    if not isinstance(text, str) or not isinstance(attribute, Attribute):
        from equipoise.errors import InputError

        raise InputError(
            f"explicit_groups takes a text and an Attribute, and {type(text).__name__},"
            f" {type(attribute).__name__} were given; eq.Attribute.load('gender') reads one by name"
            " or from a file"
        )
    named = [set(stated(find(text, part), part)) for part in attribute.parts]
    if not any(named):
        return ()
    splits = ((group, attribute.split(group)) for group in attribute.groups)
    return tuple(
        group
        for group, parts in splits
        if all(not asked or one in asked for asked, one in zip(named, parts, strict=True))
    )


class _Vocabulary(NamedTuple):
    entries: dict[
        tuple[str, ...], list[_Word]
    ]  # what a run of words may state, adjectives before nouns
    lengths: dict[
        str, list[int]
    ]  # first word -> how long the runs that begin with it are, the longest first
    genders: tuple[str, ...]  # the groups that "he" and "she" state, or ()


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
        said = {
            group: set(attribute.wordings[group].words()) | {group} for group in attribute.groups
        }
        he, she = (
            [group for group in attribute.groups if words & said[group]] for words in (_MEN, _WOMEN)
        )
        genders = (he[0], she[0]) if len(he) == len(she) == 1 and he != she else ()
        longest_first = {
            word: sorted(all_lengths, reverse=True) for word, all_lengths in lengths.items()
        }
        vocabulary = _Vocabulary(entries, longest_first, genders)
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
    """A phrase in the singular as it is written, and as it is understood: plural, past, with
    "that".
    """
    forms = [phrase]
    if match := re.match(r"who (is|looks|has|identifies|presents) (?:(an?) )?(.+)$", phrase):
        verb, determiner, rest = match.groups()
        many = {"is": "are", "has": "have"}.get(verb, verb.removesuffix("s"))
        forms.append(f"who {many} {plural(rest) if determiner and verb == 'is' else rest}")
        if verb == "is":
            forms += [
                f"{start} {phrase.removeprefix('who is ')}"
                for start in ("who was", "that is", "who's")
            ]
            forms.append(forms[1].replace("who are", "who were"))
    return forms


def _mark(words: list[Token], i: int, last: int, entry: _Word, more: frozenset[str]) -> Mark | None:
    """The mark, where what stands around it allows: "black" needs a person to qualify."""
    following = words[last].lower if last < len(words) else ""
    if any(word.fixed for word in words[i:last]):
        return None
    if entry.kind != "phrase" and singular(following) in ANIMALS:
        return None
    if (
        entry.words[-1] in _GENDERS
        and following.isalpha()
        and following not in STOPS
        and not re.search(r"(?:ing|ed|ly|s)$", following)
    ):
        return Mark(i, last, entry.group, "adjective")  # whatever noun it is: "a female astrologer"
    if entry.kind == "noun":
        if person := qualified(words, last - 1, more):
            says_so = entry.neutral == "person" and _may_qualify(words[i:last], words[person])
            return Mark(i, last, entry.group, "adjective") if says_so else None
        if entry.words[-1] in LIFE_STAGES and i and words[i - 1].lower in _OWNERS:
            return None  # "her baby" says whose it is
        return Mark(i, last, entry.group, "noun", entry.neutral)
    if entry.kind == "phrase" or _STRONG.search(entry.words[-1]):
        return Mark(i, last, entry.group, entry.kind)
    if _predicate(words, i, last):
        return Mark(i - 1, last, entry.group, "phrase")
    race = (
        words[i].text in ("Black", "White")
        and i > 0
        and last < len(words)
        and words[last].text == following
    )
    person = leads_to_person(words, last, more, strict=entry.words[-1] in AMBIGUOUS and not race)
    if person is None or (
        entry.kind == "person adjective" and singular(words[person].lower) not in PLAIN
    ):
        return None
    return Mark(i - (i > 0 and words[i - 1].lower in DEGREES), last, entry.group, "adjective")


def _years(words: list[Token], i: int) -> Mark | None:
    """ "5 year old" says an age that is neither young nor old, and before a person it is an
    adjective.
    """
    if not words[i].text.isdigit() or [word.lower in MEASURES for word in words[i + 1 : i + 2]] != [
        True
    ]:
        return None
    if i + 2 == len(words) or words[i + 2].lower != "old":
        return None
    person = leads_to_person(words, i + 3)
    return (
        Mark(i, i + 3, "", "noun", "person") if person is None else Mark(i, i + 3, "", "adjective")
    )


def _by_rule(words: list[Token], i: int, vocabulary: _Vocabulary) -> Mark | None:
    """Words that say a gender by how they are made: fisherwoman, paperboy, priestess, stepmother,
    mother-in-law.
    """
    word = words[i].lower
    if word in ("mens", "womens"):
        return Mark(i, i + 1, vocabulary.genders[word == "womens"], "adjective")
    one = singular(word)
    prefix, suffix = (
        "step" if one.startswith("step") else "",
        "-in-law" if word.endswith("-in-law") else "",
    )
    if prefix or suffix:
        kin = singular(one.removeprefix(prefix) if prefix else word.removesuffix(suffix))
        known = next(
            (entry for entry in vocabulary.entries.get((kin,), ()) if entry.kind == "noun"), None
        )
        return (
            Mark(i, i + 1, known.group, "noun", f"{prefix}{known.neutral}{suffix}")
            if known
            else None
        )
    if one in NO_MAN:
        return None
    if made := _BY_ENDING.match(one):
        neutral = f"{made.group(1)}person" if one.endswith("man") else "person"
        return Mark(i, i + 1, vocabulary.genders[made.group(2) is not None], "noun", neutral)
    if one.endswith("ess"):
        for stem in (one[:-3], one[:-3] + "er", one[:-4] + "or", one[:-4] + "er"):
            if stem in PERSON_NOUNS:
                return Mark(i, i + 1, vocabulary.genders[1], "noun", stem)
    return None


def _may_qualify(noun: list[Token], person: Token) -> bool:
    """Say whether a noun may: "senior engineer" and "child psychologist" state no age."""
    return noun[-1].lower in QUALIFIERS and (not is_plural(noun[-1].text) or is_plural(person.text))


def _predicate(words: list[Token], i: int, last: int) -> bool:
    """Whether an adjective is said of a person: "the doctor is old"."""
    if i < 2 or words[i - 1].lower not in ("is", "are", "was", "were", "looks", "look"):
        return False
    return _ends(words, last) and (
        is_person(words[i - 2].text) or words[i - 2].lower in ("he", "she", "they", "who")
    )


def _of_gender(words: list[Token], i: int, genders: tuple[str, ...]) -> Mark | None:
    """The mark of a pronoun or a title."""
    lower = words[i].lower
    if [word.lower for word in words[i : i + 3]] == ["s", "/", "he"]:
        return Mark(i, i + 3, "", "pronoun", "they", "subject")
    if lower not in _PRONOUN_WORDS and lower not in TITLES:
        return None
    if (
        lower in TITLES
        and i + 1 < len(words)
        and words[i].text[0].isupper()
        and not (i and words[i - 1].lower in ("a", "an"))
    ):
        last = i + 1 + (words[i + 1].text == "." and i + 2 < len(words))
        if (
            words[last].lower in ("and", "&")
            and last + 1 < len(words)
            and words[last + 1].lower in TITLES
        ):
            last += 1  # "Mr. and Mrs. Smith"
        if words[last].text[0].isupper():
            return Mark(i, last, genders[TITLES[lower] == "female"], "title")
    case = _case(words, i)
    if case is None:
        return None
    male, _, neutral = PRONOUNS[case]
    if i + 2 < len(words) and words[i + 1].lower in ("or", "/") and _case(words, i + 2):
        return Mark(
            i,
            i + 3,
            "",
            "pronoun",
            PRONOUNS[_case(words, i + 2) or case][2],
            _case(words, i + 2) or case,
        )
    return Mark(i, i + 1, genders[lower != male], "pronoun", neutral, case)


def _case(words: list[Token], i: int) -> str | None:
    """The case of a gendered pronoun; "her" and "his" by what follows."""
    lower = words[i].lower
    for case in ("subject", "reflexive"):
        if lower in PRONOUNS[case][:2]:
            return case
    if lower in ("him", "hers"):
        return "object" if lower == "him" else "independent"
    if lower in ("his", "her"):
        return (
            "possessive"
            if _noun_follows(words, i)
            else ("object" if lower == "her" else "independent")
        )
    return None


def _noun_follows(words: list[Token], i: int) -> bool:
    """Whether "her" owns what follows: not before a preposition, a determiner, an adverb of place,
    the end, or a participle alone.
    """
    if i + 1 == len(words) or not words[i + 1].is_word:
        return False
    lower, before = words[i + 1].lower, words[i - 1].lower if i else ""
    if words[i].lower == "her" and (
        _ends(words, i + 2) and is_plural(lower)
        if before in GIVING
        else before in LETTING and lower in BARE_VERBS
    ):
        return False
    if lower in NOUN_LESS or (lower in STOPS and lower not in OWNABLE):
        return False
    if lower.endswith("ing") and lower not in OWNABLE and words[i].lower == "her":
        after = words[i + 2] if i + 2 < len(words) else None
        # "her running shoes", "saw her running"
        return after is not None and after.is_word and after.lower not in STOPS
    return True


def _ends(words: list[Token], i: int) -> bool:
    """Whether a clause ends before the i-th word."""
    return i >= len(words) or not words[i].is_word or words[i].lower in STOPS
