"""The little English that is needed: words and where they stand, a or an, plurals, the phrase
around a noun that names a person.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from equipoise.prompts.lexicon import (
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
_SINGULAR = {plural: singular for singular, plural in IRREGULAR.items()}
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
_CONSONANT_SOUND = re.compile(
    r"(?:uni(?:f|on|v|q|t|cy|corn|sex|lat|son)|use|usu|usa|ut[aei]|ur[aeiou]|eu|ewe|uk[ru]|ugan|ubi|one\b|once)",
    re.IGNORECASE,
)
_LONGEST_PHRASE = 8  # words between an adjective and its noun
_ARTICLE = re.compile(r"\b([Aa]n?)(\s+[\"'“‘(]?)([^\W_]+(?:-[^\W_]+)*)")
_OBJECTS = frozenset(["a", "an", "the", "them", "it", "him", "her", "his", "their", "some"])
_SPELT_VOWEL = frozenset("AEFHILMNORSX")  # letters whose names begin with a vowel: an FBI agent


class Token(NamedTuple):
    """A word or a mark of punctuation, where it stands in the text, its lower case, and whether a
    fixed phrase holds it.
    """

    text: str
    start: int
    end: int
    lower: str
    fixed: bool = False

    @property
    def is_word(self) -> bool:
        return self.text[0].isalnum()


def tokens(text: str) -> list[Token]:
    """Words (hyphens inside), possessive endings and punctuation."""
    words = [
        Token(match.group(), *match.span(), match.group().lower().replace("’", "'"))
        for match in _TOKEN.finditer(text)
    ]
    lower = [word.lower for word in words]
    for i, word in enumerate(lower):
        for phrase in FIXED.get(word, ()):
            *said, last = lower[i : i + len(phrase)]
            if (*said, last) == phrase or (*said, singular(last)) == phrase:
                words[i : i + len(phrase)] = [
                    token._replace(fixed=True) for token in words[i : i + len(phrase)]
                ]
    return words


@lru_cache(1 << 14)
def article(word: str) -> str:
    """ "a" or "an", by how the word that follows begins."""
    stem = word.split("-", maxsplit=1)[0]
    if (len(stem) == 1 and stem.isalpha()) or (
        stem.isupper() and (len(stem) < 4 or not re.search("[AEIOUY]", stem))
    ):
        # said letter by letter: an X-ray, an FBI agent, but a NASA engineer
        return "an" if stem[0].upper() in _SPELT_VOWEL else "a"
    if re.match(r"(?:hour|honest|honou?r|heir)", word, re.IGNORECASE):
        return "an"
    if _CONSONANT_SOUND.match(word):
        return "a"
    return "an" if word[:1].lower() in "aeiou" or re.match(r"(?:8|11\b|18\b)", word) else "a"


@lru_cache(1 << 14)
def plural(noun: str) -> str:
    """The plural of a noun or of a compound, whose last word it is that changes."""
    for tail in (" of ", "-in-law"):
        if tail in noun:
            head, rest = noun.split(tail, 1)
            return f"{plural(head)}{tail}{rest}"
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
    if lower.endswith("-in-law"):
        return singular(noun[:-7]) + noun[-7:]
    if lower in FOLK or lower in _SINGULAR:
        return _SINGULAR.get(lower, lower)
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
    return (
        lower in FOLK
        or lower in _SINGULAR
        or (singular(lower) != lower and plural(singular(lower)) == lower)
    )


@lru_cache(1 << 14)
def is_person(word: str, more: frozenset[str] = frozenset()) -> bool:
    """Whether a word, in either number, names a person: a known noun, one of ``more``, or of an
    ending that only people have.
    """
    lower = word.lower()
    one = singular(lower)
    if lower in PERSON_NOUNS or one in PERSON_NOUNS or lower in more or one in more:
        return True
    return (one.endswith(_PERSON_ENDINGS) and one not in NO_MAN) or (
        one.startswith("step") and one[4:] in PERSON_NOUNS
    )


class Slot(NamedTuple):
    """Where a text names a person: token indices of the phrase after its determiner, of where a
    group's adjective goes, and of the head.
    """

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
    """Whether the i-th word names a person here, and does not just qualify the noun after it ("a
    human face").
    """
    if words[i].fixed or not is_person(words[i].text, more):
        return False
    if (
        singular(words[i].lower) in VERB_NOUNS
        and i + 1 < len(words)
        and words[i + 1].lower in _OBJECTS
    ):
        return False  # "cooks them"
    if singular(words[i].lower) not in ADJUNCTS or i + 1 == len(words):
        return True
    following = words[i + 1]
    if singular(following.lower) in ANIMALS:
        return False
    plain = (
        following.is_word
        and following.lower not in STOPS
        and not re.search(r"(?:ing|ed|s|ly|side|alone|next|close)$", following.lower)
    )
    return is_plural(words[i].text) or not plain or is_person(following.text, more)


def qualified(words: list[Token], i: int, more: frozenset[str] = frozenset()) -> int | None:
    """The person noun that the i-th word, a person noun too, qualifies: "woman tennis player", but
    not "woman cooks" or "men cook".
    """
    if words[i].lower in ("male", "female") and i + 1 < len(words) and words[i + 1].is_word:
        return leads_to_person(words, i + 1, more)
    person = i + 1
    while (
        person < len(words)
        and words[person].lower in MODIFIERS
        and not is_person(words[person].text, more)
    ):
        person += 1
    if person == len(words) or not words[person].is_word or not is_person(words[person].text, more):
        return None
    this, following = words[i].text, words[person].text
    if following.lower() in FOLK:
        return None
    return (
        person
        if is_plural(this) == is_plural(following) or singular(following.lower()) not in VERB_NOUNS
        else None
    )


def leads_to_person(
    words: list[Token], i: int, more: frozenset[str] = frozenset(), *, strict: bool = False
) -> int | None:
    """The index of the person noun whose phrase the i-th word stands in as an adjective, or None.

    strict: only known modifiers may stand between, as "old" in "an old car driver" is not about the
    driver.
    """
    last = min(i + _LONGEST_PHRASE, len(words))
    while i < last:
        token = words[i]
        if is_person_at(words, i, more):
            return i
        lower = token.lower
        if token.text == "," or lower == "and":  # "young and beautiful woman"
            if i + 1 == len(words) or words[i + 1].lower not in BEFORE:
                return None
        elif token.fixed or _ends_phrase(token) or (strict and not _modifies(token)):
            return None
        i += 1
    return None


def _modifies(token: Token) -> bool:
    lower = token.lower
    return (
        lower in BEFORE
        or lower in MODIFIERS
        or lower in CROSSED
        or "-" in lower
        or re.search(r"\w{3}(?:ful|ous|less|able|ed)$", lower) is not None
    )


def _ends_phrase(token: Token) -> bool:
    """Whether a noun phrase does not reach across a word: a mark, a stop word, or what looks like a
    verb ("helps", "letting").
    """
    lower = token.lower
    if not token.is_word or lower in STOPS or lower.isdigit():
        return True
    if lower in BEFORE or lower in MODIFIERS or "-" in lower:
        return False
    return lower.endswith("ing") or (
        lower.endswith("s") and not lower.endswith(("ss", "sports", "news", "arts"))
    )


def agree(article_word: re.Match[str]) -> str:
    """An article and its word, the article made to agree."""
    given, gap, word = article_word.groups()
    wanted = article(word)
    return (wanted.capitalize() if given[0].isupper() else wanted) + gap + word


def fix_articles(text: str) -> str:
    """Every a and an made to agree with the word that follows it."""
    return text if text.isupper() else _ARTICLE.sub(agree, text)


def wrong_article(text: str) -> str:
    """The first a or an that does not agree, with its word; "" where all do."""
    found = () if text.isupper() else _ARTICLE.finditer(text)
    return next((match.group() for match in found if agree(match) != match.group()), "")
