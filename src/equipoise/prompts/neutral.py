"""``neutralize``: a caption without its groups.

The paper's nine words, its released code's phrases, or English as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from equipoise.errors import InputError
from equipoise.prompts import marks, nine_words
from equipoise.prompts.attribute import Attribute, ready_made
from equipoise.prompts.english import Token, agree, is_plural, plural, tokens
from equipoise.prompts.lexicon import ADVERBS, AFTER_VERB, BEFORE, VERBS

PROTOCOLS = ("full", "paper", "released")

_TONE = "light|dark|fair|pale|tan|brown|black|white|olive|dusky|deep|medium"
# As released, "medium complexion" is not among them: only "medium complexioned" is.
_SKIN = re.compile(
    rf"\b(?:(?:{_TONE})[- ]skinned|(?!medium complexion\b)(?:{_TONE}) complexion(?:ed)?)\b",
    re.IGNORECASE,
)


def neutralize(text: str, attribute: Attribute | None = None, *, protocol: str = "full") -> str:
    """The text with nothing in it that states a group of the attribute (gender unless another is
    given).

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
        for part in (attribute or ready_made("gender")).parts:
            text = without_groups(text, part)
        return text
    text = nine_words.without_gender(text)
    return tidy(_SKIN.sub("", text)) if protocol == "released" else text


def tidy(text: str) -> str:
    """No space before punctuation, none doubled, none at the ends."""
    return re.sub(r"\s{2,}", " ", re.sub(r"\s+([,.;:!?])", r"\1", text)).strip()


def without_groups(text: str, attribute: Attribute, more: frozenset[str] = frozenset()) -> str:
    """A text without what states a group of a plain attribute; everything else stays as it is."""
    words = tokens(text)
    found = marks.find_in(words, attribute, more)
    edits: dict[int, tuple[int, str]] = {}
    for mark in found:
        edits |= edits_of(words, mark, _neutral(words, mark))
        if mark.case == "subject":
            edits |= {i: (i + 1, verb) for i, verb in _agree(words, mark.last)}
    _join_same(words, edits)
    return apply(text, words, edits)


def apply(text: str, words: list[Token], edits: dict[int, tuple[int, str]]) -> str:
    """The text with the words [i, end) replaced, for each i: (end, new); articles before them
    agree, and a sentence keeps its capital.
    """
    pieces, at = [], 0
    for first in sorted(edits):
        last, new = edits[first]
        start, end = words[first].start, words[last - 1].end
        if start < at:
            continue
        gap = text[at:start]
        if not new.strip():
            end += len(text[end:]) - len(text[end:].lstrip(" "))
            if text[end : end + 1] in ("", ".", ",", ";", ":", "!", "?"):
                gap = gap.rstrip(" ")
        article_before = (
            first and words[first - 1].lower in ("a", "an") and words[first - 1].end <= start
        )
        pieces += [gap + ("\0" if article_before else ""), new]
        at = end
    result = "".join(pieces) + text[at:]
    pattern = re.compile(r"\b([Aa]n?)(\s+\0[\"'“‘(]?)([^\W_]+(?:-[^\W_]+)*)")
    result = (result if text.isupper() else pattern.sub(agree, result)).replace("\0", "")
    return result[:1].upper() + result[1:] if text[:1].isupper() else result


def edits_of(words: list[Token], mark: marks.Mark, new: str) -> dict[int, tuple[int, str]]:
    """What to replace where a mark becomes new words: with an adjective that goes its "and" or
    comma, with a plural its apostrophe.
    """
    first, last = mark.first, mark.last
    new = replacement(words, mark, new)
    after, before = (words[i].lower if 0 <= i < len(words) else "" for i in (last, first - 1))
    if not new and mark.kind == "adjective":
        if after in ("and", ","):
            last += 1
        elif before in ("and", ",") and first > 1 and words[first - 2].lower in BEFORE:
            first, new = first - 1, " " if before == "," else ""
    edits = {first: (last, new)}
    if (
        mark.kind == "noun"
        and after == "'"
        and words[last].start == words[last - 1].end
        and not new.lower().endswith("s")
    ):
        edits[last] = (last + 1, "'S" if new.isupper() else "'s")  # the ladies' -> the people's
    return edits


def replacement(words: list[Token], mark: marks.Mark, new: str) -> str:
    """The new words in the number and with the capital of the old ones."""
    old = words[mark.last - 1]
    if mark.kind == "noun" and new and is_plural(old.text):
        new = plural(new)
    if len(old.text) > 1 and old.text.isupper():
        return new.upper()
    capital = words[mark.first].text[0].isupper() and new
    return (
        new[0].upper() + new[1:]
        if capital
        and (mark.first == 0 or mark.kind != "noun" or words[mark.first - 1].text in ".!?")
        else new
    )


def _neutral(words: list[Token], mark: marks.Mark) -> str:
    if mark.case == "reflexive":
        return (
            "themselves"
            if mark.last < len(words) and words[mark.last].lower in ("and",)
            else "themself"
        )
    return mark.neutral


def _join_same(words: list[Token], edits: dict[int, tuple[int, str]]) -> None:
    """ "men and women" is "people", and "man or woman" is "person": one of the two is enough."""
    for first in sorted(edits):
        if first not in edits:
            continue
        last, new = edits[first]
        joined = (
            last < len(words)
            and words[last].lower in ("and", "or")
            and edits.get(last + 1, (0, ""))[1].lower() == new.lower()
        )
        if (
            new
            and joined
            and (words[last].lower == "or" or is_plural(new))
            and new.lower() not in ("they", "them", "their")
        ):
            end = edits.pop(last + 1)[0]
            edits[first] = (end, new)


def _agree(words: list[Token], i: int) -> Iterable[tuple[int, str]]:
    """The verbs of a subject that was "he" or "she" and is "they": "is" -> "are", "runs" -> "run",
    and those joined by "and".
    """
    while i < len(words) and (words[i].lower in ADVERBS or words[i].lower.endswith("ly")):
        i += 1
    if i == len(words):
        return
    if words[i].text in ("'s", "’s"):
        done = i + 1 < len(words) and (
            words[i + 1].lower in ("been", "got") or words[i + 1].lower.endswith("ed")
        )
        yield i, words[i].text[0] + ("ve" if done else "re")
        return
    if (verb := _plural_verb(words[i].lower)) is None:
        return
    yield i, verb
    for k in range(i + 1, len(words) - 1):
        if words[k].text in ".!?;":
            return
        after = words[k + 2].lower if k + 2 < len(words) else ""
        second = _plural_verb(words[k + 1].lower)
        if (
            words[k].lower == "and" and second and (k == i + 1 or after in AFTER_VERB)
        ):  # "sits and reads", not "likes cats and dogs"
            yield k + 1, second


def _plural_verb(verb: str) -> str | None:
    if verb in VERBS:
        return VERBS[verb]
    if not verb.endswith("s") or verb.endswith(("ss", "us", "is")) or len(verb) < 4:
        return None
    if verb.endswith("ies"):
        return verb[:-3] + "y"
    return verb[:-2] if re.search(r"(?:ch|sh|ss|x|zz|o)es$", verb) else verb[:-1]
