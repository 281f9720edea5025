"""``Attribute``: groups, intersections, labels, wordings, and a TOML file of one's own."""

from __future__ import annotations

import pytest

import equipoise as eq
from equipoise.errors import InputError
from equipoise.prompts._attribute import READY_MADE, Wordings
from equipoise.prompts._grammar import write_entry

HAIR = """
name = "hair"
[groups.blond]
labels = ["Blond_Hair"]
adjectives = ["blond", "fair-haired"]
phrases = ["with blond hair"]
[groups.dark-haired]
nouns = ["brunette"]
adjectives = ["dark-haired"]
"""


def test_public_form():
    gender = eq.Attribute("gender", ("male", "female"), labels={"Man": "male", 1: "male"})
    age = eq.Attribute("age", ("young", "old"))
    both = gender & age
    assert both.groups == ("young male", "old male", "young female", "old female")
    assert set((age & gender).groups) == set(
        both.groups
    )  # English orders the words, whatever the order of &
    assert both.split("old female") == ("female", "old")
    assert (
        gender.group(1)
        == gender.group("Man")
        == gender.group("male")
        == gender.group("Male")
        == "male"
    )
    assert both.group(("Man", "old")) == "old male"
    assert gender.wordings["female"].nouns["person"][0] == "woman"  # known by the attribute's name
    assert eq.Attribute("gender", ("man", "woman")).wordings["woman"] == gender.wordings["female"]
    assert eq.Attribute("coat", ("White", "Black")).wordings["Black"] == Wordings(
        adjectives=("Black",)
    )


def test_three_way_intersection_names():
    three = eq.Attribute.load("gender & skin tone & age")
    assert "young dark-skinned female" in three.groups and len(three.groups) == 8
    for group in three.groups:
        assert three.group(three.split(group)) == group


@pytest.mark.parametrize("name", READY_MADE)
def test_ready_made_attributes_word_every_group_and_share_no_word(name):
    attribute = eq.Attribute.load(name)
    words = {
        group: {word.lower() for word in attribute.wordings[group].words()}
        for group in attribute.groups
    }
    for group in attribute.groups:
        assert attribute.wordings[group].adjectives
        for other in attribute.groups:
            assert group == other or not words[group] & words[other]


def test_fairface_labels():
    race = eq.Attribute.load("race")
    labels = (
        "White",
        "Black",
        "Latino_Hispanic",
        "East Asian",
        "Southeast Asian",
        "Indian",
        "Middle Eastern",
    )
    assert tuple(race.group(label) for label in labels) == race.groups


def test_own_in_toml(tmp_path):
    path = tmp_path / "hair.toml"
    path.write_text(HAIR)
    hair = eq.Attribute.load(path)
    assert hair.groups == ("blond", "dark-haired") and hair.group("Blond_Hair") == "blond"
    assert hair.wordings["dark-haired"].nouns == {"person": ("brunette",)}
    assert eq.Attribute.load(f"{path} & age") == hair & eq.Attribute.load("age")
    assert "old blond female" in eq.Attribute.load(f"{path} & gender & age").groups


def test_a_group_without_wordings_is_worded_by_its_name():
    mood = eq.Attribute("mood", ("happy", "sad"), wordings={"sad": ["sad", "unhappy"]})
    assert mood.wordings["happy"] == Wordings(adjectives=("happy",))
    assert mood.wordings["sad"].adjectives == ("sad", "unhappy")


def test_more_groups_than_the_ready_made_one_has():
    gender = eq.Attribute("gender", ("male", "female", "nonbinary"))
    assert gender.wordings["female"].compounds == ("woman",) and gender.wordings[
        "nonbinary"
    ].adjectives == ("nonbinary",)
    assert (
        write_entry("a woman and her dog", gender, "nonbinary").anchor
        == "a nonbinary person and their dog"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("g", ("male",)), "two groups or more"),
        (("g", "male"), "sequence"),
        (("g", ("a", "A")), "same name"),
        (("g", ("a", " b")), "space"),
        (("g", ("a", 2)), "2"),
        (("", ("a", "b")), "name"),
    ],
)
def test_bad_attributes(arguments, message):
    with pytest.raises(InputError, match=message):
        eq.Attribute(*arguments)


def test_bad_details(tmp_path):
    gender = eq.Attribute.load("gender")
    with pytest.raises(InputError, match="zzz"):
        gender.group("zzz")
    with pytest.raises(InputError, match="no group"):
        eq.Attribute("g", ("a", "b"), labels={"x": "c"})
    with pytest.raises(InputError, match="share"):
        gender & (gender & eq.Attribute.load("age"))
    with pytest.raises(TypeError):
        gender & "age"
    with pytest.raises(InputError, match="ready-made"):
        eq.Attribute.load("hair")
    with pytest.raises(InputError, match="cannot be read"):
        eq.Attribute.load(tmp_path / "no.toml")
    with pytest.raises(InputError, match="no field"):
        eq.Attribute("g", ("a", "b"), wordings={"a": {"adverbs": ["x"]}})
    for text, message in (
        ("name = ", "not TOML"),
        ("name = 'x'", "groups"),
        ("[groups.a]", "name"),
        ("name = 'x'\n[groups.a]\n", "two groups"),
        ("name='x'\n[groups.a]\nadjectives=3\n[groups.b]\n", "list of words"),
        ("name='x'\ngroups=['a', 'b']", "table per group"),
        ("name='x'\nposition='first'\n[groups.a]\n[groups.b]\n", "position is 'first'"),
        ("name='x'\n[groups.a]\nadjectives=['red']\n[groups.b]\nphrases=['Red']\n", "two groups"),
    ):
        path = tmp_path / "bad.toml"
        path.write_text(text)
        with pytest.raises(InputError, match=message):
            eq.Attribute.load(path)
