"""The little English that is needed: words and where they stand, a or an, plurals, the phrase around a noun that names a person."""

from __future__ import annotations

import re
from typing import NamedTuple

from equipoise.prompts.lexicon import BEFORE, DETERMINERS, FOLK, IRREGULAR, PERSON_NOUNS, STOPS

_TOKEN = re.compile(r"[^\W_]+(?:-[^\W_]+)*|['’](?:s|re|ve|d|ll)\b|[^\w\s]|_", re.UNICODE)
_SINGULAR = {plural: singular for singular, plural in IRREGULAR.items()}
_PERSON_ENDINGS = ("ologist", "ographer", "ician", "woman", "person")
_CONSONANT_SOUND = re.compile(r"(?:uni(?!n|m)|use|usu|uti|ur[aeiou]|eu|ewe|ukul|ubi|one\b|once|u-)", re.IGNORECASE)
_SPELT_VOWEL = frozenset("AEFHILMNORSX")  # letters whose names begin with a vowel: an FBI agent


class Token(NamedTuple):
    """A word or a mark of punctuation, and where it stands in the text."""

    text: str
    start: int
    end: int

    @property
    def lower(self) -> str:
        return self.text.lower()

    @property
    def is_word(self) -> bool:
        return self.text[0].isalnum()


def tokens(text: str) -> list[Token]:
    """Words (hyphens inside), possessive endings and punctuation."""
    return [Token(match.group(), *match.span()) for match in _TOKEN.finditer(text)]


def article(word: str) -> str:
    """"a" or "an", by how the word that follows begins."""
    if len(word) > 1 and word.isupper():
        return "an" if word[0] in _SPELT_VOWEL else "a"
    if re.match(r"(?:hour|honest|honou?r|heir)", word, re.IGNORECASE):
        return "an"
    if _CONSONANT_SOUND.match(word):
        return "a"
    return "an" if word[:1].lower() in "aeiou" or re.match(r"(?:8|11\b|18\b)", word) else "a"


def plural(noun: str) -> str:
    """The plural of a noun or of a compound, whose last word it is that changes."""
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


def is_plural(noun: str) -> bool:
    """Whether a noun is written in the plural."""
    lower = noun.lower()
    return lower in FOLK or lower in _SINGULAR or (singular(lower) != lower and plural(singular(lower)) == lower)


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
    head = next((i for i, token in enumerate(words) if is_person(token.text, more)), None)
    if head is None:
        return None
    while head + 1 < len(words) and words[head + 1].is_word and is_person(words[head + 1].text, more):
        if words[head + 1].lower == "people" and not is_plural(words[head].text):
            break
        head += 1  # "a child actor", "a woman doctor": the last of a row is the head
    first = head
    while first and words[first - 1].is_word and words[first - 1].lower not in STOPS and not _is_verb(words[first - 1].text):
        first -= 1
    insert = first
    while insert < head and words[insert].lower in BEFORE:
        insert += 1
    return Slot(first, insert, head)


def _is_verb(word: str) -> bool:
    """An unknown word in -s before a noun is taken for a verb ("someone helps doctors"), except "sports" and its like."""
    lower = word.lower()
    return lower.endswith("s") and not lower.endswith(("ss", "sports", "'s", "news", "sales", "arts")) and lower not in DETERMINERS


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
