"""Write a prompt for a group by rule, offline.

The rules put a group's words where the prompt names a person, or say why they cannot.
"""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from equipoise.errors import InputError
from equipoise.prompts import _stated_groups as marks
from equipoise.prompts._attribute import Attribute, Wordings
from equipoise.prompts._english import (
    NO_NOUNS,
    Nouns,
    Slot,
    Words,
    article,
    find_slot,
    fix_articles,
    is_plural,
    last_of_row,
    leads_to_person,
    lower_at,
    plural,
    singular,
    tokens,
)
from equipoise.prompts._lexicon import (
    CHILDREN,
    GENERIC,
    IRREGULAR,
    JOBS,
    LIFE_STAGES,
    MODIFIERS,
    PLAIN,
    STOPS,
)
from equipoise.prompts._neutral_captions import Edits, apply_edits, capitalized, edits_of
from equipoise.prompts._prompt_book import Entry

RULES = "grammar 2"
"""Version of the rules, for a book's provenance."""

MOST = 12
"""Variants per entry, at most."""

_LINKS = {  # in the singular and in the plural
    "lead": ("who is", "who are"),
    "working": ("working as", "working as"),
    "works": ("who works as", "who work as"),
}
_HEADS = frozenset(["noun", "clause", "compound", *_LINKS])
_BE = frozenset(["is", "are", "was", "were", "be", "am", "been"])
_TITLES = {"male": "Mr", "female": "Ms"}
_SOMEBODY = re.compile(r"\b([Ss])ome(?:one|body)\b")
_PARTICIPLE = re.compile(r"^(?!during|including).{2,}ing$")


class CannotWrite(InputError):
    """The rules cannot rewrite this prompt; the message says why."""


class GroupWording(NamedTuple):
    """One way to say a group.

    kind is "adjective"; "noun", in the head's place; "clause", such a noun with "who is" after it;
    "compound", a noun before the head; "lead" ("a man who is ..."), "working" ("a man working as
    ...") or "works" ("a man who works as ..."); or "phrase", after the head.
    """

    kind: str
    text: str


class Frame(NamedTuple):
    """A prompt in which the first person is stated for no group."""

    text: str
    words: Words
    slot: Slot
    key: str  # the neutral noun whose place a group's noun takes
    key_first: int  # where that noun begins
    explicit: frozenset[str]  # the attributes that a noun in its place stated

    @property
    def plural(self) -> bool:
        """Return whether the prompt names several people."""
        return is_plural(self.words[self.slot.head].text)

    @property
    def next(self) -> str:
        """Return the word after the person, "" where there is none."""
        return lower_at(self.words, self.slot.head + 1)

    @property
    def determiner(self) -> str:
        """Return the word before the person's phrase, "" where there is none."""
        return lower_at(self.words, self.slot.first - 1)

    @property
    def has_owner_mark(self) -> bool:
        """Return whether the person owns what follows: "a doctor's hat"."""
        return self.next in ("'s", "'")

    @property
    def is_bound(self) -> bool:
        """Return whether little can be added after the person.

        The person owns what follows, is one of several, or is what somebody is said to be.
        """
        said_to_be = lower_at(self.words, self.slot.first - 2) in _BE
        return said_to_be or self.has_owner_mark or self.next in ("and", "or", "&")

    def in_number(self, noun: str) -> str:
        """Return a noun in the number of the person's."""
        return plural(noun) if self.plural else noun

    def span(self, first: int, last: int) -> list[str]:
        """Return the text of the words [first, last) as a list of one, or of none."""
        if last <= first:
            return []
        return [self.text[self.words[first].start : self.words[last - 1].end]]


