"""The grammar: a prompt made explicit for a group by rule, offline.

It inserts a group's words at the person, or says why it cannot.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import NamedTuple

from equipoise.errors import InputError
from equipoise.prompts import marks
from equipoise.prompts.attribute import Attribute, Wordings
from equipoise.prompts.book import Entry
from equipoise.prompts.english import (
    Slot,
    Token,
    article,
    find_slot,
    fix_articles,
    is_plural,
    leads_to_person,
    plural,
    qualified,
    singular,
    tokens,
)
from equipoise.prompts.lexicon import (
    CHILDREN,
    GENERIC,
    IRREGULAR,
    JOBS,
    LIFE_STAGES,
    MODIFIERS,
    PLAIN,
    STOPS,
)
from equipoise.prompts.neutral import apply_edits, edits_of

RULES = "grammar 2"
"""Version of the rules, for a book's provenance."""

MOST = 12
"""Variants an entry, at most."""

_LINKS = {
    "lead": ("who is", "who are"),
    "working": ("working as", "working as"),
    "works": ("who works as", "who work as"),
}
_HEADS = ("noun", "clause", "compound", *_LINKS)
_BE = ("is", "are", "was", "were", "be", "am", "been")
_PRONOUN_COLUMN = {"male": 0, "female": 1}


class CannotWrite(InputError):
    """The prompt is none that the grammar can rewrite; the message says why."""


class Piece(NamedTuple):
    """One way to say a group: an adjective, a noun in the head's place (or with "who is": a
    clause), a noun before it (a compound), a
    noun that leads ("a man who is ...", "a man working as ...", "a man who works as ..."), a
    phrase.
    """

    kind: str
    text: str


class Frame(NamedTuple):
    """A prompt with its person stated for no group: the words, the person's phrase, the noun whose
    place a group's noun takes.
    """

    text: str
    words: list[Token]
    slot: Slot
    key: str
    key_first: int
    explicit: frozenset[str]  # the attributes that a noun in its place stated

    @property
    def plural(self) -> bool:
        return is_plural(self.words[self.slot.head].text)

    @property
    def next(self) -> str:
        after = self.slot.head + 1
        return self.words[after].lower if after < len(self.words) else ""

    @property
    def bound(self) -> bool:
        """Whether the person owns what follows, is one of several, or is what somebody is said to
        be: little can be added then.
        """
        said_to_be = self.slot.first > 1 and self.words[self.slot.first - 2].lower in _BE
        return self.next in ("'s", "'", "and", "or", "&") or said_to_be


def write_entry(
    prompt: str,
    attribute: Attribute,
    group: str,
    *,
    most: int = MOST,
    person_nouns: frozenset[str] = frozenset(),
) -> Entry:
    """Anchor and variants of a prompt for a group; ``CannotWrite`` where the rules do not reach."""
    parts, groups = attribute.parts, attribute.split(group)
    order = sorted(range(len(parts)), key=lambda i: parts[i].position or 0)
    frame = _frame(prompt, attribute, groups, person_nouns)
    ways = [list(_pieces(frame, parts[i], groups[i], alone=len(parts) == 1)) for i in order]
    if not all(ways):
        raise CannotWrite(
            f"{prompt!r} has no place for the wordings of {group!r}; give the group an adjective"
        )
    ranked = sorted(
        itertools.product(*map(enumerate, ways)),
        key=lambda way: (sum(i for i, _ in way), max(i for i, _ in way)),
    )
    stated = [marks.stated(marks.find(prompt, part, person_nouns), part) for part in parts]
    already = all(named == (one,) for named, one in zip(stated, groups, strict=True))
    texts: dict[str, str] = {prompt.lower(): prompt} if already else {}
    for way in ranked:
        pieces = [piece for _, piece in way]
        if _fit(pieces) and len(texts) <= most:
            text = _render(frame, pieces)
            texts.setdefault(text.lower(), text)
    anchor, *variants = texts.values()
    return Entry(anchor=anchor, variants=tuple(variants))


