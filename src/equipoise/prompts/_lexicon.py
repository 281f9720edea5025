"""Load the words about people from lexicon.toml, which says what each set is for."""

from __future__ import annotations

import tomllib
from importlib import resources

_WORDS = tomllib.loads(
    (resources.files("equipoise.prompts") / "lexicon.toml").read_text(encoding="utf-8")
)


def _set(name: str) -> frozenset[str]:
    return frozenset(_WORDS[name].split())


GENERIC = _set("generic")
PERSON_NOUNS = GENERIC | _set("person_nouns")
FOLK = _set("folk")
VERB_NOUNS = _set("verb_nouns")
ADJUNCTS = _set("adjuncts")
BEFORE = _set("before")
DETERMINERS = _set("determiners")
STOPS = DETERMINERS | _set("stops")
MODIFIERS = _set("modifiers")
ANIMALS = _set("animals")
JOBS = _set("jobs")
CROSSED = _set("crossed")
AMBIGUOUS = _set("ambiguous")
MEASURES = _set("measures")
CHILDREN = _set("children")
LIFE_STAGES = _set("life_stages")
PLAIN = GENERIC | _set("plain")
QUALIFIERS = _set("qualifiers")
MALE_NAMES_OF_WORK = _set("male_names_of_work")
NO_MAN = _set("no_man") | MALE_NAMES_OF_WORK
DEGREES = _set("degrees")
NOUN_LESS = _set("noun_less")
OWNABLE = _set("ownable")
GIVING = _set("giving")
LETTING = _set("letting")
BARE_VERBS = _set("bare_verbs")
ADVERBS = _set("adverbs")
AFTER_VERB = _set("after_verb")
VERBS: dict[str, str] = _WORDS["verbs"]
IRREGULAR: dict[str, str] = _WORDS["irregular"]


def _fixed_phrases() -> dict[str, list[tuple[str, ...]]]:
    """Return the fixed phrases by their first word."""
    phrases: dict[str, list[tuple[str, ...]]] = {}
    for phrase in _WORDS["fixed"].split(","):
        words = tuple(phrase.split())
        phrases.setdefault(words[0], []).append(words)
    return phrases


FIXED = _fixed_phrases()