def write_entry(
    prompt: str,
    attribute: Attribute,
    group: str,
    *,
    most: int = MOST,
    person_nouns: Nouns = NO_NOUNS,
) -> Entry:
    """Return the anchor and the variants of a prompt for a group.

    Raise ``CannotWrite`` where the rules do not reach.
    """
    groups = attribute.split(group)
    frame = _frame(prompt, attribute, groups, person_nouns)
    in_order = sorted(zip(attribute.parts, groups, strict=True), key=_place)
    alone = len(groups) == 1
    ways = [_pieces(frame, part, one, alone) for part, one in in_order]
    if not all(ways):
        raise CannotWrite(
            f"{prompt!r} has no place for the wordings of {group!r}; give the group an adjective"
        )
    texts: dict[str, str] = {}
    if _states(prompt, attribute, groups, person_nouns):
        texts[prompt.lower()] = prompt
    for pieces in _choices(ways):
        if len(texts) > most:
            break
        if _go_together(pieces):
            text = _render(frame, pieces)
            texts.setdefault(text.lower(), text)
    anchor, *variants = texts.values()
    return Entry(anchor=anchor, variants=tuple(variants))


def _place(part_and_group: tuple[Attribute, str]) -> int:
    """Return where a part's adjective stands among those of the other parts."""
    return part_and_group[0].position or 0


def _states(prompt: str, attribute: Attribute, groups: tuple[str, ...], more: Nouns) -> bool:
    """Return whether a prompt states just this group of each part already."""
    for part, group in zip(attribute.parts, groups, strict=True):
        found = marks.find(prompt, part, more)
        if marks.stated(found, part) != (group,):
            return False
    return True


def _choices(ways: list[list[GroupWording]]) -> Iterator[list[GroupWording]]:
    """Yield every choice of one piece per part, those with the first ways of each part first."""
    ranked = itertools.product(*map(enumerate, ways))
    for choice in sorted(ranked, key=_sum_and_largest_rank):
        yield [piece for _, piece in choice]


def _sum_and_largest_rank(choice: tuple[tuple[int, GroupWording], ...]) -> tuple[int, int]:
    ranks = [rank for rank, _ in choice]
    return sum(ranks), max(ranks)


def _go_together(pieces: list[GroupWording]) -> bool:
    """Return whether at most one piece changes the head and at most one phrase follows it.

    "a man who is a nurse who is old" has one clause too many.
    """
    heads = [piece.kind for piece in pieces if piece.kind in _HEADS]
    phrases = [piece.text for piece in pieces if piece.kind == "phrase"]
    if len(heads) > 1 or len(phrases) > 1:
        return False
    if not heads or not phrases:
        return True
    return heads[0] not in _LINKS or not phrases[0].startswith("who")


# --- The prompt without a group ---------------------------------------------------------


def _frame(prompt: str, attribute: Attribute, groups: tuple[str, ...], more: Nouns) -> Frame:
    """Return the frame of a prompt, in which everybody but the first person is of the groups."""
    text = _with_person(prompt, more)
    explicit: set[str] = set()
    for part, group in zip(attribute.parts, groups, strict=True):
        text, was_noun = _rewrite(text, part, group, more)
        if was_noun:
            explicit.add(part.name)
    words = tokens(text)
    slot = find_slot(words, more)
    if slot is None:
        raise CannotWrite(
            f"{prompt!r} names no person that the grammar knows; word it with one (a person, a"
            " doctor), or pass the noun that names its person as a person noun"
        )
    for word in words[slot.first : slot.head]:
        if not word.fixed and _is_adjective_of(attribute, word.lower):
            raise CannotWrite(
                f"{prompt!r}: it is not clear whether {word.text!r} is about the person; word it"
                " otherwise"
            )
    key, key_first = _key(words, slot, attribute)
    return Frame(text, words, slot, key, key_first, frozenset(explicit))


def _with_person(prompt: str, more: Nouns) -> str:
    """Return a prompt with "a person" for "someone", if it names nobody else."""
    if find_slot(tokens(prompt), more) is not None:
        return prompt
    starts = {"S": "A person", "s": "a person"}
    return _SOMEBODY.sub(lambda match: starts[match.group(1)], prompt)


