"""Find where a text states a group.

Each mark says which words, which group, and what they are: an adjective, a noun, a phrase, a
pronoun or a title.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from equipoise.errors import InputError
from equipoise.prompts._attribute import Attribute, Groups, Wordings
from equipoise.prompts._english import (
    NO_NOUNS,
    Nouns,
    Token,
    Words,
    find_slot,
    is_person,
    is_plural,
    leads_to_person,
    lower_at,
    plural,
    qualified,
    singular,
    tokens,
)
from equipoise.prompts._lexicon import (
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
    """The words [first, last) state a group.

    kind is "adjective", "noun", "phrase", "pronoun" or "title". neutral is the noun or pronoun
    that would state no group, and case is that of a pronoun. group is "" where no group can be
    told: "he or she", "a 5 year old".
    """

    first: int
    last: int
    group: str
    kind: str
    neutral: str = ""
    case: str = ""


Marks = list[Mark]


class Pronoun(NamedTuple):
    """The three forms of a pronoun in one case."""

    male: str
    female: str
    neutral: str


PRONOUNS = {
    "subject": Pronoun("he", "she", "they"),
    "object": Pronoun("him", "her", "them"),
    "possessive": Pronoun("his", "her", "their"),
    "independent": Pronoun("his", "hers", "theirs"),
    "reflexive": Pronoun("himself", "herself", "themself"),
}
_CASES = {  # of "his" and "her" where they own nothing that follows
    "he": "subject",
    "she": "subject",
    "him": "object",
    "her": "object",
    "his": "independent",
    "hers": "independent",
    "himself": "reflexive",
    "herself": "reflexive",
}
TITLES = {"mr": "male", "mrs": "female", "ms": "female", "miss": "female"}
_MEN = frozenset(["man", "male"])
_WOMEN = frozenset(["woman", "female"])
_SOMEBODY = frozenset(["someone", "somebody", "they", "we", "you", "i"])
_OWNERS = frozenset(["his", "her", "their", "my", "our", "your", "its", "'s"])
_BE_OR_LOOK = frozenset(["is", "are", "was", "were", "looks", "look"])
_BY_ENDING = re.compile(r"(.{2,}?)(?:(woman|girl|lady)|man|boy)$")
_NOT_A_NOUN = re.compile(r"(?:ing|ed|ly|s)$")
_CLAUSE = re.compile(r"who (is|looks|has|identifies|presents) (?:(an?) )?(.+)$")
_STRONG = re.compile(
    r"-(?:skinned|complexioned|toned|presenting|identifying|looking|faced|haired|descendant)$"
)


# --- What is asked of a text ------------------------------------------------------------


def explicit_groups(text: str, attribute: Attribute) -> Groups:
    """Return the groups that a text asks for by name, () where it asks for none.

    Of an intersection, return those that fit every part that is named.
    """
    if not isinstance(text, str) or not isinstance(attribute, Attribute):
        raise InputError(
            f"explicit_groups takes a text and an Attribute, and {type(text).__name__},"
            f" {type(attribute).__name__} were given; eq.Attribute.load('gender') reads one by name"
            " or from a file"
        )
    named = [_named(text, part) for part in attribute.parts]
    if not any(named):
        return ()
    return tuple(group for group in attribute.groups if _fits(attribute.split(group), named))


def _named(text: str, part: Attribute) -> Groups:
    return stated(find(text, part), part)


def _fits(groups: Groups, named: list[Groups]) -> bool:
    """Return whether each part's group is named, or no group of that part is."""
    for group, groups_named in zip(groups, named, strict=True):
        if groups_named and group not in groups_named:
            return False
    return True


def names_person(text: str, attribute: Attribute, more: Nouns = NO_NOUNS) -> bool:
    """Return whether a text is about a person, as far as the word lists reach."""
    words = tokens(text)
    if any(word.lower in _SOMEBODY for word in words):
        return True
    if find_slot(words, more) is not None:
        return True
    return any(find_in(words, part, more) for part in attribute.parts)


def stated(marks: Iterable[Mark], attribute: Attribute) -> Groups:
    """Return the groups that marks name, in the attribute's order."""
    named = {mark.group for mark in marks}
    return tuple(group for group in attribute.groups if group in named)


