"""Captions for labelled photographs, each with the bits that it allows (labels.py)."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from equipoise.prompts._english import fix_articles
from training.labels import AGES, ATTRIBUTES, GENDERS, RACES, WORDS, phrases

PHOTO, TEMPLATES = phrases(WORDS["photo"]), phrases(WORDS["templates"])
NEUTRAL = ("person", "person", "person", "human", "individual", "human being")
CHILDREN, TEENS = AGES[:2], AGES[2:3]
AT_WORK = (
    "",
    "",
    "",
    "at work",
    "on the job",
    "on duty",
    "at the workplace",
    "looking at the camera",
)
AFAR = ("in the distance", "seen from afar", "from far away", "far away from the camera")
# weight of saying that an attribute is not there, where one that half of all people have weighs 1
ABSENT = 0.35


@dataclass
class Caption:
    """A noun phrase under construction, and what it says."""

    noun: str = ""
    before: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)
    says: dict[str, set[str]] = field(default_factory=dict)

    def say(self, slot: str, allowed: Sequence[str]) -> None:
        """Allow these values; what was said before stays true."""
        self.says[slot] = self.says.get(slot, set(allowed)) & set(allowed)

    def text(self, template: str) -> str:
        """The sentence."""
        after = (
            self.after
            if len(self.after) < 2
            else [*self.after[:-2], f"{self.after[-2]} and {self.after[-1]}"]
        )
        return fix_articles(template.format(" ".join(["a", *self.before, self.noun, *after])))


def face(rng: random.Random, gender: str, age: str, race: str) -> tuple[str, dict[str, set[str]]]:
    """A caption for a photograph of FairFace: some of gender, age and race, never none."""
    told = {"gender": rng.random() < 0.78, "race": rng.random() < 0.55, "age": rng.random() < 0.6}
    if not any(told.values()):
        told[rng.choice(list(told))] = True
    caption = Caption()
    _gender_noun(rng, caption, gender if told["gender"] else None, age)
    if told["age"]:
        _age(rng, caption, age)
    if told["race"]:
        place, phrase, allowed = _fitting(rng, WORDS["race"], race)
        getattr(caption, place).append(phrase)
        caption.say("race", allowed)
    if not caption.says:  # an age that no phrase in the place says
        caption.noun = rng.choice(phrases(WORDS["gender"][gender]["adult"]))
        caption.say("gender", [gender])
    return caption.text(rng.choice(PHOTO)), caption.says


def attributes(
    rng: random.Random,
    gender: str,
    young: bool,
    known: Mapping[str, bool],
    rates: Mapping[str, float],
) -> tuple[str, dict[str, set[str]]]:
    """A caption for a photograph of CelebA: up to three attributes, gender and youth at times.

    rates: how common each attribute is.
    """
    caption = Caption()
    _gender_noun(rng, caption, gender if rng.random() < 0.7 else None, "30-39")
    if rng.random() < 0.25:
        caption.before.append("young" if young else rng.choice(("older", "old", "middle-aged")))
        caption.say("young", ["yes" if young else "no"])
    for name in _choose(rng, known, rates):
        said = phrases(WORDS["celeba"][name][0 if known[name] else 1])
        phrase = rng.choice(said)
        if phrase.startswith("adjective:"):
            caption.before.append(phrase.removeprefix("adjective:"))
        else:
            caption.after.append(phrase)
        caption.say(name, ["yes" if known[name] else "no"])
    if not caption.says:
        caption.noun = rng.choice(phrases(WORDS["gender"][gender]["adult"]))
        caption.say("gender", [gender])
    return caption.text(rng.choice(PHOTO)), caption.says


def at_work(
    rng: random.Random, occupation: str, gender: str | None = None, *, afar: bool = False
) -> tuple[str, dict[str, set[str]]]:
    """A caption for a photograph of IdenProf; the generator's captions name a gender too, or say
    that it was taken from afar.
    """
    noun = rng.choice(phrases(WORDS["idenprof"][occupation]))
    caption = Caption(
        noun=noun,
        after=[part for part in [rng.choice(AFAR if afar else AT_WORK)] if part],
        says={"occupation": {occupation}},
    )
    if gender:
        word = rng.choice(
            {"male": ("man", "gentleman", "guy"), "female": ("woman", "lady", "woman")}[gender]
        )
        caption.noun = rng.choice(
            (
                f"{gender} {noun}",
                f"{gender} {noun}",
                f"{word} working as a {noun}",
                f"{noun} who is a {word}",
            )
        )
        caption.say("gender", [gender])
    return caption.text(rng.choice(TEMPLATES if rng.random() < 0.5 else PHOTO)), caption.says


def _gender_noun(rng: random.Random, caption: Caption, gender: str | None, age: str) -> None:
    if gender is None:
        caption.noun = rng.choice(NEUTRAL)
        return
    stage = "child" if age in CHILDREN else "teen" if age in TEENS else "adult"
    caption.noun = rng.choice(phrases(WORDS["gender"][gender][stage]))
    caption.say("gender", [gender])
    if caption.noun in WORDS["gender"]["ages"]:
        caption.say("age", phrases(WORDS["gender"]["ages"][caption.noun]))


def _age(rng: random.Random, caption: Caption, age: str) -> None:
    tables = (
        WORDS["age"]
        if caption.noun in NEUTRAL
        else {place: WORDS["age"][place] for place in ("before", "after")}
    )
    place, phrase, allowed = _fitting(rng, tables, age)
    if place == "nouns":
        caption.noun = phrase
    else:
        getattr(caption, place).append(phrase)
    caption.say("age", allowed)


def _fitting(
    rng: random.Random, tables: Mapping[str, Mapping[str, str]], value: str
) -> tuple[str, str, list[str]]:
    fits = [
        (place, phrase, phrases(text))
        for place, table in tables.items()
        for phrase, text in table.items()
        if value in phrases(text)
    ]
    return rng.choice(fits)


def _choose(rng: random.Random, known: Mapping[str, bool], rates: Mapping[str, float]) -> list[str]:
    """Up to three attributes: of what is there, by how many bits it tells; what is not there is
    said less often.
    """
    sayable = [name for name in ATTRIBUTES if WORDS["celeba"][name][0 if known[name] else 1]]
    weights = [-math.log2(rates[name]) if known[name] else ABSENT for name in sayable]
    count = rng.choice((0, 1, 1, 2, 2, 3))
    return list(dict.fromkeys(rng.choices(sayable, weights, k=count)))


def faces(
    rng: random.Random, count: int
) -> dict[tuple[str, str, str], list[tuple[str, dict[str, set[str]]]]]:
    """``count`` captions, fewer where they repeat, for each gender, age and race."""
    keys = [(gender, age, race) for gender in GENDERS for age in AGES for race in RACES]
    return {
        key: list(
            {text: (text, says) for text, says in (face(rng, *key) for _ in range(count))}.values()
        )
        for key in keys
    }