def _is_adjective_of(attribute: Attribute, word: str) -> bool:
    """Return whether a word is an adjective of some group of the attribute."""
    for part in attribute.parts:
        for wordings in part.wordings.values():
            adjectives = (*wordings.adjectives, *wordings.also_adjectives)
            if word in map(str.lower, adjectives):
                return True
    return False


def _key(words: Words, slot: Slot, attribute: Attribute) -> tuple[str, int]:
    """Return the neutral noun of the person, and where it begins.

    It is the longest that some group has nouns for, or else the head.
    """
    known: set[str] = set()
    for part in attribute.parts:
        for wordings in part.wordings.values():
            known.update(wordings.nouns)
    head = singular(words[slot.head].lower)
    for first in range(slot.first, slot.head + 1):
        before = [word.lower for word in words[first : slot.head]]
        key = " ".join([*before, head])
        if key in known:
            return key, first
    if head in GENERIC:
        head = "person"
    return head, slot.head


def _rewrite(text: str, part: Attribute, group: str, more: Nouns) -> tuple[str, bool]:
    """Return the text with its first person neutral and every other statement of this group.

    Return too whether a noun stated the first person's group.
    """
    words = tokens(text)
    found = marks.find_in(words, part, more)
    named = marks.stated(found, part)
    if len(named) > 1:
        raise CannotWrite(
            f"{text!r} names {' and '.join(named)}, so it is no prompt about one group; split it,"
            " or leave it out"
        )
    first_person = _marks_of_first_person(text, words, found, more)
    edits: Edits = {}
    was_noun = False
    for mark in found:
        if mark in first_person:
            _require_any_age(text, words, mark, part)
            was_noun = was_noun or mark.kind == "noun"
            edits |= edits_of(words, mark, mark.neutral)
        elif mark.kind == "noun" and not mark.group:
            continue  # "a 5 year old" is of no group
        elif mark.group != group:
            edits |= edits_of(words, mark, _counterpart(words, mark, part, group))
    return apply_edits(text, words, edits), was_noun


def _marks_of_first_person(text: str, words: Words, found: marks.Marks, more: Nouns) -> marks.Marks:
    """Return the marks about the first person; raise if there are only marks about others."""
    slot = find_slot(words, more)
    people = {
        mark: _person_of(words, mark, more)
        for mark in found
        if mark.kind in ("noun", "adjective", "phrase")
    }
    first = min(people.values(), default=len(words))
    if slot:
        first = min(first, slot.head)
    about_first = [mark for mark, person in people.items() if person == first]
    if people and not about_first:
        other = next(iter(people))
        said = text[words[other.first].start : words[other.last - 1].end]
        raise CannotWrite(
            f"{text!r} says of a second person that they are {other.group} ({said!r}); leave that"
            " out, or name one person only"
        )
    return about_first


def _person_of(words: Words, mark: marks.Mark, more: Nouns) -> int:
    """Return the index of the noun for the person that a mark is about."""
    if mark.kind == "noun":
        return mark.last - 1
    if mark.kind == "adjective":
        person = leads_to_person(words, mark.last, more)
        if person is None:
            return mark.last
        return last_of_row(words, person, more)
    before = find_slot(words[: mark.first], more)
    return before.head if before else mark.first


def _require_any_age(text: str, words: Words, mark: marks.Mark, part: Attribute) -> None:
    """Raise for a baby, which cannot be made old."""
    stage = singular(words[mark.last - 1].lower)
    if mark.neutral == "person" and stage in LIFE_STAGES:
        raise CannotWrite(
            f"{text!r} is about a {stage}, and there is no {stage} of another {part.name};"
            " name another person"
        )


def _counterpart(words: Words, mark: marks.Mark, part: Attribute, group: str) -> str:
    """Return this group's word for the mark: "mother" -> "father", "her" -> "his"."""
    wordings: Wordings = part.wordings[group]
    if mark.kind == "pronoun":
        pronoun = marks.PRONOUNS[mark.case]
        forms = {"male": pronoun.male, "female": pronoun.female}
        return forms.get(group, pronoun.neutral)
    if mark.kind == "title":
        title = _TITLES.get(group, "Mx")
        last = words[mark.last - 1].text
        return f"{title}." if last == "." else title
    if mark.kind == "noun":
        return _counterpart_noun(words, mark, part, group)
    if mark.kind == "adjective":
        return next(iter(wordings.adjectives), "")
    return next(iter(wordings.phrases), "")


