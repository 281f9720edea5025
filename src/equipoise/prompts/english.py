"""The little English that is needed: words and where they stand, a or an, plurals, the phrase around a noun that names a person."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from equipoise.prompts.lexicon import ADJUNCTS, ANIMALS, BEFORE, FOLK, IRREGULAR, MODIFIERS, PERSON_NOUNS, STOPS, VERB_NOUNS

_TOKEN = re.compile(r"[^\W_]+(?:-[^\W_]+)*|['’](?:s|re|ve|d|ll)\b|[^\w\s]|_", re.UNICODE)
_SINGULAR = {plural: singular for singular, plural in IRREGULAR.items()}
_PERSON_ENDINGS = ("ologist", "ographer", "ician", "woman", "person")
_CONSONANT_SOUND = re.compile(r"(?:uni(?!n|m)|use|usu|uti|ur[aeiou]|eu|ewe|ukul|ubi|one\b|once|u-)", re.IGNORECASE)
_OBJECTS = frozenset(["a", "an", "the", "them", "it", "him", "her", "his", "their", "some"])
_SPELT_VOWEL = frozenset("AEFHILMNORSX")  # letters whose names begin with a vowel: an FBI agent


class Token(NamedTuple):
    """A word or a mark of punctuation, where it stands in the text, and its lower case."""

    text: str
    start: int
    end: int
    lower: str

    @property
    def is_word(self) -> bool:
        return self.text[0].isalnum()


def tokens(text: str) -> list[Token]:
    """Words (hyphens inside), possessive endings and punctuation."""
    return [Token(match.group(), *match.span(), match.group().lower()) for match in _TOKEN.finditer(text)]


@lru_cache(1 << 14)
def article(word: str) -> str:
    """ "a" or "an", by how the word that follows begins."""
    if len(word) > 1 and word.isupper():
        return "an" if word[0] in _SPELT_VOWEL else "a"
    if re.match(r"(?:hour|honest|honou?r|heir)", word, re.IGNORECASE):
        return "an"
    if _CONSONANT_SOUND.match(word):
        return "a"
    return "an" if word[:1].lower() in "aeiou" or re.match(r"(?:8|11\b|18\b)", word) else "a"


@lru_cache(1 << 14)
def plural(noun: str) -> str:
    """The plural of a noun or of a compound, whose last word it is that changes."""
    if " of " in noun:
        head, rest = noun.split(" of ", 1)
        return f"{plural(head)} of {rest}"
    *head, last = noun.split(" ")
    lower = last.lower()
    if lower in FOLK:
        changed = last
    elif lower in IRREGULAR:
        changed = IRREGULAR[lower]
    elif lower.endswith(("man", "woman")) and lower not in ("human", "german", "roman"):
        changed = last[:-2] + "en"
    elif re.search(r"[^aeiou]y$", lower):
        changed = last[:-1] + "ies"
    elif re.search(r"(?:s|x|z|ch|sh)$", lower):
        changed = last + "es"
    else:
        changed = last + "s"
    return " ".join([*head, changed])


@lru_cache(1 << 14)
def singular(noun: str) -> str:
    """The singular of one word, as far as ``plural`` can have made it."""
    lower = noun.lower()
    if lower in FOLK:
        return _SINGULAR.get(lower, lower)
    if lower in _SINGULAR:
        return _SINGULAR[lower]
    if lower.endswith("men") and len(lower) > 4:
        return noun[:-2] + "an"
    if lower.endswith("ies") and len(lower) > 4:
        return noun[:-3] + "y"
    if re.search(r"(?:ss|x|z|ch|sh)es$", lower):
        return noun[:-2]
    return noun[:-1] if lower.endswith("s") and not lower.endswith("ss") else noun


@lru_cache(1 << 14)
def is_plural(noun: str) -> bool:
    """Whether a noun is written in the plural."""
    lower = noun.lower()
    return lower in FOLK or lower in _SINGULAR or (singular(lower) != lower and plural(singular(lower)) == lower)


@lru_cache(1 << 14)
def is_person(word: str, more: frozenset[str] = frozenset()) -> bool:
    """Whether a word, in either number, names a person: a known noun, one of ``more``, or of an ending that only people have."""
    lower = word.lower()
    one = singular(lower)
    return any(form in PERSON_NOUNS or form in more or form.endswith(_PERSON_ENDINGS) for form in (lower, one))


class Slot(NamedTuple):
    """Where a text names a person: token indices of the phrase after its determiner, of where a group's adjective goes, and of the head."""

    first: int
    insert: int
    head: int


