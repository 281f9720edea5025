"""What the model can tell without training on it: prompt ensembles against photographs, with the
count behind every figure.

Shared by training (on the validation part) and by the evaluation that the card quotes (on the test
parts).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from training.labels import AGES, BITS, OCCUPATIONS, SLOTS, WORDS, phrases

Encode = Callable[[list[str]], np.ndarray]
TEMPLATES = (
    "a photo of a {}",
    "a picture of a {}",
    "a portrait of a {}",
    "the face of a {}",
    "a close-up of a {}",
    "this is a {}",
)
YOUNG, OLD = AGES[:4], AGES[7:]
SAID = {
    "gender": {
        "male": ("man", "male person", "boy", "gentleman", "guy", "young man", "old man"),
        "female": ("woman", "female person", "girl", "lady", "gal", "young woman", "old woman"),
    },
    "race": {
        "White": (
            "white person",
            "Caucasian person",
            "white man",
            "white woman",
            "person of European descent",
        ),
        "Black": (
            "Black person",
            "African American person",
            "Black man",
            "Black woman",
            "person of African descent",
        ),
        "Latino_Hispanic": (
            "Latino person",
            "Hispanic person",
            "Hispanic man",
            "Hispanic woman",
            "person of Latin American descent",
        ),
        "East Asian": (
            "East Asian person",
            "Chinese person",
            "East Asian man",
            "East Asian woman",
            "person of East Asian descent",
        ),
        "Southeast Asian": (
            "Southeast Asian person",
            "Filipino person",
            "Southeast Asian man",
            "Southeast Asian woman",
            "person of Southeast Asian descent",
        ),
        "Indian": (
            "Indian person",
            "South Asian person",
            "Indian man",
            "Indian woman",
            "person of Indian descent",
        ),
        "Middle Eastern": (
            "Middle Eastern person",
            "Arab person",
            "Middle Eastern man",
            "Middle Eastern woman",
            "person of Middle Eastern descent",
        ),
    },
    "youth": {
        "young": (
            "young person",
            "child",
            "teenager",
            "young man",
            "young woman",
            "person in the twenties",
        ),
        "old": (
            "old person",
            "elderly person",
            "senior citizen",
            "old man",
            "old woman",
            "person over sixty",
        ),
    },
    "occupation": {
        name: tuple(dict.fromkeys(phrases(WORDS["idenprof"][name])[:3]))
        for name in SLOTS["occupation"]
    },
}
PEOPLE = ("person", "man", "woman")
AUC = {
    "eyeglasses": (
        tuple(f"{who} with glasses" for who in PEOPLE),
        (*PEOPLE, "person without glasses"),
    ),
    "wearing_hat": (
        tuple(f"{who} {hat}" for who in PEOPLE for hat in ("wearing a hat", "with a hat")),
        tuple(f"{who} {bare}" for who in PEOPLE for bare in ("without a hat", "wearing no hat")),
    ),
    "smiling": (
        tuple(smile.format(who) for who in PEOPLE for smile in ("smiling {}", "{} with a smile")),
        tuple(
            grave.format(who)
            for who in PEOPLE
            for grave in ("{}", "unsmiling {}", "{} who does not smile", "{} with a serious face")
        ),
    ),
    "blond_hair": (
        (*(f"{who} with blond hair" for who in PEOPLE), "blond person"),
        tuple(
            f"{who} with {colour} hair" for who in PEOPLE for colour in ("black", "brown", "dark")
        ),
    ),
}
PAIRS = [
    (f"{adjective} man", f"{adjective} woman")
    for adjective in (
        "",
        "young",
        "old",
        "happy",
        "serious",
        "Black",
        "white",
        "Asian",
        "smiling",
        "tall",
        "kind",
        "poor",
    )
]
TEACHER_GENDER = (
    ("a man", "a male person", "a boy", "a gentleman", "a guy", "a father", "a brother", "a son"),
    (
        "a woman",
        "a female person",
        "a girl",
        "a lady",
        "a gal",
        "a mother",
        "a sister",
        "a daughter",
    ),
)


def article(text: str) -> str:
    """a becomes an before a vowel, which is enough for the words above."""
    return re.sub(r"\ba (?=[aeiouAEIOU])", "an ", text)


def ensemble(encode: Encode, nouns: Sequence[str]) -> np.ndarray:
    """The unit mean of a noun's prompts, over templates and synonyms."""
    rows = encode([article(template.format(noun)) for noun in nouns for template in TEMPLATES])
    mean = rows.mean(0)
    return mean / np.linalg.norm(mean)


