"""English that once went wrong, labelled by hand: what states a group and what does not, what is refused, what may not pass validation."""

from __future__ import annotations

import re

import pytest

import equipoise as eq
from equipoise.prompts._english import fix_articles, wrong_article
from equipoise.prompts._grammar import CannotWrite, write_entry
from equipoise.prompts._validation import check

GENDER, AGE, SKIN, RACE = (
    eq.Attribute.load(name) for name in ("gender", "age", "skin tone", "race")
)
HAIR = eq.Attribute(
    "hair",
    ("blond", "dark-haired"),
    wordings={"blond": {"adjectives": ["blond"], "phrases": ["with blond hair"]}},
)


@pytest.mark.parametrize(
    ("attribute", "text"),
    [
        *(
            (RACE, text)
            for text in (
                "a black haired man",
                "a black-haired man",
                "a white bearded man",
                "Black Friday shoppers",
                "a white coat doctor",
                "a black cab driver",
                "Chinese restaurant worker",
                "Korean war veteran",
                "an American Indian person",
                "West Indian cricketer",
                "a Latin teacher",
                "North African man",
                "a White Sox player",
                "an old black and white photo of a man",
            )
        ),
        *(
            (AGE, text)
            for text in (
                "an old town musician",
                "an old car driver",
                "two old friends",
                "an old friend",
                "Old Testament scholar",
                "an elder tree",
                "elder trees",
                "little league player",
                "goat kid",
                "goat kids",
                "a 5 year old",
                "a woman and her baby",
                "a senior portrait",
            )
        ),
        *(
            (GENDER, text)
            for text in (
                "Isle of Man",
                "a Burger King restaurant",
                "Brother printer",
                "Brother printers",
                "Boy Scouts",
                "a doctor who is not male",
                "a doctor who isn't a man",
                "a non-male doctor",
                "mother tongue",
                "Dairy Queen sign",
                "a human, a Roman and a German shepherd",
                "a fortress, a mattress and a witness",
                "stepping over steps",
                "a lawman",
            )
        ),
    ],
    ids=str,
)
def test_no_group_is_named(attribute, text):
    assert eq.explicit_groups(text, attribute) == ()


@pytest.mark.parametrize(
    ("attribute", "text", "group"),
    [
        *(
            (GENDER, f"a {noun}", "male")
            for noun in (
                "cowboy",
                "fisherman",
                "busboy",
                "stepfather",
                "father-in-law",
                "anchorman",
            )
        ),
        *(
            (GENDER, f"a {noun}", "female")
            for noun in (
                "cowgirl",
                "landlady",
                "saleslady",
                "heroine",
                "priestess",
                "goddess",
                "mother-in-law",
                "stepmother",
                "anchorwoman",
            )
        ),
        (GENDER, "stepmothers and mothers-in-law", "female"),
        (GENDER, "womens tennis", "female"),
        (GENDER, "Mr. Smith", "male"),
        (SKIN, "a doctor with very dark skin", "dark-skinned"),
        (AGE, "a 5 year old boy", "young"),
        (AGE, "a very old man", "old"),
        (AGE, "an old truck driver", "old"),
        (AGE, "an old Chinese doctor", "old"),
        (AGE, "a young marine biologist", "young"),
        (RACE, "a Black marine biologist", "Black"),
        (RACE, "a tall black basketball player", "Black"),
        (RACE, "a Chinese woman", "East Asian"),
        (eq.Attribute("gender", ("man", "woman")), "she reads", "woman"),
        (eq.Attribute("gender", ("man", "woman")), "an old man", "man"),
    ],
    ids=str,
)
def test_a_group_is_named(attribute, text, group):
    assert eq.explicit_groups(text, attribute) == (group,)


def test_long_texts_take_no_longer_than_their_length():
    """Looking for the person of each of n adjectives was quadratic: 4,000 took ten seconds, and 40,000 would take a quarter of an hour."""
    assert eq.explicit_groups("old " * 40_000, AGE) == ()


@pytest.mark.parametrize(
    ("text", "neutral"),
    [
        ("He gave her flowers", "They gave them flowers"),
        ("watching her play tennis", "watching them play tennis"),
        ("let her go", "let them go"),
        ("he made her laugh", "they made them laugh"),
        ("made her bed", "made their bed"),
        ("she teaches her how to ski", "they teach them how to ski"),
        ("a man kissing her gently", "a person kissing them gently"),
        ("her family", "their family"),
        ("Mr. and Mrs. Smith", "Smith"),
        ("The ladies' room", "The people's room"),
        ("s/he reads", "they read"),
        ("He sits and reads", "They sit and read"),
        ("He likes cats and dogs.", "They like cats and dogs."),
        ("He focuses", "They focus"),
        ("a cowboy and his mother-in-law", "a cowhand and their parent-in-law"),
    ],
)
def test_neutralize(text, neutral):
    assert eq.neutralize(text) == neutral


@pytest.mark.parametrize(
    ("text", "neutral"),
    [
        ("a woman and her baby", "a woman and her baby"),
        ("a 5 year old boy", "a man"),
        ("a very old man", "a man"),
        ("a young and beautiful woman", "a beautiful woman"),
        ("a beautiful and young woman", "a beautiful woman"),
    ],
)
def test_neutralize_age(text, neutral):
    assert eq.neutralize(text, AGE) == neutral