def _frame(
    prompt: str, attribute: Attribute, groups: tuple[str, ...], more: frozenset[str]
) -> Frame:
    text = prompt
    if find_slot(tokens(prompt), more) is None:
        text = re.sub(
            r"\b([Ss])ome(?:one|body)\b",
            lambda match: "A person" if match.group(1) == "S" else "a person",
            prompt,
        )
    explicit: frozenset[str] = frozenset()
    for part, group in zip(attribute.parts, groups, strict=True):
        text, noun = _rewrite(text, part, group, more)
        explicit |= {part.name} if noun else set()
    words = tokens(text)
    slot = find_slot(words, more)
    if slot is None:
        raise CannotWrite(
            f"{prompt!r} names no person that the grammar knows; word it with one (a person, a"
            " doctor), or pass its noun as a person noun"
        )
    for part in attribute.parts:
        adjectives = {
            word.lower()
            for wordings in part.wordings.values()
            for word in (*wordings.adjectives, *wordings.also_adjectives)
        }
        if unclear := [
            word.text
            for word in words[slot.first : slot.head]
            if word.lower in adjectives and not word.fixed
        ]:
            raise CannotWrite(
                f"{prompt!r}: it is not clear whether {unclear[0]!r} is about the person; word it"
                " otherwise"
            )
    known = {
        key for part in attribute.parts for words_ in part.wordings.values() for key in words_.nouns
    }
    for first in range(slot.first, slot.head + 1):
        key = " ".join(
            [*(word.lower for word in words[first : slot.head]), singular(words[slot.head].lower)]
        )
        if key in known:
            return Frame(text, words, slot, key, first, explicit)
    head = singular(words[slot.head].lower)
    return Frame(text, words, slot, "person" if head in GENERIC else head, slot.head, explicit)


def _rewrite(text: str, part: Attribute, group: str, more: frozenset[str]) -> tuple[str, bool]:
    """The text with the first person neutral and every other statement of a group turned to this
    one; whether the first was a noun.
    """
    words = tokens(text)
    found = marks.find_in(words, part, more)
    if len(named := marks.stated(found, part)) > 1:
        raise CannotWrite(
            f"{text!r} names {' and '.join(named)}, so it is no prompt about one group; split it,"
            " or leave it out"
        )
    slot = find_slot(words, more)
    people = {
        mark: _person_of(words, mark, more)
        for mark in found
        if mark.kind in ("noun", "adjective", "phrase")
    }
    first = min((slot.head if slot else len(words), *people.values()))
    if people and first not in people.values():
        other = next(iter(people))
        said = text[words[other.first].start : words[other.last - 1].end]
        raise CannotWrite(
            f"{text!r} says of a second person that they are {other.group} ({said!r}); leave that"
            " out, or name one person only"
        )
    edits, noun = {}, False
    for mark in found:
        if people.get(mark, -1) == first:
            noun |= mark.kind == "noun"
            new = mark.neutral
            if (
                mark.neutral == "person"
                and (stage := singular(words[mark.last - 1].lower)) in LIFE_STAGES
            ):
                raise CannotWrite(
                    f"{text!r} is about a {stage}, and there is no {stage} of another {part.name};"
                    " name another person"
                )
        elif mark.group == group:
            continue
        else:
            new = _counterpart(words, mark, part, group)
        edits |= edits_of(words, mark, new)
    return (apply_edits(text, words, edits), noun) if edits else (text, False)


def _person_of(words: list[Token], mark: marks.Mark, more: frozenset[str]) -> int:
    """The index of the noun for the person that a mark is about."""
    if mark.kind == "noun":
        return mark.last - 1
    if mark.kind == "adjective":
        person = leads_to_person(words, mark.last, more)
        while person is not None and (further := qualified(words, person, more)) is not None:
            person = further
        return mark.last if person is None else person
    before = find_slot(words[: mark.first], more)
    return before.head if before else mark.first


def _counterpart(words: list[Token], mark: marks.Mark, part: Attribute, group: str) -> str:
    """Return this group's word for the mark: "mother" -> "father", "her" -> "his"."""
    wordings: Wordings = part.wordings[group]
    if mark.kind == "pronoun":
        return marks.PRONOUNS[mark.case][_PRONOUN_COLUMN.get(group, 2)]
    if mark.kind == "title":
        return {"male": "Mr", "female": "Ms"}.get(group, "Mx") + (
            "." if words[mark.last - 1].text == "." else ""
        )
    if mark.kind == "noun":
        own: Wordings = part.wordings[mark.group]
        nouns, theirs = (
            (*who.nouns.get(mark.neutral, ()), *who.also_nouns.get(mark.neutral, ()))
            for who in (wordings, own)
        )
        rank = theirs.index(old) if (old := singular(words[mark.last - 1].lower)) in theirs else 0
        if nouns:
            return nouns[rank if rank < len(nouns) else 0]
        return " ".join([*wordings.adjectives[:1], mark.neutral])
    choices = wordings.adjectives if mark.kind == "adjective" else wordings.phrases
    return choices[0] if choices else ""