def _counterpart_noun(words: Words, mark: marks.Mark, part: Attribute, group: str) -> str:
    """Return the noun that has the place among this group's that the mark's has among its own."""
    wordings: Wordings = part.wordings[group]
    nouns = _nouns_for(wordings, mark.neutral)
    if not nouns:
        return " ".join([*wordings.adjectives[:1], mark.neutral])
    theirs = _nouns_for(part.wordings[mark.group], mark.neutral)
    noun = singular(words[mark.last - 1].lower)
    if noun in theirs and theirs.index(noun) < len(nouns):
        return nouns[theirs.index(noun)]
    return nouns[0]


def _nouns_for(wordings: Wordings, neutral: str) -> tuple[str, ...]:
    written = wordings.nouns.get(neutral, ())
    understood = wordings.also_nouns.get(neutral, ())
    return (*written, *understood)


# --- Ways to say a group ----------------------------------------------------------------


def _pieces(frame: Frame, part: Attribute, group: str, alone: bool) -> list[GroupWording]:
    """Return every way to say a group here.

    The anchor's comes first, then the kinds in turn, so that a few are already diverse.
    """
    wordings: Wordings = part.wordings[group]
    nouns = _noun_pieces(frame, wordings, alone)
    anchor, adjectives = _adjective_pieces(frame, wordings)
    phrases = [
        GroupWording("phrase", phrase) for phrase in wordings.phrases if _phrase_fits(frame, phrase)
    ]
    compounds, leads, clauses = [], [], []
    if frame.key in PLAIN:
        clauses = _clause_pieces(frame, nouns)
    elif not nouns and frame.key not in CHILDREN and not frame.has_owner_mark:
        compounds = _compound_pieces(frame, wordings)
        leads = _lead_pieces(frame, wordings)
    if part.name in frame.explicit:
        first, later = nouns, anchor
    else:
        first, later = [*anchor, *nouns], []
    kinds = (later, compounds, leads, phrases, adjectives, clauses)
    in_turn = itertools.chain.from_iterable(itertools.zip_longest(*kinds))
    return [piece for piece in dict.fromkeys((*first, *in_turn)) if piece]


def _noun_pieces(frame: Frame, wordings: Wordings, alone: bool) -> list[GroupWording]:
    """Return the nouns that take the place of the frame's.

    "young individual" leaves no room for another attribute.
    """
    nouns = dict.fromkeys(wordings.nouns.get(frame.key, ()))
    return [GroupWording("noun", noun) for noun in nouns if alone or not _is_individual(noun)]


def _is_individual(noun: str) -> bool:
    return " individual" in noun


def _adjective_pieces(
    frame: Frame, wordings: Wordings
) -> tuple[list[GroupWording], list[GroupWording]]:
    """Return the anchor's adjective and the others."""
    pieces = [GroupWording("adjective", word) for word in wordings.adjectives]
    others = pieces[1:]
    if frame.key in PLAIN:
        others += [GroupWording("adjective", word) for word in wordings.person_adjectives]
    return pieces[:1], others


def _clause_pieces(frame: Frame, nouns: list[GroupWording]) -> list[GroupWording]:
    """Return the nouns as clauses, where a participle follows: "a man who is walking"."""
    if not _PARTICIPLE.search(frame.next):
        return []
    return [GroupWording("clause", piece.text) for piece in nouns]


def _compound_pieces(frame: Frame, wordings: Wordings) -> list[GroupWording]:
    """Return the nouns that may stand before the head.

    "women doctors" is clear, and "lady nurses" could be a sentence.
    """
    between = frame.words[frame.slot.insert : frame.slot.head]
    if any(word.lower not in MODIFIERS for word in between):
        return []
    nouns = wordings.compounds
    return [
        GroupWording("compound", noun) for noun in nouns if not frame.plural or noun in IRREGULAR
    ]


