"""What is known of a photograph, and what a caption says: bits over slots, so that two matrix
products tell which pairs fit.

A slot is one question (gender, age, race, occupation, one a CelebA attribute). A photograph sets
one bit in each slot whose answer is known. A caption sets the bits of all answers that it allows,
in each slot that it mentions.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

WORDS = tomllib.loads((Path(__file__).parent / "words.toml").read_text())
GENDERS = ("male", "female")
AGES = ("0-2", "3-9", "10-19", "20-29", "30-39", "40-49", "50-59", "60-69", "70+")
RACES = (
    "White",
    "Black",
    "Latino_Hispanic",
    "East Asian",
    "Southeast Asian",
    "Indian",
    "Middle Eastern",
)
YES_NO = ("yes", "no")
ATTRIBUTES = tuple(WORDS["celeba"])
SLOTS: dict[str, tuple[str, ...]] = {
    "gender": GENDERS,
    "age": AGES,
    "race": RACES,
    "young": YES_NO,
    "occupation": tuple(WORDS["idenprof"]),
    **dict.fromkeys(ATTRIBUTES, YES_NO),
}
BITS = {
    pair: i
    for i, pair in enumerate((slot, value) for slot, values in SLOTS.items() for value in values)
}


def phrases(text: str) -> list[str]:
    """A list of words.toml: parts between semicolons."""
    return [part.strip() for part in text.replace("\n", " ").split(";") if part.strip()]


def bits(known: Mapping[str, Iterable[str]]) -> np.ndarray:
    """One row: the bits of these values in these slots."""
    row = np.zeros(len(BITS), np.uint8)
    for slot, values in known.items():
        for value in values:
            row[BITS[slot, value]] = 1
    return row


def membership() -> np.ndarray:
    """(bits, slots): which slot a bit belongs to."""
    slots = list(SLOTS)
    out = np.zeros((len(BITS), len(slots)), np.uint8)
    for (slot, _), i in BITS.items():
        out[i, slots.index(slot)] = 1
    return out


OCCUPATIONS, HELD_OUT = phrases(WORDS["occupations"]), phrases(WORDS["held_out"])