def _pieces(frame: Frame, part: Attribute, group: str, alone: bool) -> Iterator[Piece]:
    """Every way to say a group here, the anchor's first, then the kinds in turn so that few are
    already diverse.
    """
    wordings: Wordings = part.wordings[group]
    explicit_noun = part.name in frame.explicit
    nouns = [
        Piece("noun", noun)
        for noun in dict.fromkeys(wordings.nouns.get(frame.key, ()))
        if alone or " individual" not in noun
    ]
    anchor, *adjectives = [Piece("adjective", word) for word in wordings.adjectives] or [None]
    phrases = [
        Piece("phrase", phrase) for phrase in wordings.phrases if _phrase_fits(frame, phrase)
    ]
    compounds, leads, clauses = [], [], []
    if frame.key in PLAIN:
        adjectives += [Piece("adjective", word) for word in wordings.person_adjectives]
        if re.search(r"^(?!during|including).{2,}ing$", frame.next):
            clauses = [Piece("clause", piece.text) for piece in nouns]
    elif not nouns and frame.key not in CHILDREN and frame.next not in ("'s", "'"):
        if all(
            word.lower in MODIFIERS for word in frame.words[frame.slot.insert : frame.slot.head]
        ):
            # "women doctors", but "lady nurses" could be a sentence
            compounds = [
                Piece("compound", noun)
                for noun in wordings.compounds
                if not frame.plural or noun in IRREGULAR
            ]
        if (frame.plural or _determiner(frame) in ("a", "an")) and not frame.bound:
            links = _LINKS if singular(frame.words[frame.slot.head].lower) in JOBS else ("lead",)
            leads = [
                Piece(link, noun)
                for noun in wordings.nouns.get("person", ())
                if " individual" not in noun
                for link in links
            ]
    first = nouns if explicit_noun else [anchor, *nouns]
    rest = itertools.zip_longest(
        [anchor] if explicit_noun else [], compounds, leads, phrases, adjectives, clauses
    )
    yield from filter(None, dict.fromkeys((*first, *itertools.chain.from_iterable(rest))))


def _phrase_fits(frame: Frame, phrase: str) -> bool:
    """A clause ("who is male") only where the sentence pauses; others where what follows does not
    begin alike.
    """
    start = phrase.split(" ", maxsplit=1)[0]
    if frame.bound or (frame.key in CHILDREN and re.match("who is an? ", phrase)):
        return False
    if not frame.next or frame.next in ",.;:!?)":
        return True
    if start in ("who", "whose", "advanced") or frame.next == start:
        return False
    return frame.next in STOPS or frame.next.endswith("ing")


def _determiner(frame: Frame) -> str:
    return frame.words[frame.slot.first - 1].lower if frame.slot.first else ""


def _fit(pieces: list[Piece]) -> bool:
    """At most one piece changes the head, and at most one phrase follows it."""
    kinds = [piece.kind for piece in pieces]
    if any(kind in _LINKS for kind in kinds) and any(
        piece.kind == "phrase" and piece.text.startswith("who") for piece in pieces
    ):
        return False  # "a man who is a nurse who is old"
    return sum(kind in _HEADS for kind in kinds) <= 1 and kinds.count("phrase") <= 1


def _render(frame: Frame, pieces: list[Piece]) -> str:
    words, slot = frame.words, frame.slot
    texts = {
        kind: [piece.text for piece in pieces if piece.kind == kind]
        for kind in ("adjective", "phrase", *_HEADS)
    }
    number = plural if frame.plural else str

    def span(first: int, last: int) -> list[str]:
        return [frame.text[words[first].start : words[last - 1].end]] if last > first else []

    kept, mid, head = (
        span(slot.first, slot.insert),
        span(slot.insert, slot.head),
        span(slot.head, slot.head + 1),
    )
    adjectives = texts["adjective"]
    if noun := texts["noun"] or texts["clause"]:
        mid, head = span(slot.insert, frame.key_first), [number(noun[0])]
        own = head[0].split(" ")[0]  # "a male individual" needs no second adjective of its own
        adjectives = [word for word in adjectives if word != own]
    if link := next((kind for kind in _LINKS if texts[kind]), ""):
        whole = [*kept, *mid, *head]
        linked = [
            _LINKS[link][frame.plural],
            *([] if frame.plural else [article(whole[0].split(" ")[0])]),
        ]
        phrase = [*adjectives, number(texts[link][0]), *linked, *whole]
    else:
        phrase = [*kept, *adjectives, *map(number, texts["compound"]), *mid, *head]
    phrase += [marks.plural_phrase(text) if frame.plural else text for text in texts["phrase"]]
    phrase += [("who is", "who are")[frame.plural]] if texts["clause"] else []
    start, end = words[slot.first].start, words[slot.head].end
    return _assemble(frame, start, " ".join(phrase), end)


def _assemble(frame: Frame, start: int, phrase: str, end: int) -> str:
    """The phrase in its place, with the article and the capitals that it needs."""
    if frame.text.isupper():
        phrase = phrase.upper()
    if start == 0 and frame.text[0].isupper():
        old = frame.words[0].text
        if not (len(old) > 1 and old.isupper()):
            phrase = phrase.replace(old, old.lower(), 1)
        phrase = phrase[0].upper() + phrase[1:]
    before = frame.text[:start]
    if _determiner(frame) in ("a", "an"):
        at = frame.words[frame.slot.first - 1].start
        return frame.text[:at] + fix_articles(frame.text[at:start] + phrase) + frame.text[end:]
    return before + phrase + frame.text[end:]