def _lead_pieces(frame: Frame, wordings: Wordings) -> list[GroupWording]:
    """Return the nouns that may lead: "a man who is a doctor", "a man working as a doctor"."""
    if frame.is_bound or not (frame.plural or frame.determiner in ("a", "an")):
        return []
    head = singular(frame.words[frame.slot.head].lower)
    links = list(_LINKS) if head in JOBS else ["lead"]
    nouns = [noun for noun in wordings.nouns.get("person", ()) if not _is_individual(noun)]
    return [GroupWording(link, noun) for noun in nouns for link in links]


def _phrase_fits(frame: Frame, phrase: str) -> bool:
    """Return whether a phrase may follow the person.

    A clause ("who is male") may where the sentence pauses, and others where what follows does not
    begin alike.
    """
    if frame.is_bound or (frame.key in CHILDREN and re.match("who is an? ", phrase)):
        return False
    if not frame.next or frame.next in ",.;:!?)":
        return True
    start = phrase.split(" ", maxsplit=1)[0]
    if start in ("who", "whose", "advanced", frame.next):
        return False
    return frame.next in STOPS or frame.next.endswith("ing")


# --- The prompt with the group ----------------------------------------------------------


def _render(frame: Frame, pieces: list[GroupWording]) -> str:
    """Return the prompt with the pieces in their places."""
    texts: dict[str, list[str]] = defaultdict(list)
    for piece in pieces:
        texts[piece.kind].append(piece.text)
    phrase = _person_phrase(frame, texts)
    for text in texts["phrase"]:
        phrase.append(marks.plural_phrase(text) if frame.plural else text)
    if texts["clause"]:
        phrase.append("who are" if frame.plural else "who is")
    return _put_in_place(frame, " ".join(phrase))


def _person_phrase(frame: Frame, texts: dict[str, list[str]]) -> list[str]:
    """Return the words that name the person, with the pieces before and in the head's place."""
    slot = frame.slot
    adjectives = texts["adjective"]
    nouns = texts["noun"] or texts["clause"]
    if nouns:
        noun = frame.in_number(nouns[0])
        own = noun.split(" ")[0]  # "a male individual" needs no second adjective of its own
        adjectives = [word for word in adjectives if word != own]
        rest = [*frame.span(slot.insert, frame.key_first), noun]
    else:
        rest = [*frame.span(slot.insert, slot.head), frame.words[slot.head].text]
    kept = frame.span(slot.first, slot.insert)
    for link in _LINKS:
        if texts[link]:
            leading = frame.in_number(texts[link][0])
            return [*adjectives, leading, *_linked(frame, link, [*kept, *rest])]
    compounds = map(frame.in_number, texts["compound"])
    return [*kept, *adjectives, *compounds, *rest]


def _linked(frame: Frame, link: str, phrase: list[str]) -> list[str]:
    """Return the person's own words behind a link: "who is a doctor"."""
    one, many = _LINKS[link]
    if frame.plural:
        return [many, *phrase]
    first_word = phrase[0].split(" ")[0]
    return [one, article(first_word), *phrase]


def _put_in_place(frame: Frame, phrase: str) -> str:
    """Return the prompt with the phrase in it, and the article and the capitals that it needs."""
    text = frame.text
    start = frame.words[frame.slot.first].start
    end = frame.words[frame.slot.head].end
    if text.isupper():
        phrase = phrase.upper()
    if start == 0 and text[0].isupper():
        old = frame.words[0].text
        if len(old) == 1 or not old.isupper():
            phrase = phrase.replace(old, old.lower(), 1)
        phrase = capitalized(phrase)
    if frame.determiner in ("a", "an"):
        at = frame.words[frame.slot.first - 1].start
        phrase = fix_articles(text[at:start] + phrase)
        return text[:at] + phrase + text[end:]
    return text[:start] + phrase + text[end:]