def find(text: str, attribute: Attribute, more: Nouns = NO_NOUNS) -> Marks:
    """Return every statement of a group of a plain attribute, from left to right.

    Where several begin at a word, the longest counts. more: further nouns that name a person.
    """
    return find_in(tokens(text), attribute, more)


def find_in(words: Words, attribute: Attribute, more: Nouns = NO_NOUNS) -> list[Mark]:
    """Return what ``find`` does, for a text that is already cut into words."""
    vocabulary = _vocabulary(attribute)
    # Degrees do not count: "with very dark skin" is "with dark skin".
    places = [i for i, word in enumerate(words) if word.lower not in DEGREES]
    marks: list[Mark] = []
    end = 0
    for k, i in enumerate(places):
        if i < end or words[i].fixed or _is_negated(words, i):
            continue
        mark = _mark_at(words, places[k:], vocabulary, more)
        if mark and mark.first >= end:
            marks.append(mark)
            end = mark.last
    return marks


def _mark_at(words: Words, places: list[int], vocabulary: _Vocabulary, more: Nouns) -> Mark | None:
    """Return the mark that begins at the first of the places, or None."""
    i = places[0]
    return (
        _pronoun_or_title(words, i, vocabulary)
        or _age_in_years(words, i, vocabulary)
        or _listed_wording(words, places, vocabulary, more)
        or _gender_by_form(words, i, vocabulary)
    )


def _is_negated(words: Words, i: int) -> bool:
    """Return whether a word is denied: "who is not male", "isn't a man"."""
    start = max(i - 3, 0)
    before = [word.lower for word in words[start:i]]
    before = [word for word in before if word not in ("a", "an")]
    if before[-2:] == ["'", "t"]:
        return True
    return before[-1:] in (["not"], ["non"])


# --- The words of an attribute ----------------------------------------------------------


class _Wording(NamedTuple):
    """Words that state a group."""

    words: tuple[str, ...]
    group: str
    kind: str
    neutral: str = ""


class _Genders(NamedTuple):
    """The groups that "he" and "she" state."""

    male: str
    female: str


_Entries = dict[tuple[str, ...], list[_Wording]]
"""Wordings by their words; of those with the same words, adjectives come before nouns."""


class _Vocabulary(NamedTuple):
    """Everything that states a group of an attribute."""

    entries: _Entries
    lengths: dict[str, list[int]]  # by the first word, the longest first
    genders: _Genders | None

    @property
    def knows_age(self) -> bool:
        return "old" in self.lengths


def _vocabulary(attribute: Attribute) -> _Vocabulary:
    """Return the attribute's vocabulary, which is made once and kept on it."""
    if "_vocabulary" not in attribute.__dict__:
        object.__setattr__(attribute, "_vocabulary", _make_vocabulary(attribute))
    return attribute.__dict__["_vocabulary"]


def _make_vocabulary(attribute: Attribute) -> _Vocabulary:
    entries: _Entries = {}
    lengths: dict[str, set[int]] = {}
    for group in attribute.groups:
        for entry in _wordings_of(group, attribute.wordings[group]):
            words = entry.words
            entries.setdefault(words, []).append(entry)
            lengths.setdefault(words[0], set()).add(len(words))
    for alike in entries.values():
        alike.sort(key=lambda entry: entry.kind == "noun")
    longest_first = {word: sorted(found, reverse=True) for word, found in lengths.items()}
    return _Vocabulary(entries, longest_first, _genders_of(attribute))


def _genders_of(attribute: Attribute) -> _Genders | None:
    """Return the groups for men and for women, if there is just one of each."""
    men, women = [], []
    for group in attribute.groups:
        said = {group, *attribute.wordings[group].words()}
        if said & _MEN:
            men.append(group)
        if said & _WOMEN:
            women.append(group)
    if len(men) != 1 or len(women) != 1:
        return None
    if men == women:
        return None
    return _Genders(men[0], women[0])


