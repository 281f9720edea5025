"""Sentences to learn the teacher's text space from: prompts of a grammar, captions that people
wrote, single words.

No sentence but people's captions holds a held-out occupation, and none is a test caption of
Flickr8k.
"""

from __future__ import annotations

import gzip
import json
import random
import re
from collections.abc import Iterator
from pathlib import Path

from equipoise.prompts._english import fix_articles
from training.labels import GENDERS, HELD_OUT, OCCUPATIONS, WORDS, phrases

LISTS = {
    name: phrases(WORDS[name])
    for name in ("adjectives", "neutral", "scenes", "activities", "objects", "templates")
}
GENDER_WORDS = [
    word
    for gender in GENDERS
    for word in phrases(WORDS["gender"][gender]["plain"])
    if word not in ("he", "him", "his", "she", "her", "hers")
]
SAID = [
    phrase
    for both in WORDS["celeba"].values()
    for said in both
    for phrase in phrases(said)
    if not phrase.startswith("adjective:")
]
AGE, RACE = list(WORDS["age"]["before"]), list(WORDS["race"]["before"])
WITH_GENDER = ("{g} {o}", "{o} who is a {g}", "{g} working as a {o}", "{g} who is a {o}")


def sentences(data: Path, vocabulary: list[str], count: int, seed: int = 0) -> list[str]:
    """Everything, each once, in a seeded order."""
    rng = random.Random(seed)
    ours = dict.fromkeys([*(prompt(rng) for _ in range(count)), *plain(), *words(vocabulary)])
    held = re.compile(
        "|".join(rf"\b{re.escape(name)}(?:e?s)?\b" for name in HELD_OUT), re.IGNORECASE
    )
    tests = {normal(text) for text in flickr8k(data, test=True)}
    all_of_them = dict.fromkeys([*(text for text in ours if not held.search(text)), *people(data)])
    out = [text for text in all_of_them if normal(text) not in tests]
    rng.shuffle(out)
    return out


def prompt(rng: random.Random) -> str:
    """A prompt about a person or a thing, every part of it there or not."""
    if rng.random() < 0.06:
        noun = rng.choice(LISTS["objects"])
    else:
        noun = _person(rng)
        if rng.random() < 0.18:
            noun += " " + rng.choice(SAID)
        if rng.random() < 0.15:
            noun += " " + rng.choice(LISTS["activities"])
        elif rng.random() < 0.06:
            noun += f" with a {rng.choice(LISTS['objects'])}"
    if rng.random() < 0.18:
        noun += " " + rng.choice(LISTS["scenes"])
    template = rng.choice(LISTS["templates"]) if rng.random() < 0.75 else "a photo of {}"
    return fix_articles(template.format(f"a {noun}"))


def _person(rng: random.Random) -> str:
    before = [
        rng.choice(words)
        for words, chance in ((LISTS["adjectives"], 0.3), (AGE, 0.25), (RACE, 0.25))
        if rng.random() < chance
    ]
    kind = rng.random()
    gender = rng.choice(GENDER_WORDS) if rng.random() < 0.7 else rng.choice(("man", "woman"))
    if kind < 0.34:
        noun = rng.choice(OCCUPATIONS)
    elif kind < 0.56:
        adjective = rng.choice(("male", "female", "man", "woman", gender))
        noun = rng.choice(WITH_GENDER).format(g=adjective, o=rng.choice(OCCUPATIONS))
    elif kind < 0.86:
        noun = gender
    else:
        noun = rng.choice(LISTS["neutral"])
    return " ".join([*before, noun])


def plain() -> Iterator[str]:
    """Every occupation, object, gender word and adjective by itself and in the commonest templates."""
    for noun in [*OCCUPATIONS, *LISTS["objects"], *GENDER_WORDS, *LISTS["neutral"]]:
        for template in (
            "{n}",
            "a {n}",
            "a photo of a {n}",
            "a photo of the face of a {n}",
            "a picture of a {n}",
            "the {n}",
        ):
            yield fix_articles(template.format(n=noun))
    for occupation in OCCUPATIONS:
        for gender in ("male", "female", "man", "woman"):
            yield fix_articles(f"a photo of a {gender} {occupation}")
    for adjective in [*LISTS["adjectives"], *AGE, *RACE]:
        for noun in ("", "person", "man", "woman"):
            yield fix_articles(f"a photo of a {adjective} {noun}".strip())


def words(vocabulary: list[str]) -> Iterator[str]:
    """Single words, by themselves and as a photo: what unseen words are made of is learned from
    them.
    """
    for word in dict.fromkeys(vocabulary):
        if word.isascii() and word.isalpha() and len(word) > 2:
            yield word
            yield fix_articles(f"a photo of a {word}")


def people(data: Path) -> Iterator[str]:
    """Captions that people wrote: Flickr8k without its test part, Flickr30K without those same
    pictures, COCO.
    """
    yield from flickr8k(data, test=False)
    folder = data / "annotations" / "flickr30k"
    tests = {name.split("_")[0] for name in _test_names(data)}
    for part in ("train", "val", "test_2016"):
        names = (folder / f"{part}_images.txt").read_text().split()
        for i in range(1, 6):
            with gzip.open(folder / f"{part}.{i}.en.gz", "rt", encoding="utf-8") as file:
                for name, text in zip(names, file, strict=True):
                    if re.split(r"[_.]", name)[0] not in tests:
                        yield text.strip()
    with gzip.open(data / "annotations" / "coco_captions_val2017.json.gz", "rt") as file:
        yield from (entry["caption"].strip() for entry in json.load(file)["annotations"])


def flickr8k(data: Path, *, test: bool) -> Iterator[str]:
    """Its captions, of the test pictures or of all others."""
    names = _test_names(data)
    with gzip.open(
        data / "annotations" / "flickr8k" / "Flickr8k.token.txt.gz", "rt", encoding="utf-8"
    ) as file:
        for line in file:
            name, _, text = line.partition("\t")
            if (name.split("#")[0] in names) is test:
                yield text.strip()


def normal(text: str) -> str:
    """Letters and digits only."""
    return " ".join(re.findall(r"[a-z0-9]+", text.lower()))


def _test_names(data: Path) -> set[str]:
    return set((data / "annotations" / "flickr8k" / "Flickr_8k.testImages.txt").read_text().split())
