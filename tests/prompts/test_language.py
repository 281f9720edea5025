"""The words: neutralize, explicit_groups, the grammar and the validator, and that the last two agree with each other."""

from __future__ import annotations

import gzip
import json
import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

import equipoise as eq
from equipoise.errors import InputError
from equipoise.prompts._book_writers import GrammarWriter
from equipoise.prompts._english import article, is_person, is_plural, plural, singular
from equipoise.prompts._grammar import CannotWrite, write_entry
from equipoise.prompts._lexicon import PERSON_NOUNS
from equipoise.prompts._validation import check, check_answer
from tests.helpers.common import shared_data

GENDER, AGE, SKIN, RACE = (
    eq.Attribute.load(name) for name in ("gender", "age", "skin tone", "race")
)


# --- Articles and plurals ------------------------------------------------------------------------------------------------


def test_articles():
    for word in (
        "engineer",
        "hour",
        "heir",
        "FBI",
        "MRI",
        "elderly",
        "East",
        "unattractive",
        "umpire",
        "8",
        "uninjured",
        "unimpressed",
        "11",
    ):
        assert article(word) == "an", word
    for word in (
        "doctor",
        "CEO",
        "university",
        "user",
        "European",
        "one",
        "US",
        "ukulele",
        "uniformed",
        "unicyclist",
        "house",
        "1",
        "utility",
    ):
        assert article(word) == "a", word


@pytest.mark.parametrize("noun", sorted(PERSON_NOUNS - {"people"}))
def test_plurals_come_back(noun):
    assert singular(plural(noun)) == noun and is_plural(plural(noun)) and not is_plural(noun)


def test_every_noun_that_is_written_is_known_to_name_a_person():
    for attribute in (GENDER, AGE, SKIN, RACE):
        for wordings in attribute.wordings.values():
            for neutral, nouns in (*wordings.nouns.items(), *wordings.also_nouns.items()):
                for noun in (neutral.split(" of ")[0], *nouns):
                    assert is_person(noun.split()[-1]) and is_person(plural(noun).split()[-1]), noun


# --- neutralize ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "neutral"),
    [
        ("A man and a woman walking their dog", "A person and a person walking their dog"),
        ("men and women at work", "people at work"),
        ("a man or woman", "a person"),
        ("two boys and a girl", "two children and a child"),
        ("A woman brushing her hair", "A person brushing their hair"),
        ("the waitress gives her a menu", "the waiter gives them a menu"),
        ("a girl, and they help her", "a child, and they help them"),
        ("he saw her running", "they saw them running"),
        ("her running shoes", "their running shoes"),
        ("The car is his.", "The car is theirs."),
        ("a friend of hers", "a friend of theirs"),
        ("He runs and reads a book.", "They run and read a book."),
        ("she carries a bag, he watches", "they carry a bag, they watch"),
        ("She's happy", "They're happy"),
        ("he's been there", "they've been there"),
        ("A man himself", "A person themself"),
        ("he or she must bring his or her coat", "they must bring their coat"),
        ("An actress in red", "An actor in red"),
        ("a policeman's hat, two firemen", "a police officer's hat, two firefighters"),
        ("an heiress", "an heir"),
        ("a mother and her daughter", "a parent and their child"),
        ("grandmothers", "grandparents"),
        ("Mr. Smith and Mrs. Jones", "Smith and Jones"),
        ("A lady doctor and women nurses", "A doctor and nurses"),
        ("A female tennis player", "A tennis player"),
        ("Female engineer at work", "Engineer at work"),
        ("a doctor who is a woman", "a doctor"),
        ("A MAN IN BLACK", "A PERSON IN BLACK"),
        ("an old gentleman", "an old person"),
        (
            "a king size bed and a female dog, man-made",
            "a king size bed and a female dog, man-made",
        ),
        ("a man cooks, women model", "a person cooks, people model"),
        ("  two  spaces,a person ", "  two  spaces,a person "),
        ("", ""),
    ],
)
def test_neutralize_in_full(text, neutral):
    assert eq.neutralize(text) == neutral
    assert eq.neutralize(neutral) == neutral