def find_slot(words: list[Token], more: frozenset[str] = frozenset()) -> Slot | None:
    """The first noun phrase whose head names a person, or None."""
    head = next((i for i in range(len(words)) if is_person_at(words, i, more)), None)
    if head is None:
        return None
    while (further := qualified(words, head, more)) is not None:
        head = further  # "a child actor": the last of a row is the head
    first = head
    while first and not _ends_phrase(words[first - 1]):
        first -= 1
    insert = first
    while insert < head and words[insert].lower in BEFORE:
        insert += 1
    return Slot(first, insert, head)


def is_person_at(words: list[Token], i: int, more: frozenset[str] = frozenset()) -> bool:
    """Whether the i-th word names a person here, and does not just qualify the noun after it ("a human face")."""
    if not is_person(words[i].text, more):
        return False
    if singular(words[i].lower) in VERB_NOUNS and i + 1 < len(words) and words[i + 1].lower in _OBJECTS:
        return False  # "cooks them"
    if singular(words[i].lower) not in ADJUNCTS or i + 1 == len(words):
        return True
    following = words[i + 1]
    if singular(following.lower) in ANIMALS:
        return False
    plain = following.is_word and following.lower not in STOPS and not re.search(r"(?:ing|ed|s|ly|side|alone|next|close)$", following.lower)
    return is_plural(words[i].text) or not plain or is_person(following.text, more)


def qualified(words: list[Token], i: int, more: frozenset[str] = frozenset()) -> int | None:
    """The person noun that the i-th word, a person noun too, qualifies: "woman tennis player", but not "woman cooks" or "men cook"."""
    if words[i].lower in ("male", "female") and i + 1 < len(words) and words[i + 1].is_word:
        return leads_to_person(words, i + 1, more)
    person = i + 1
    while person < len(words) and words[person].lower in MODIFIERS and not is_person(words[person].text, more):
        person += 1
    if person == len(words) or not words[person].is_word or not is_person(words[person].text, more):
        return None
    this, following = words[i].text, words[person].text
    if following.lower() in FOLK:
        return None
    return person if is_plural(this) == is_plural(following) or singular(following.lower()) not in VERB_NOUNS else None


def leads_to_person(words: list[Token], i: int, more: frozenset[str] = frozenset()) -> int | None:
    """The index of the person noun whose phrase the i-th word stands in as an adjective, or None."""
    while i < len(words):
        token = words[i]
        if is_person_at(words, i, more):
            return i
        lower = token.lower
        if token.text == "," or lower == "and":  # "young and beautiful woman"
            if i + 1 == len(words) or words[i + 1].lower not in BEFORE:
                return None
        elif _ends_phrase(token):
            return None
        i += 1
    return None


def _ends_phrase(token: Token) -> bool:
    """Whether a noun phrase does not reach across a word: a mark, a stop word, or what looks like a verb ("helps", "letting")."""
    lower = token.lower
    if not token.is_word or lower in STOPS:
        return True
    if lower in BEFORE or lower in MODIFIERS or "-" in lower:
        return False
    return lower.endswith("ing") or (lower.endswith("s") and not lower.endswith(("ss", "sports", "news", "arts")))


def fix_articles(text: str) -> str:
    """Every a and an made to agree with the word that follows it."""

    def agree(match: re.Match[str]) -> str:
        given, gap, word = match.groups()
        wanted = article(word)
        return (wanted.capitalize() if given[0].isupper() else wanted) + gap + word

    return re.sub(r"\b([Aa]n?)(\s+[\"'“‘(]?)([^\W_]+(?:-[^\W_]+)*)", agree, text)


def wrong_article(text: str) -> str:
    """The first a or an that does not agree, with its word; "" where all do."""
    for match in re.finditer(r"\b([Aa]n?)\s+[\"'“‘(]?([^\W_]+(?:-[^\W_]+)*)", text):
        if match.group(1).lower() != article(match.group(2)):
            return match.group()
    return ""
