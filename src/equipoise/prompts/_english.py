"""Read and write the little English that prompts need.

Words and where they stand, "a" or "an", plurals, and the phrase around a noun that names a person.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from equipoise.prompts._lexicon import (
    ADJUNCTS,
    ANIMALS,
    BEFORE,
    CROSSED,
    FIXED,
    FOLK,
    IRREGULAR,
    MODIFIERS,
    NO_MAN,
    PERSON_NOUNS,
    STOPS,
    VERB_NOUNS,
)

_TOKEN = re.compile(r"[^\W_]+(?:-[^\W_]+)*|['’](?:s|re|ve|d|ll)\b|[^\w\s]|_", re.UNICODE)
_LONGEST_PHRASE = 8  # words between an adjective and its noun
_OBJECTS = frozenset(["a", "an", "the", "them", "it", "him", "her", "his", "their", "some"])
_PERSON_ENDINGS = (
    "ologist",
    "ographer",
    "ician",
    "man",
    "boy",
    "girl",
    "lady",
    "person",
    "-in-law",
)
_NOT_A_NOUN = re.compile(r"(?:ing|ed|s|ly|side|alone|next|close)$")
_ADJECTIVE_ENDING = re.compile(r"\w{3}(?:ful|ous|less|able|ed)$")
_PLURALS_OF_THINGS = ("ss", "sports", "news", "arts")  # not verbs, though they end in s


class Token(NamedTuple):
    """A word or a punctuation mark, and where it stands in the text."""

    text: str
    start: int
    end: int
    lower: str
    fixed: bool = False  # part of a fixed phrase ("black tie"), in which no word is about a person

    @property
    def is_word(self) -> bool:
        """Return whether this is a word and not a punctuation mark."""
        return self.text[0].isalnum()


Words = list[Token]
"""A text, cut into words and punctuation marks."""

Nouns = frozenset[str]
"""Nouns that name a person beyond those of the lexicon, in lower case."""

NO_NOUNS: Nouns = frozenset()


def tokens(text: str) -> Words:
    """Return the words (hyphens inside), possessive endings and punctuation marks of a text."""
    words = [_token(match) for match in _TOKEN.finditer(text)]
    lower = [word.lower for word in words]
    for first, word in enumerate(lower):
        for phrase in FIXED.get(word, ()):
            last = first + len(phrase)
            if _is_phrase(lower[first:last], phrase):
                held = words[first:last]
                words[first:last] = [token._replace(fixed=True) for token in held]
    return words


def lower_at(words: Words, i: int) -> str:
    """Return the i-th word in lower case, "" where there is none."""
    if 0 <= i < len(words):
        return words[i].lower
    return ""


def _token(match: re.Match[str]) -> Token:
    text = match.group()
    lower = text.lower().replace("’", "'")
    return Token(text, match.start(), match.end(), lower)


def _is_phrase(said: list[str], phrase: tuple[str, ...]) -> bool:
    """Return whether words are a phrase; its last word may be in the plural."""
    *start, last = said
    in_singular = (*start, singular(last))
    return tuple(said) == phrase or in_singular == phrase


# --- a or an ----------------------------------------------------------------------------

_ARTICLE = re.compile(r"\b([Aa]n?)(\s+[\"'“‘(]?)([^\W_]+(?:-[^\W_]+)*)")
_SPELT_VOWEL = frozenset("AEFHILMNORSX")  # letters whose names begin with a vowel: an FBI agent
_SILENT_H = re.compile(r"(?:hour|honest|honou?r|heir)", re.IGNORECASE)
_CONSONANT_SOUND = re.compile(
    r"(?:uni(?:f|on|v|q|t|cy|corn|sex|lat|son)|use|usu|usa|ut[aei]|ur[aeiou]|eu|ewe"
    r"|uk[ru]|ugan|ubi|one\b|once)",
    re.IGNORECASE,
)
_VOWEL_SOUND = re.compile(r"[aeiou]|8|11\b|18\b", re.IGNORECASE)


@lru_cache(1 << 14)
def article(word: str) -> str:
    """Return "a" or "an", by how the word that follows begins."""
    stem = word.split("-", maxsplit=1)[0]
    if _is_spelt_out(stem):
        vowel = stem[0].upper() in _SPELT_VOWEL
    elif _SILENT_H.match(word):
        vowel = True
    elif _CONSONANT_SOUND.match(word):
        vowel = False
    else:
        vowel = not word or _VOWEL_SOUND.match(word) is not None
    return "an" if vowel else "a"


def _is_spelt_out(word: str) -> bool:
    """Return whether a word is said letter by letter: X, FBI, but not NASA."""
    if len(word) == 1:
        return word.isalpha()
    if not word.isupper():
        return False
    has_vowel = re.search("[AEIOUY]", word)
    return len(word) < 4 or not has_vowel


def agree(article_and_word: re.Match[str]) -> str:
    """Return an article and its word, with the article that the word needs."""
    given, gap, word = article_and_word.groups()
    wanted = article(word)
    if given[0].isupper():
        wanted = wanted.capitalize()
    return wanted + gap + word


def fix_articles(text: str) -> str:
    """Return the text with every "a" and "an" made to agree with the word that follows."""
    if text.isupper():
        return text
    return _ARTICLE.sub(agree, text)


def wrong_article(text: str) -> str:
    """Return the first "a" or "an" that does not agree, with its word; "" where all agree."""
    if text.isupper():
        return ""
    for match in _ARTICLE.finditer(text):
        if agree(match) != match.group():
            return match.group()
    return ""


# --- Singular and plural ----------------------------------------------------------------

_SINGULAR = {plural: singular for singular, plural in IRREGULAR.items()}


class _Ending(NamedTuple):
    """A rule for an ending: cut some letters and add others."""

    pattern: re.Pattern[str]
    cut: int
    add: str


_TO_PLURAL = (
    _Ending(re.compile(r"(?<!^hu)(?<!^ger)(?<!^ro)man$"), 2, "en"),
    _Ending(re.compile(r"[^aeiou]y$"), 1, "ies"),
    _Ending(re.compile(r"(?:s|x|z|ch|sh)$"), 0, "es"),
    _Ending(re.compile(r"$"), 0, "s"),
)
_TO_SINGULAR = (
    _Ending(re.compile(r"..men$"), 2, "an"),
    _Ending(re.compile(r"..ies$"), 3, "y"),
    _Ending(re.compile(r"(?:ss|x|z|ch|sh)es$"), 2, ""),
    _Ending(re.compile(r"(?<!s)s$"), 1, ""),
)


@lru_cache(1 << 14)
def plural(noun: str) -> str:
    """Return the plural of a noun or of a compound, whose last word changes."""
    for tail in (" of ", "-in-law"):
        if tail in noun:
            head, rest = noun.split(tail, 1)
            return f"{plural(head)}{tail}{rest}"
    *head, last = noun.split(" ")
    return " ".join([*head, _plural_of_word(last)])


def _plural_of_word(word: str) -> str:
    lower = word.lower()
    if lower in FOLK:
        return word
    if lower in IRREGULAR:
        return IRREGULAR[lower]
    return _change_ending(word, _TO_PLURAL)


@lru_cache(1 << 14)
def singular(noun: str) -> str:
    """Return the singular of one word, as far as ``plural`` can have made it."""
    lower = noun.lower()
    if lower.endswith("-in-law"):
        kin, tail = noun[:-7], noun[-7:]
        return singular(kin) + tail
    if lower in FOLK or lower in _SINGULAR:
        return _SINGULAR.get(lower, lower)
    return _change_ending(noun, _TO_SINGULAR)


def _change_ending(word: str, endings: tuple[_Ending, ...]) -> str:
    """Return the word after the first rule that fits it."""
    lower = word.lower()
    for ending in endings:
        if ending.pattern.search(lower):
            stem_length = len(word) - ending.cut
            return word[:stem_length] + ending.add
    return word


@lru_cache(1 << 14)
def is_plural(noun: str) -> bool:
    """Return whether a noun is written in the plural."""
    lower = noun.lower()
    if lower in FOLK or lower in _SINGULAR:
        return True
    one = singular(lower)
    return one != lower and plural(one) == lower


# --- People -----------------------------------------------------------------------------


@lru_cache(1 << 14)
def is_person(word: str, more: Nouns = NO_NOUNS) -> bool:
    """Return whether a word, in either number, names a person.

    It is a known noun, one of ``more``, or has an ending that only words for people have.
    """
    lower = word.lower()
    one = singular(lower)
    if lower in PERSON_NOUNS or one in PERSON_NOUNS:
        return True
    if lower in more or one in more:
        return True
    if one.endswith(_PERSON_ENDINGS) and one not in NO_MAN:
        return True
    return one.startswith("step") and one[4:] in PERSON_NOUNS


class Slot(NamedTuple):
    """Where a text names a person, as indices of words."""

    first: int  # the phrase begins, after its determiner
    insert: int  # a group's adjective goes here
    head: int  # the noun


def find_slot(words: Words, more: Nouns = NO_NOUNS) -> Slot | None:
    """Return the first noun phrase whose head names a person, or None."""
    head = _first_person(words, more)
    if head is None:
        return None
    head = last_of_row(words, head, more)
    first = head
    while first and not _ends_phrase(words[first - 1]):
        first -= 1
    insert = first
    while insert < head and words[insert].lower in BEFORE:
        insert += 1
    return Slot(first, insert, head)


def _first_person(words: Words, more: Nouns) -> int | None:
    for i in range(len(words)):
        if is_person_at(words, i, more):
            return i
    return None


def last_of_row(words: Words, person: int, more: Nouns) -> int:
    """Return the last of person nouns in a row, which is their head: "a child actor"."""
    further = qualified(words, person, more)
    while further is not None:
        person = further
        further = qualified(words, person, more)
    return person


def is_person_at(words: Words, i: int, more: Nouns = NO_NOUNS) -> bool:
    """Return whether the i-th word names a person here.

    It does not where it is a verb ("cooks them") or only qualifies what follows ("a human face").
    """
    word = words[i]
    if word.fixed or not is_person(word.text, more):
        return False
    if i + 1 == len(words):
        return True
    following = words[i + 1]
    one = singular(word.lower)
    if one in VERB_NOUNS and following.lower in _OBJECTS:
        return False
    return one not in ADJUNCTS or not _qualifies_thing(word, following, more)


def _qualifies_thing(word: Token, following: Token, more: Nouns) -> bool:
    """Return whether a person noun stands before the noun of a thing or an animal."""
    lower = following.lower
    if singular(lower) in ANIMALS:
        return True
    if is_plural(word.text) or is_person(following.text, more):
        return False
    if not following.is_word or lower in STOPS:
        return False
    return not _NOT_A_NOUN.search(lower)


def qualified(words: Words, i: int, more: Nouns = NO_NOUNS) -> int | None:
    """Return the person noun that the i-th word, a person noun too, qualifies, or None.

    "woman tennis player" has one, and "woman cooks" and "men cook" have none.
    """
    after = i + 1
    is_adjective = words[i].lower in ("male", "female")
    if is_adjective and after < len(words) and words[after].is_word:
        return leads_to_person(words, after, more)
    person = _skip_modifiers(words, after, more)
    if person == len(words):
        return None
    following = words[person]
    if not following.is_word or following.lower in FOLK:
        return None
    if not is_person(following.text, more):
        return None
    may_be_verb = singular(following.lower) in VERB_NOUNS
    same_number = is_plural(words[i].text) == is_plural(following.text)
    if may_be_verb and not same_number:
        return None
    return person


def _skip_modifiers(words: Words, i: int, more: Nouns) -> int:
    """Return the index of the first word from the i-th on that is not a modifier."""
    while i < len(words):
        word = words[i]
        if word.lower not in MODIFIERS or is_person(word.text, more):
            break
        i += 1
    return i


def leads_to_person(
    words: Words, i: int, more: Nouns = NO_NOUNS, *, strict: bool = False
) -> int | None:
    """Return the person noun in whose phrase the i-th word stands as an adjective, or None.

    strict: only known modifiers may stand between, as "old" in "an old car driver" is not about the
    driver.
    """
    last = min(i + _LONGEST_PHRASE, len(words))
    for place in range(i, last):
        if is_person_at(words, place, more):
            return place
        if not _phrase_goes_on(words, place, strict):
            return None
    return None


def _phrase_goes_on(words: Words, i: int, strict: bool) -> bool:
    """Return whether a noun phrase may reach across the i-th word."""
    token = words[i]
    if token.text == "," or token.lower == "and":  # "young and beautiful woman"
        return lower_at(words, i + 1) in BEFORE
    if token.fixed or _ends_phrase(token):
        return False
    return _modifies(token) or not strict


def _modifies(token: Token) -> bool:
    """Return whether a word is known, or looks, to qualify a person."""
    lower = token.lower
    if lower in BEFORE or lower in MODIFIERS or lower in CROSSED:
        return True
    if "-" in lower:
        return True
    return _ADJECTIVE_ENDING.search(lower) is not None


def _ends_phrase(token: Token) -> bool:
    """Return whether a noun phrase does not reach across a word.

    Such are marks, stop words, numbers, and what looks like a verb ("helps", "letting").
    """
    lower = token.lower
    if not token.is_word or lower in STOPS or lower.isdigit():
        return True
    if lower in BEFORE or lower in MODIFIERS or "-" in lower:
        return False
    if lower.endswith("ing"):
        return True
    return lower.endswith("s") and not lower.endswith(_PLURALS_OF_THINGS)