def test_neutralize_by_the_paper_and_as_released():
    nine = "man woman boy girl gentleman guy lady female male"
    assert eq.neutralize(nine, protocol="paper") == " ".join(["person"] * 9)
    assert (
        eq.neutralize("Men, women, his LADY and a human snowman", protocol="paper")
        == "Men, women, his PERSON and a human snowman"
    )
    released = eq.neutralize(
        "a dark-skinned man , fair complexioned, medium complexion, medium complexioned girl",
        protocol="released",
    )
    assert released == "a person,, medium complexion, person"


def test_neutralize_other_attributes():
    assert eq.neutralize("an elderly man in an old car", AGE) == "a man in an old car"
    assert eq.neutralize("a dark-skinned woman with a light complexion", SKIN) == "a woman"
    assert eq.neutralize("an Indian chef, Indian food", RACE) == "a chef, Indian food"
    assert eq.neutralize("an old Black lady", GENDER & AGE) == "a Black person"
    for bad, options in ((3, {}), ("x", {"protocol": "other"})):
        with pytest.raises(InputError):
            eq.neutralize(bad, **options)


@given(st.text(max_size=60))
def test_neutralize_takes_any_text_and_leaves_none_explicit(text):
    assert eq.explicit_groups(eq.neutralize(text), GENDER) == ()


# --- explicit_groups: the gate -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "attribute", "groups"),
    [
        ("a female doctor", GENDER, ("female",)),
        ("a doctor", GENDER, ()),
        ("a man and a woman", GENDER, ("male", "female")),
        ("the doctor and his dog", GENDER, ("male",)),
        ("a woman", GENDER & AGE, ("young female", "old female")),
        ("an old woman", GENDER & AGE, ("old female",)),
        ("an old doctor", GENDER & AGE, ("old male", "old female")),
        ("a lawman", GENDER, ()),
        ("a policeman", GENDER, ("male",)),
        ("a human snowman, manhattan", GENDER, ()),
        ("an old car", AGE, ()),
        ("a senior engineer", AGE, ()),
        ("a senior citizen", AGE, ("old",)),
        ("a young black woman in a white shirt", RACE, ("Black",)),
        ("a black and white photo of a person", RACE, ()),
        ("a person with a black dog in the White House", RACE, ()),
        ("an Indian chef", RACE, ("Indian",)),
        ("Indian food", RACE, ()),
        ("a Southeast Asian nurse", RACE, ("Southeast Asian",)),
        ("a nurse of East Asian descent", RACE, ("East Asian",)),
        ("people with dark skin", SKIN, ("dark-skinned",)),
        ("a dark room with a person", SKIN, ()),
    ],
)
def test_gate(text, attribute, groups):
    assert eq.explicit_groups(text, attribute) == groups


def test_gate_refuses_what_is_no_text():
    with pytest.raises(InputError):
        eq.explicit_groups(["a man"], GENDER)


