"""Neutralize captions: take out what states a group.

By the paper's nine words, by its released code's phrases, or in English as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from equipoise.errors import InputError
from equipoise.prompts import _nine_words as nine_words
from equipoise.prompts import _stated_groups as marks
from equipoise.prompts._attribute import Attribute, ready_made
from equipoise.prompts._english import (
    NO_NOUNS,
    Nouns,
    Words,
    agree,
    is_plural,
    lower_at,
    plural,
    tokens,
)
from equipoise.prompts._lexicon import ADVERBS, AFTER_VERB, BEFORE, VERBS

PROTOCOLS = ("full", "paper", "released")

_TONE = "light|dark|fair|pale|tan|brown|black|white|olive|dusky|deep|medium"
# As released, "medium complexion" is not among them: only "medium complexioned" is.
_SKIN = re.compile(
    rf"\b(?:(?:{_TONE})[- ]skinned|(?!medium complexion\b)(?:{_TONE}) complexion(?:ed)?)\b",
    re.IGNORECASE,
)
_CHANGED = "\0"  # stands before new words while a text is put together
_ARTICLE_BEFORE_CHANGED = re.compile(r"\b([Aa]n?)(\s+\0[\"'“‘(]?)([^\W_]+(?:-[^\W_]+)*)")
_CLOSING = ("", ".", ",", ";", ":", "!", "?")
_ES = re.compile(r"(?:ch|sh|ss|x|zz|o)es$")


def neutralize(text: str, attribute: Attribute | None = None, *, protocol: str = "full") -> str:
    """Return the text with nothing in it that states a group of the attribute (default: gender).

    protocol "full": nouns, plurals, pronouns (with their verbs), possessives, kinship, titles,
    adjectives and phrases. "paper": the nine words of appendix E, each replaced by "person",
    whatever the attribute. "released": those, and the skin-tone phrases that the paper's released
    code deletes.
    """
    if not isinstance(text, str):
        raise InputError(
            f"neutralize takes a text, and {type(text).__name__} was given; pass captions one"
            " by one"
        )
    if protocol not in PROTOCOLS:
        raise InputError(f"protocol={protocol!r} is not legal; pass one of {', '.join(PROTOCOLS)}")
    if protocol == "full":
        attribute = attribute or ready_made("gender")
        for part in attribute.parts:
            text = without_groups(text, part)
        return text
    text = nine_words.without_gender(text)
    if protocol == "released":
        text = tidy(_SKIN.sub("", text))
    return text


def tidy(text: str) -> str:
    """Return the text without space before punctuation, at its ends, or doubled."""
    text = re.sub(r"\s+([,.;:!?])", r"\1", text)
    return re.sub(r"\s{2,}", " ", text).strip()


def without_groups(text: str, attribute: Attribute, more: Nouns = NO_NOUNS) -> str:
    """Return a text without what states a group of a plain attribute, and otherwise unchanged."""
    words = tokens(text)
    edits: Edits = {}
    for mark in marks.find_in(words, attribute, more):
        edits |= edits_of(words, mark, _neutral(words, mark))
        if mark.case == "subject":
            for i, verb in _verbs_of_they(words, mark.last):
                edits[i] = WordEdit(i + 1, verb)
    _say_once(words, edits)
    return apply_edits(text, words, edits)


def _neutral(words: Words, mark: marks.Mark) -> str:
    """Return what takes the place of a mark's words, "" for nothing."""
    if mark.case == "reflexive" and lower_at(words, mark.last) == "and":
        return "themselves"
    return mark.neutral


# --- Edits of a text --------------------------------------------------------------------


class WordEdit(NamedTuple):
    """New words for those up to ``last``, which stays."""

    last: int
    new: str


Edits = dict[int, WordEdit]
"""Edits by the index of the first word that they replace."""


def apply_edits(text: str, words: Words, edits: Edits) -> str:
    """Return the text with the edits made.

    Articles before new words agree with them, and a sentence keeps its capital.
    """
    pieces: list[str] = []
    at = 0
    for first in sorted(edits):
        last, new = edits[first]
        start = words[first].start
        end = words[last - 1].end
        if start < at:
            continue
        gap = text[at:start]
        if not new.strip():
            end = _skip_spaces(text, end)
            if text[end : end + 1] in _CLOSING:
                gap = gap.rstrip(" ")
        if lower_at(words, first - 1) in ("a", "an"):
            gap += _CHANGED
        pieces += [gap, new]
        at = end
    result = "".join(pieces) + text[at:]
    if not text.isupper():
        result = _ARTICLE_BEFORE_CHANGED.sub(agree, result)
    result = result.replace(_CHANGED, "")
    if text[:1].isupper():
        result = capitalized(result)
    return result