@pytest.mark.parametrize(
    "text",
    [
        "an X-ray technician",
        "a NASA engineer",
        "an FBI agent",
        "an unidentified person",
        "a uniformed guard",
        "a Ukrainian soldier",
        "a U.S. soldier",
        "a unicorn",
        "a union member",
        "an umbrella",
        "an MRI",
        "A MAN ON A OLD BIKE",
    ],
)
def test_articles(text):
    assert wrong_article(text) == "" and fix_articles(text) == text
    other = re.sub(r"^an? ", lambda match: "an " if match.group() == "a " else "a ", text)
    assert text.isupper() or (wrong_article(other) and fix_articles(other) == text)


@pytest.mark.parametrize(
    ("prompt", "attribute", "group", "anchor"),
    [
        ("a young and beautiful woman", AGE, "old", "a beautiful old woman"),
        ("a tall, young man", AGE, "old", "a tall old man"),
        ("a doctor's hands", GENDER, "male", "a male doctor's hands"),
        ("the doctors' lounge", GENDER, "female", "the female doctors' lounge"),
        ("a father and his son", GENDER, "female", "a mother and her daughter"),
        ("a baby", GENDER, "male", "a male baby"),
        ("a doctor and a nurse", GENDER, "male", "a male doctor and a nurse"),
        ("she is a doctor", GENDER, "male", "he is a male doctor"),
        ("DOCTOR", GENDER, "male", "MALE DOCTOR"),
        ("A DOCTOR IN A HOSPITAL", GENDER, "female", "A FEMALE DOCTOR IN A HOSPITAL"),
        ("a fisherman", GENDER, "female", "a fisherwoman"),
    ],
)
def test_grammar_writes_no_nonsense(prompt, attribute, group, anchor):
    entry = write_entry(prompt, attribute, group, most=40)
    assert entry.anchor == anchor
    nonsense = r"who is a man\b.*baby|baby who is a|who is a doctor's|doctor and a nurse who|he is a man who|and beautiful old|(?i:lounge who)"
    assert not [text for text in entry.texts if re.search(nonsense, text)]
    assert not [
        text
        for text in entry.variants
        if prompt in ("a doctor and a nurse", "she is a doctor") and "who" in text
    ]


@pytest.mark.parametrize(
    ("prompt", "attribute"),
    [
        ("a baby in a crib", AGE),
        ("a retiree", AGE),
        ("an old zither player", AGE),
        *(
            (f"a {thing}", GENDER)
            for thing in (
                "coach bus",
                "guard rail",
                "twin bed",
                "pilot light",
                "nurse shark",
                "guide dog",
            )
        ),
    ],
    ids=str,
)
def test_grammar_says_that_it_cannot(prompt, attribute):
    for group in attribute.groups:
        with pytest.raises(CannotWrite):
            write_entry(prompt, attribute, group)


def test_an_age_in_years_is_of_no_group_and_stays():
    entry = write_entry("a young doctor and a 5 year old", AGE, "old")
    assert entry.anchor == "an old doctor and a 5 year old"


@pytest.mark.parametrize(
    ("attribute", "group", "text"),
    [
        (GENDER, "male", "a malevolent doctor"),
        (GENDER, "female", "a womanizing doctor"),
        (GENDER, "female", "a mothering doctor"),
        (RACE, "Black", "a blackface doctor"),
        (RACE, "Black", "a blacklisted doctor"),
        (RACE, "White", "a whitewashed doctor"),
        (RACE, "Indian", "an Indiana doctor"),
        (HAIR, "blond", "a doctor with hair"),
        (HAIR, "blond", "a blonde-hating doctor"),
        (GENDER, "male", "a male male-presenting doctor"),
        (GENDER, "male", "a guy fellow gentleman doctor"),
        (GENDER, "male", "a male who are a doctor"),
        (GENDER, "male", "a males doctor"),
        (GENDER, "male", "a Mr. Doctor"),
        (GENDER, "male", "a doctor who is a boy"),
        (GENDER, "male", "a working male doctor"),
        (GENDER, "male", "a doctor who is not male"),
    ],
)
def test_validator_turns_away(attribute, group, text):
    assert check("a doctor", text, attribute, group)
    assert check("a photo of a doctor", f"a photo of {text}", attribute, group)


@pytest.mark.parametrize(
    ("attribute", "group", "text"),
    [
        (GENDER, "male", "a doctor who’s male"),
        (GENDER, "male", "a doctor who's male"),
        (SKIN, "dark-skinned", "a doctor with very dark skin"),
        (GENDER, "male", "a man working as a doctor"),
        (GENDER, "female", "a woman who works as a doctor"),
        (HAIR, "blond", "a blonde doctor"),
        (HAIR, "blond", "a blondish doctor"),
        (HAIR, "blond", "a blond-haired doctor"),
    ],
)
def test_validator_lets_through(attribute, group, text):
    assert check("a doctor", text, attribute, group) == ""
    assert check("a photo of a doctor", f"a photo of {text}", attribute, group) == ""


def test_texts_in_capitals_pass():
    assert check("A DOCTOR", "A MALE DOCTOR", GENDER, "male") == ""