# --- The grammar ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prompt", "attribute", "group", "anchor", "among"),
    [
        (
            "a photo of a doctor",
            GENDER,
            "male",
            "a photo of a male doctor",
            "a photo of a man who is a doctor",
        ),
        (
            "A photo of an engineer",
            GENDER,
            "female",
            "A photo of a female engineer",
            "A photo of an engineer who is a woman",
        ),
        (
            "a photo of a doctor",
            AGE,
            "old",
            "a photo of an old doctor",
            "a photo of an elderly doctor",
        ),
        (
            "a photo of an elderly doctor",
            AGE,
            "young",
            "a photo of a young doctor",
            "a photo of a doctor who is young",
        ),
        (
            "a photo of a person",
            GENDER,
            "female",
            "a photo of a female person",
            "a photo of a woman",
        ),
        (
            "a photo of a female doctor",
            GENDER,
            "male",
            "a photo of a male doctor",
            "a photo of a man working as a doctor",
        ),
        (
            "a photo of a female doctor",
            GENDER,
            "female",
            "a photo of a female doctor",
            "a photo of a woman doctor",
        ),
        ("a woman and her dog", GENDER, "male", "a man and his dog", "a gentleman and his dog"),
        ("a man watches, and she helps him", GENDER, None, None, None),
        (
            "a mother holding her child",
            GENDER,
            "male",
            "a father holding his child",
            "a dad holding his child",
        ),
        (
            "a nurse brushing his teeth",
            GENDER,
            "female",
            "a female nurse brushing her teeth",
            "a woman nurse brushing her teeth",
        ),
        (
            "two people riding bikes",
            GENDER,
            "female",
            "two female people riding bikes",
            "two ladies riding bikes",
        ),
        ("women doctors", GENDER, "male", "male doctors", "men who work as doctors"),
        ("three nurses", GENDER, "female", "three female nurses", "three women nurses"),
        (
            "Doctors in a hospital",
            AGE,
            "old",
            "Old doctors in a hospital",
            "Elderly doctors in a hospital",
        ),
        ("a smiling person", GENDER, "male", "a smiling male person", "a smiling man"),
        (
            "a photo of a marine biologist",
            GENDER,
            "female",
            "a photo of a female marine biologist",
            "a photo of a woman who is a marine biologist",
        ),
        (
            "a photo of a CEO",
            RACE,
            "East Asian",
            "a photo of an East Asian CEO",
            "a photo of a CEO of East Asian descent",
        ),
        (
            "someone riding a horse",
            GENDER,
            "male",
            "a male person riding a horse",
            "a man riding a horse",
        ),
        ("a child's toy", GENDER, "male", "a male child's toy", "a boy's toy"),
        ("a police officer", GENDER, "female", "a female police officer", "a policewoman"),
        (
            "a photo of a person",
            GENDER & AGE,
            "old female",
            "a photo of an old female person",
            "a photo of an elderly woman",
        ),
        (
            "a photo of a nurse",
            GENDER & SKIN,
            "dark-skinned male",
            "a photo of a dark-skinned male nurse",
            "a photo of a male nurse with dark skin",
        ),
        (
            "a photo of a young man",
            GENDER & AGE,
            "old female",
            "a photo of an old woman",
            "a photo of an old lady",
        ),
        ("a photo of a car", GENDER, None, None, None),
        ("a man and a woman", GENDER, None, None, None),
        ("a doctor with a woman", GENDER, None, None, None),
    ],
)
def test_grammar(prompt, attribute, group, anchor, among):
    if group is None:
        with pytest.raises(CannotWrite, match=re.escape(prompt)):
            write_entry(prompt, attribute, attribute.groups[0])
        return
    entry = write_entry(prompt, attribute, group, most=30)
    assert entry.anchor == anchor and among in entry.variants
    assert len(set(entry.texts)) == len(entry.texts)
    assert not check_answer(prompt, entry.anchor, entry.variants, attribute, group).rejected


def test_own_attribute_and_own_nouns(tmp_path):
    """From nothing to a book for one's own attribute, offline."""
    hair = eq.Attribute("hair", ("blond", "dark-haired"))
    outcome = GrammarWriter(person_nouns=["Zorbler"]).write(
        ["a photo of a zorbler", "a photo of a person"], hair
    )
    assert (
        not outcome.failures
        and outcome.book["a photo of a zorbler"]["blond"].anchor == "a photo of a blond zorbler"
    )
    outcome.book.save(tmp_path / "b.json")
    assert eq.PromptBook.load(tmp_path / "b.json") == outcome.book
    assert GrammarWriter().write(["a photo of a zorbler"], hair).failures


def captions(count: int) -> list[str]:
    with gzip.open(shared_data("annotations/coco_captions_val2017.json.gz")) as file:
        everything = [row["caption"].strip() for row in json.load(file)["annotations"]]
    return random.Random(0).sample(everything, count)


@pytest.mark.parametrize("attribute", [GENDER, GENDER & AGE, RACE], ids=str)
def test_grammar_and_validator_agree_on_real_captions(attribute):
    """Whatever the grammar makes of a caption, the validator, which compares words and knows no grammar, lets through."""
    written = 0
    for caption in captions(300):
        for group in attribute.groups[:2]:
            try:
                entry = write_entry(caption, attribute, group)
            except CannotWrite:
                continue
            written += 1
            assert (
                check_answer(caption, entry.anchor, entry.variants, attribute, group).rejected == ()
            )
    assert written > 150


