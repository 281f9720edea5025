"""Write the curated books of the package: chosen wordings, set into prompts by the grammar, what
reads badly struck out.

PYTHONPATH=src python scripts/write_books.py [FOLDER]
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from equipoise.prompts._attribute import Attribute
from equipoise.prompts._english import article
from equipoise.prompts._grammar import RULES, write_entry
from equipoise.prompts._prompt_book import Entry, PromptBook, Source
from equipoise.prompts._validation import check_book

FOLDER = Path(__file__).resolve().parent.parent / "src" / "equipoise" / "prompts" / "books"
DATE = "2026-11-15"
NOTE = (
    "Wordings chosen for each group (attributes/*.toml), set into the prompts by the grammar,"
    " unnatural combinations struck out (scripts/write_books.py), checked by the validator. Up to"
    " ten variants; fewer where English has no more that are natural."
)
MOST = 10

# Appendix C of the paper; the gender that the original model leans to, which the explicit prompts
# name.
MALE_LEANING = """doctor, aerospace engineer, computer programmer, electrical engineer, scientist, musician, writer, architect, civil engineer, engineer,
software developer, coach, dentist, professor, CEO, skateboarder, surfer, baseball player, football player, soccer player"""
FEMALE_LEANING = """artist, designer, painter, photographer, singer, childcare worker, clerk, housekeeper, massage therapist, nurse, psychologist,
social worker, teacher, tennis player"""

# Appendix E: the FACET classes with a thousand samples or more.
FACET = """lawman, laborer, boatman, basketball player, tennis player, backpacker, speaker, soldier, farmer, guard, dancer, singer, ballplayer,
soccer player, repairman, guitarist, seller, motorcyclist"""

CELEBA = ["a photo of a person with blond hair", "a photo of a person with non-blond hair"]

EVERYDAY = """
smiling at the camera, laughing, reading a book, reading a newspaper, writing in a notebook, drinking coffee, eating a sandwich, eating breakfast,
cooking in a kitchen, baking bread, washing dishes, cleaning a window, ironing a shirt, doing laundry, shopping for groceries, pushing a shopping cart,
paying at a counter, carrying a bag, holding an umbrella, holding a cat, walking a dog, feeding birds, riding a bicycle, riding a horse,
driving a car, waiting for a bus, sitting on a bench, sitting at a desk, standing in the street, walking in a park, running on a beach,
swimming in a pool, playing soccer, playing chess, playing the guitar, playing the piano, playing video games, singing on a stage, dancing at a party,
painting a picture, taking a selfie, talking on the phone, using a laptop, watching television, listening to music, giving a speech,
teaching a class, fixing a car, repairing a bicycle, planting a tree, fishing at a lake, climbing a mountain, hiking in a forest, doing yoga,
lifting weights, sleeping on a couch, wearing glasses, wearing a suit, wearing a hat, working in an office
"""

STRUCK = [  # what the grammar can make and nobody would say
    r"\bwoman \w+man\b",  # a woman lawman
    r"\bfellow who (?:is an?|works)|\bfellow working\b",
    r"\b(?:youth|youngster|young)\b.*\b(?:with a youthful|who looks young)\b",
    (
        r"\b(?:old|older|elder|elderly|senior)\b.*\b(?:of advanced age|advanced in years|who looks"
        r" old)\b"
    ),
    r"\b(?:youthful|older|senior|elderly) (?:guy|fellow)\b",
    r"\bmale older adult\b",
]


def names(text: str) -> list[str]:
    return [" ".join(name.split()) for name in text.split(",")]


def photo_of(noun: str) -> str:
    return f"a photo of {article(noun.split(maxsplit=1)[0])} {noun}"


def book_of(prompts: list[str], attribute: Attribute, note: str = "") -> PromptBook:
    rows: dict[str, dict[str, Entry]] = {}
    for prompt in prompts:
        for group in attribute.groups:
            entry = write_entry(prompt, attribute, group, most=40)
            kept = [
                text
                for text in entry.variants
                if not any(re.search(pattern, text) for pattern in STRUCK)
            ]
            rows.setdefault(prompt, {})[group] = Entry(
                anchor=entry.anchor, variants=tuple(kept[:MOST])
            )
    source = Source(writer="curated", date=DATE, instructions=RULES, note=f"{note} {NOTE}".strip())
    return PromptBook(sources=(source,), prompts=rows)


def books() -> dict[str, tuple[PromptBook, Attribute]]:
    gender, age, skin, race = (
        Attribute.load(name) for name in ("gender", "age", "skin tone", "race")
    )
    male, female, facet = names(MALE_LEANING), names(FEMALE_LEANING), names(FACET)
    people = [
        "a photo of a person",
        *(f"a photo of a person {activity}" for activity in names(EVERYDAY)),
    ]
    explicit = [photo_of(f"male {noun}") for noun in male] + [
        photo_of(f"female {noun}") for noun in female
    ]
    assert len(male) + len(female) == 34 and len(facet) == 18 and len(people) == 61
    plan: dict[str, tuple[list[str], Attribute, str]] = {
        "occupations-gender": (
            [photo_of(noun) for noun in (*male, *female)],
            gender,
            "The 34 occupations of the paper's appendix C, neutral.",
        ),
        "occupations-explicit-gender": (
            explicit,
            gender,
            "The 34 group-explicit prompts of appendix C, rewritten for both groups.",
        ),
        "celeba-gender-age": (
            CELEBA,
            gender & age,
            "CelebA's two class prompts as the paper's released code words them.",
        ),
        "facet-gender": (
            [photo_of(noun) for noun in facet]
            + [
                f"a photo of a person who is {photo_of(noun).removeprefix('a photo of ')}"
                for noun in facet
            ],
            gender,
            "FACET's 18 occupations in the paper's template and in its released code's.",
        ),
    }
    for attribute in (gender, age, skin, race, gender & age, gender & skin):
        name = f"people-{attribute.name.replace(' & ', '-').replace(' ', '-')}"
        plan[name] = (
            people,
            attribute,
            f"A photo of a person, and 60 everyday prompts, by {attribute.name}.",
        )
    return {
        name: (book_of(prompts, attribute, note), attribute)
        for name, (prompts, attribute, note) in plan.items()
    }


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    for name, (book, attribute) in books().items():
        for problem in check_book(book, attribute):
            print(name, problem)
        book.save(folder / f"{name}.json")
        spread = book.statistics()["variants"]
        print(
            f"{name}: {len(book)} prompts, {len(book.groups)} groups, {spread['min']} to"
            f" {spread['max']} variants"
        )


if __name__ == "__main__":
    main()