def _wordings_of(group: str, wordings: Wordings) -> Iterator[_Wording]:
    """Yield everything that states a group, in the forms in which it may be met."""
    adjectives = (*wordings.adjectives, *wordings.also_adjectives)
    predicates = [f"who is {adjective}" for adjective in adjectives]
    phrases = (*wordings.phrases, *wordings.also_phrases, *predicates)
    for phrase in dict.fromkeys(phrases):
        for form in forms_of_phrase(phrase):
            yield _Wording(_cut(form), group, "phrase")
    nouns_by_neutral = (*wordings.nouns.items(), *wordings.also_nouns.items())
    for neutral, nouns in nouns_by_neutral:
        for noun in nouns:
            yield _Wording(_cut(noun), group, "noun", neutral)
            yield _Wording(_cut(plural(noun)), group, "noun", neutral)
    for adjective in adjectives:
        yield _Wording(_cut(adjective), group, "adjective")
    for adjective in wordings.person_adjectives:
        yield _Wording(_cut(adjective), group, "person adjective")
    for noun in wordings.compounds:
        yield _Wording(_cut(noun), group, "noun", "person")


def _cut(text: str) -> tuple[str, ...]:
    return tuple(token.lower for token in tokens(text))


def forms_of_phrase(phrase: str) -> list[str]:
    """Return a phrase as it is written, and as it is understood: plural, past, with "that"."""
    clause = _CLAUSE.match(phrase)
    if not clause:
        return [phrase]
    many = plural_phrase(phrase)
    forms = [phrase, many]
    if clause.group(1) == "is":
        state = phrase.removeprefix("who is ")
        forms += [f"who was {state}", f"that is {state}", f"who's {state}"]
        forms.append(many.replace("who are", "who were"))
    return forms


def plural_phrase(phrase: str) -> str:
    """Return a phrase as it follows a plural: "who is a man" becomes "who are men"."""
    clause = _CLAUSE.match(phrase)
    if not clause:
        return phrase
    verb, determiner, rest = clause.groups()
    if determiner and verb == "is":
        rest = plural(rest)
    verbs = {"is": "are", "has": "have"}
    return f"who {verbs.get(verb, verb.removesuffix('s'))} {rest}"


# --- Wordings that an attribute lists ---------------------------------------------------


def _listed_wording(
    words: Words, places: list[int], vocabulary: _Vocabulary, more: Nouns
) -> Mark | None:
    """Return the mark of the longest listed wording that begins at the first of the places."""
    first_word = words[places[0]].lower
    for length in vocabulary.lengths.get(first_word, ()):
        run = places[:length]
        first, last = run[0], run[-1] + 1
        said = tuple(words[i].lower for i in run)
        for entry in vocabulary.entries.get(said, ()):
            mark = _mark(words, first, last, entry, more)
            if mark:
                return mark
    return None


def _mark(words: Words, first: int, last: int, entry: _Wording, more: Nouns) -> Mark | None:
    """Return the mark, where what stands around it allows: "black" needs a person to qualify."""
    if any(word.fixed for word in words[first:last]):
        return None
    following = lower_at(words, last)
    if entry.kind != "phrase" and singular(following) in ANIMALS:
        return None
    final = entry.words[-1]
    if final in ("male", "female") and _may_be_noun(following):
        return Mark(first, last, entry.group, "adjective")  # "a female astrologer"
    if entry.kind == "noun":
        return _noun_mark(words, first, last, entry, more)
    if entry.kind == "phrase" or _STRONG.search(final):
        return Mark(first, last, entry.group, entry.kind)
    return _adjective_mark(words, first, last, entry, more)


def _may_be_noun(word: str) -> bool:
    """Return whether a word, which need not be known, looks like a noun in the singular."""
    if not word.isalpha() or word in STOPS:
        return False
    return not _NOT_A_NOUN.search(word)


def _noun_mark(words: Words, first: int, last: int, entry: _Wording, more: Nouns) -> Mark | None:
    """Return the mark of a noun, or of a noun that qualifies another as an adjective does."""
    noun = last - 1
    person = qualified(words, noun, more)
    if person is not None:
        if entry.neutral == "person" and _may_qualify(words[noun], words[person]):
            return Mark(first, last, entry.group, "adjective")
        return None
    before = lower_at(words, first - 1)
    if entry.words[-1] in LIFE_STAGES and before in _OWNERS:
        return None  # "her baby" says whose it is
    return Mark(first, last, entry.group, "noun", entry.neutral)


