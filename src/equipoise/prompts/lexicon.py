"""Words about people, read from lexicon.toml, which says what each set is for."""

from __future__ import annotations

import tomllib
from importlib import resources

_WORDS = tomllib.loads((resources.files("equipoise.prompts") / "lexicon.toml").read_text(encoding="utf-8"))


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
IRREGULAR: dict[str, str] = _WORDS["irregular"]