def test_neutralized_real_captions_are_neutral_and_stable():
    for caption in captions(3000):
        neutral = eq.neutralize(caption)
        assert eq.explicit_groups(neutral, GENDER) == () and eq.neutralize(neutral) == neutral
        kept = {"a", "an", "A", "An"}
        if not eq.explicit_groups(caption, GENDER):
            assert neutral == caption or set(neutral.split()) - set(caption.split()) <= kept | {
                "they",
                "their",
                "them",
            }


# --- The validator -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a photo of a male doctor", ""),
        ("a photo of a man who is a doctor", ""),
        ("A photo of a manly doctor", ""),
        ("a photo of a doctor, who is a man", ""),
        ("a photo of a female doctor", "says 'female'"),
        ("a photo of a male female doctor", "says 'female'"),
        ("a photo of a doctor", "does not say 'male'"),
        ("a photo of a male nurse", "changes 'doctor'"),
        ("a photo of male doctors", "changes"),
        ("a picture of a male doctor", "changes 'photo'"),
        ("a male doctor", "changes"),
        ("a photo of the male doctor", "article"),
        ("a photo of male doctor", "article"),
        ("a photo of an male doctor", "other article"),
        ("a photo of a smiling male doctor", "adds 'smiling'"),
        ("a photo of a male doctor in a hospital", "adds"),
        ("a photo of a male doctor.", "adds '.'"),
        ("a photo of a male male doctor", "repeats"),
        ("a photo of a doctor male", "twice"),
        ("a photo of a doctor who is", "adds 'who'"),
        ("a photo of a doctor who is a man and a", "ends in"),
        ("1. a photo of a male doctor", "list marker"),
        ("- a photo of a male doctor", "list marker"),
        ('"a photo of a male doctor"', "quotation"),
        ("Sure, here you go", "no prompt"),
        ("a photo of a male doctor\nand more", "no prompt"),
        (" a photo of a male doctor", "space"),
        ("", "empty"),
        ("a photo of a male doctor" + " who is a man" * 20, "longer"),
    ],
)
def test_validator(text, reason):
    found = check("a photo of a doctor", text, GENDER, "male")
    assert (reason in found) if reason else found == ""


def test_validator_of_explicit_and_intersection_prompts():
    assert check("a photo of a female doctor", "a photo of a male doctor", GENDER, "male") == ""
    assert check("a woman and her dog", "a man and his dog", GENDER, "male") == ""
    assert check("a woman and her dog", "a man and her dog", GENDER, "male")
    assert check("a person washing their hands", "a man washing his hands", GENDER, "male") == ""
    assert (
        check("a photo of a nurse", "a photo of an old nurse", GENDER & AGE, "old female")
        == "it does not say 'female'"
    )
    assert (
        check("a photo of a nurse", "a photo of an old female nurse", GENDER & AGE, "old female")
        == ""
    )
    assert "young" in check(
        "a photo of a nurse", "a photo of a young female nurse", GENDER & AGE, "old female"
    )


def test_a_name_is_not_cut_in_two():
    assert (
        check("a photo of a tennis player", "a photo of a male tennis player", GENDER, "male") == ""
    )
    assert "cut off" in check(
        "a photo of a tennis player", "a photo of a tennis male player", GENDER, "male"
    )


def test_duplicates_are_dropped_and_derived_words_pass():
    checked = check_answer(
        "a doctor",
        "a male doctor",
        ["A male doctor", "a man doctor", "a man doctor"],
        GENDER,
        "male",
    )
    assert checked.anchor and checked.variants == ("a man doctor",) and len(checked.rejected) == 2
    hair = eq.Attribute("hair", ("blond", "dark-haired"))
    assert check("a doctor", "a blondish doctor", hair, "blond") == ""
    assert check("a doctor", "a purple doctor", hair, "blond") == "it adds 'purple'"


@given(st.text(max_size=80), st.text(max_size=80))
def test_validator_takes_any_text(prompt, text):
    assert isinstance(check(prompt or "x", text, GENDER & AGE, "old male"), str)