def capitalized(text: str) -> str:
    """Return the text with its first letter in upper case and the rest unchanged."""
    return text[:1].upper() + text[1:]


def _skip_spaces(text: str, at: int) -> int:
    while text[at : at + 1] == " ":
        at += 1
    return at


def edits_of(words: Words, mark: marks.Mark, new: str) -> Edits:
    """Return the edits that put new words in the place of a mark.

    An adjective that goes takes its "and" or comma with it, and a plural its apostrophe.
    """
    first, last = mark.first, mark.last
    new = _in_style_of(words, mark, new)
    if not new and mark.kind == "adjective":
        before = lower_at(words, first - 1)
        if lower_at(words, last) in ("and", ","):
            last += 1
        elif before in ("and", ",") and lower_at(words, first - 2) in BEFORE:
            first -= 1
            if before == ",":
                new = " "
    edits = {first: WordEdit(last, new)}
    if mark.kind == "noun" and _needs_s(words, last, new):
        ending = "'S" if new.isupper() else "'s"
        edits[last] = WordEdit(last + 1, ending)
    return edits


def _needs_s(words: Words, last: int, new: str) -> bool:
    """Return whether an apostrophe needs an s after a new noun: "ladies'" -> "people's"."""
    if lower_at(words, last) != "'" or new.lower().endswith("s"):
        return False
    return words[last].start == words[last - 1].end


def _in_style_of(words: Words, mark: marks.Mark, new: str) -> str:
    """Return new words in the number and with the capitals of the mark's."""
    old = words[mark.last - 1].text
    if mark.kind == "noun" and new and is_plural(old):
        new = plural(new)
    if len(old) > 1 and old.isupper():
        return new.upper()
    if words[mark.first].text[0].isupper() and _keeps_capital(words, mark):
        return capitalized(new)
    return new


def _keeps_capital(words: Words, mark: marks.Mark) -> bool:
    """Return whether a capital is due to the place in a sentence, or to no noun."""
    if mark.first == 0 or mark.kind != "noun":
        return True
    return words[mark.first - 1].text in ".!?"


def _say_once(words: Words, edits: Edits) -> None:
    """Join edits that say the same: "men and women" is "people", "man or woman" is "person"."""
    for first in sorted(edits):
        edit = edits.get(first)
        if edit and _is_repeated(words, edits, edit):
            second = edits.pop(edit.last + 1)
            edits[first] = WordEdit(second.last, edit.new)


def _is_repeated(words: Words, edits: Edits, edit: WordEdit) -> bool:
    """Return whether the edit after the next "and" or "or" says the same."""
    new = edit.new.lower()
    second = edits.get(edit.last + 1)
    if not new or new in ("they", "them", "their"):
        return False
    if second is None or second.new.lower() != new:
        return False
    link = lower_at(words, edit.last)
    return link == "or" or (link == "and" and is_plural(new))


# --- Verbs ------------------------------------------------------------------------------


def _verbs_of_they(words: Words, i: int) -> Iterator[tuple[int, str]]:
    """Yield the verbs of a subject that was "he" or "she" and becomes "they".

    "is" -> "are", "runs" -> "run", and those joined by "and"; each with its index.
    """
    i = _skip_adverbs(words, i)
    if i == len(words):
        return
    if words[i].lower == "'s":
        yield i, _contraction(words, i)
        return
    verb = _plural_verb(words[i].lower)
    if verb is None:
        return
    yield i, verb
    for k in range(i + 1, len(words) - 1):
        if words[k].text in ".!?;":
            return
        second = _plural_verb(words[k + 1].lower)
        if words[k].lower != "and" or not second:
            continue
        # "sits and reads", but not "likes cats and dogs"
        if k == i + 1 or lower_at(words, k + 2) in AFTER_VERB:
            yield k + 1, second


def _skip_adverbs(words: Words, i: int) -> int:
    while i < len(words):
        lower = words[i].lower
        if lower not in ADVERBS and not lower.endswith("ly"):
            break
        i += 1
    return i


def _contraction(words: Words, i: int) -> str:
    """Return what "'s" is after "they": "'ve" where it means has, else "'re"."""
    apostrophe = words[i].text[0]
    following = lower_at(words, i + 1)
    if following in ("been", "got") or following.endswith("ed"):
        return f"{apostrophe}ve"
    return f"{apostrophe}re"


def _plural_verb(verb: str) -> str | None:
    """Return the form of a verb after "they", or None for what is no verb of "he" and "she"."""
    if verb in VERBS:
        return VERBS[verb]
    if len(verb) < 4 or not verb.endswith("s"):
        return None
    if verb.endswith(("ss", "us", "is")):
        return None
    if verb.endswith("ies"):
        return verb[:-3] + "y"
    if _ES.search(verb):
        return verb[:-2]
    return verb[:-1]