def _may_qualify(noun: Token, person: Token) -> bool:
    """Return whether a noun may qualify another: a "child psychologist" need not be a child."""
    if noun.lower not in QUALIFIERS:
        return False
    return is_plural(person.text) or not is_plural(noun.text)


def _adjective_mark(
    words: Words, first: int, last: int, entry: _Wording, more: Nouns
) -> Mark | None:
    """Return the mark of an adjective that is said of a person or stands before one."""
    if _is_predicate(words, first, last):
        return Mark(first - 1, last, entry.group, "phrase")
    is_ambiguous = entry.words[-1] in AMBIGUOUS
    strict = is_ambiguous and not _is_race(words, first, last)
    person = leads_to_person(words, last, more, strict=strict)
    if person is None:
        return None
    noun = singular(words[person].lower)
    if entry.kind == "person adjective" and noun not in PLAIN:
        return None
    if lower_at(words, first - 1) in DEGREES:
        first -= 1
    return Mark(first, last, entry.group, "adjective")


def _is_predicate(words: Words, first: int, last: int) -> bool:
    """Return whether an adjective is said of a person: "the doctor is old"."""
    verb = lower_at(words, first - 1)
    if first < 2 or verb not in _BE_OR_LOOK or not _ends_clause(words, last):
        return False
    subject = words[first - 2]
    if subject.lower in ("he", "she", "they", "who"):
        return True
    return is_person(subject.text)


def _is_race(words: Words, first: int, last: int) -> bool:
    """Return whether "Black" or "White" has a capital that its place in a sentence does not ask."""
    if words[first].text not in ("Black", "White"):
        return False
    if first == 0 or last == len(words):
        return False
    following = words[last]
    return following.text == following.lower


# --- Years, pronouns, titles, and words that say a gender by their form -----------------


def _age_in_years(words: Words, i: int, vocabulary: _Vocabulary) -> Mark | None:
    """Return the mark of "5 year old", which is neither young nor old.

    Before a person it is an adjective.
    """
    if not vocabulary.knows_age or not words[i].text.isdigit():
        return None
    if lower_at(words, i + 1) not in MEASURES:
        return None
    if lower_at(words, i + 2) != "old":
        return None
    last = i + 3
    if leads_to_person(words, last) is None:
        return Mark(i, last, "", "noun", "person")
    return Mark(i, last, "", "adjective")


def _pronoun_or_title(words: Words, i: int, vocabulary: _Vocabulary) -> Mark | None:
    """Return the mark of a pronoun or a title that states a gender."""
    genders = vocabulary.genders
    if genders is None:
        return None
    lower = words[i].lower
    if lower == "s":
        return _s_he(words, i)
    if lower in TITLES:
        return _title(words, i, genders)
    if lower in _CASES:
        return _pronoun(words, i, genders)
    return None


def _s_he(words: Words, i: int) -> Mark | None:
    """Return the mark of "s/he"."""
    slash = lower_at(words, i + 1)
    he = lower_at(words, i + 2)
    if slash == "/" and he == "he":
        return Mark(i, i + 3, "", "pronoun", "they", "subject")
    return None


def _title(words: Words, i: int, genders: _Genders) -> Mark | None:
    """Return the mark of a title before a name: "Mr. Smith", "Mr. and Mrs. Smith"."""
    title = words[i]
    name = i + 1
    if name == len(words) or not _has_capital(title):
        return None
    if lower_at(words, i - 1) in ("a", "an"):
        return None
    if words[name].text == "." and name + 1 < len(words):
        name += 1
    after = lower_at(words, name + 1)
    if words[name].lower in ("and", "&") and after in TITLES:
        name += 1
    if not _has_capital(words[name]):
        return None
    gender = TITLES[title.lower]
    group = genders.female if gender == "female" else genders.male
    return Mark(i, name, group, "title")


def _has_capital(word: Token) -> bool:
    return word.text[0].isupper()