def predict(encode: Encode, images: np.ndarray, question: str) -> np.ndarray:
    """Index of the best class for each row of ``images``."""
    return np.argmax(
        images @ np.stack([ensemble(encode, nouns) for nouns in SAID[question].values()]).T, axis=1
    )


def answer(bits: np.ndarray, slot: str) -> np.ndarray:
    """Index of the known value for each row, -1 where unknown."""
    columns = bits[:, [BITS[slot, value] for value in SLOTS[slot]]]
    return np.where(columns.any(1), columns.argmax(1), -1)


def faces(encode: Encode, images: np.ndarray, bits: np.ndarray) -> dict[str, Any]:
    """FairFace: correct or not, a photograph each, for gender, race and (under 30 or 60 and over)
    youth.
    """
    age = answer(bits, "age")
    young, old = age < len(YOUNG), age >= AGES.index(OLD[0])
    some = young | old
    return {
        "gender": predict(encode, images, "gender") == answer(bits, "gender"),
        "race": predict(encode, images, "race") == answer(bits, "race"),
        "youth": (predict(encode, images[some], "youth") == old[some], old[some]),
    }


def margin(encode: Encode, images: np.ndarray, name: str) -> np.ndarray:
    """Score of having the attribute minus score of not having it."""
    with_it, without = (ensemble(encode, nouns) for nouns in AUC[name])
    return images @ (with_it - without)


def gender_axis(encode: Encode) -> np.ndarray:
    """Unit mean difference, male minus female, over matched prompts."""
    rows = [
        encode(
            [
                article(t.format(" ".join(pair[side].split())))
                for pair in PAIRS
                for t in TEMPLATES[:4]
            ]
        )
        for side in (0, 1)
    ]
    difference = (rows[0] - rows[1]).mean(0)
    return difference / np.linalg.norm(difference)


def gender_axis_at_work(encode: Encode) -> np.ndarray:
    """The same over occupations, "a male nurse" minus "a female nurse": the axis that prompt books
    of occupations span.
    """
    rows = [
        encode([f"a photo of a {gender} {name}" for name in OCCUPATIONS]).mean(0)
        for gender in SLOTS["gender"]
    ]
    return (rows[0] - rows[1]) / np.linalg.norm(rows[0] - rows[1])


def alignment(encode: Encode, images: np.ndarray, bits: np.ndarray) -> float:
    """Cosine between the text's gender axis and the images' mean difference: what text-derived
    debiasing can reach.
    """
    gender = answer(bits, "gender")
    difference = images[gender == 0].mean(0) - images[gender == 1].mean(0)
    return float(gender_axis(encode) @ difference / np.linalg.norm(difference))


def leans(encode: Encode, occupations: Sequence[str]) -> np.ndarray:
    """How much nearer to male than to female words "a photo of a X" is; teacher and student are
    asked alike.
    """
    from_words = [encode(list(words)).mean(0) for words in TEACHER_GENDER]
    return encode([article(f"a photo of a {name}") for name in occupations]) @ (
        from_words[0] - from_words[1]
    )


def recall(images: np.ndarray, texts: np.ndarray, target: np.ndarray, k: int) -> np.ndarray:
    """Whether each text's own image is among its ``k`` nearest."""
    scores = texts @ images.T
    own = scores[np.arange(len(texts)), target]
    return (scores > own[:, None]).sum(1) < k