def _pronoun(words: Words, i: int, genders: _Genders) -> Mark:
    """Return the mark of a pronoun; "he or she" states no group."""
    link = lower_at(words, i + 1)
    other = i + 2
    if link in ("or", "/") and lower_at(words, other) in _CASES:
        case = _case(words, other)
        neutral = PRONOUNS[case].neutral
        return Mark(i, other + 1, "", "pronoun", neutral, case)
    case = _case(words, i)
    pronoun = PRONOUNS[case]
    group = genders.female
    if words[i].lower == pronoun.male:
        group = genders.male
    return Mark(i, i + 1, group, "pronoun", pronoun.neutral, case)


def _case(words: Words, i: int) -> str:
    """Return the case of a gendered pronoun; that of "her" and "his" depends on what follows."""
    lower = words[i].lower
    if lower in ("his", "her") and _owns_next(words, i):
        return "possessive"
    return _CASES[lower]


def _owns_next(words: Words, i: int) -> bool:
    """Return whether "her" or "his" owns what follows.

    It does not before a preposition, a determiner, an adverb of place, the end, or a participle
    that stands alone.
    """
    after = i + 1
    if after == len(words) or not words[after].is_word:
        return False
    following = words[after].lower
    if following in NOUN_LESS:
        return False
    if following not in OWNABLE and following in STOPS:
        return False
    if words[i].lower == "his":
        return True
    return not _is_object(words, i)


def _is_object(words: Words, i: int) -> bool:
    """Return whether "her" is whom something happens to: "gave her flowers", "saw her running"."""
    before = lower_at(words, i - 1)
    following = words[i + 1].lower
    alone = _ends_clause(words, i + 2)
    if before in GIVING and alone and is_plural(following):
        return True
    if before in LETTING and following in BARE_VERBS:
        return True
    # "her running shoes" are hers.
    return following.endswith("ing") and following not in OWNABLE and alone


def _ends_clause(words: Words, i: int) -> bool:
    """Return whether a clause ends before the i-th word."""
    if i >= len(words):
        return True
    word = words[i]
    return not word.is_word or word.lower in STOPS


def _gender_by_form(words: Words, i: int, vocabulary: _Vocabulary) -> Mark | None:
    """Return the mark of a word that says a gender by how it is made.

    Such are fisherwoman, paperboy, priestess, stepmother and mother-in-law.
    """
    genders = vocabulary.genders
    if genders is None:
        return None
    word = words[i].lower
    if word == "mens":
        return Mark(i, i + 1, genders.male, "adjective")
    if word == "womens":
        return Mark(i, i + 1, genders.female, "adjective")
    one = singular(word)
    if one.startswith("step") or word.endswith("-in-law"):
        return _kin_by_marriage(word, i, vocabulary)
    if one in NO_MAN:
        return None
    return _man_or_woman(one, i, genders) or _feminine(one, i, genders)


def _kin_by_marriage(word: str, i: int, vocabulary: _Vocabulary) -> Mark | None:
    """Return the mark of a stepmother or a mother-in-law."""
    prefix = suffix = ""
    kin = word
    if word.endswith("-in-law"):
        suffix = "-in-law"
        kin = word.removesuffix(suffix)
    one = singular(word)
    if one.startswith("step"):
        prefix = "step"
        kin = one.removeprefix(prefix)
    for entry in vocabulary.entries.get((singular(kin),), ()):
        if entry.kind == "noun":
            neutral = f"{prefix}{entry.neutral}{suffix}"
            return Mark(i, i + 1, entry.group, "noun", neutral)
    return None


def _man_or_woman(noun: str, i: int, genders: _Genders) -> Mark | None:
    """Return the mark of a noun that ends in man, boy, woman, girl or lady."""
    made = _BY_ENDING.match(noun)
    if not made:
        return None
    neutral = "person"
    if noun.endswith("man"):
        neutral = f"{made.group(1)}person"
    group = genders.male
    if made.group(2):
        group = genders.female
    return Mark(i, i + 1, group, "noun", neutral)


def _feminine(noun: str, i: int, genders: _Genders) -> Mark | None:
    """Return the mark of a noun in -ess whose stem is a known person: priestess, actress."""
    if not noun.endswith("ess"):
        return None
    stem = noun.removesuffix("ess")
    shorter = stem[:-1]
    for person in (stem, f"{stem}er", f"{shorter}or", f"{shorter}er"):
        if person in PERSON_NOUNS:
            return Mark(i, i + 1, genders.female, "noun", person)
    return None
