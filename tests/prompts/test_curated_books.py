"""The curated books: each passes the validator, is whole, has enough variants, and is what the script writes."""

from __future__ import annotations

import re
import runpy

import pytest

import equipoise as eq
from equipoise.prompts._book_writers import BookWriter
from equipoise.prompts._validation import check_book
from tests.helpers.common import ROOT

ATTRIBUTES = {
    "occupations-gender": "gender",
    "occupations-explicit-gender": "gender",
    "celeba-gender-age": "gender & age",
    "facet-gender": "gender",
    "people-gender": "gender",
    "people-age": "age",
    "people-skin-tone": "skin tone",
    "people-race": "race",
    "people-gender-age": "gender & age",
    "people-gender-skin-tone": "gender & skin tone",
}
# Natural variants that English has for the group with the fewest; eight or more elsewhere.
FEWEST = {
    "occupations-gender": 5,
    "occupations-explicit-gender": 5,
    "facet-gender": 3,
    "people-gender": 5,
}
BANNED = re.compile(  # understood, and not what anybody would write in a caption
    r"\b(?:masculine|feminine|gal|lady (?!who|with|of|\w+ing\b)\w+|gentleman (?!who|with|of|\w+ing\b)\w+|man (?!who|with|of|\w+ing\b)\w+"
    r"|(?:a|an old|a young) (?:fe)?male (?:who|with|\w+ing)|\w+-looking|\w+-presenting|identifies|in old age|of (?:a )?young age|gender)\b"
)
PROMPTS = {
    "occupations-gender": 34,
    "occupations-explicit-gender": 34,
    "celeba-gender-age": 2,
    "facet-gender": 36,
}


@pytest.fixture(scope="module")
def written():
    return runpy.run_path(str(ROOT / "scripts" / "write_books.py"))["books"]()


def test_these_are_all():
    assert set(eq.PromptBook.curated_names()) == set(ATTRIBUTES)


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_curated_book(name, written):
    book, attribute = eq.PromptBook.curated(name), eq.Attribute.load(ATTRIBUTES[name])
    assert check_book(book, attribute, min_variants=FEWEST.get(name, 8)) == []
    assert not [
        text for _, _, entry in book.entries() for text in entry.texts if BANNED.search(text)
    ]
    assert len(book) == PROMPTS.get(name, 61) and book.missing(book.prompts, attribute) == []
    assert set(book.groups) == set(attribute.groups)
    assert book.to_json() == written[name][0].to_json(), "run scripts/write_books.py"
    (source,) = book.sources
    assert source.writer == "curated" and source.note and source.date and source.instructions


def test_explicit_prompts_name_one_group_and_neutral_ones_none():
    gender = eq.Attribute.load("gender")
    assert all(
        len(eq.explicit_groups(prompt, gender)) == 1
        for prompt in eq.PromptBook.curated("occupations-explicit-gender").prompts
    )
    for name, attribute in ATTRIBUTES.items():
        if "explicit" not in name:
            assert not any(
                eq.explicit_groups(prompt, eq.Attribute.load(attribute))
                for prompt in eq.PromptBook.curated(name).prompts
            )


def test_book_writer_takes_what_is_there_and_says_what_is_not():
    gender = eq.Attribute.load("gender")
    outcome = BookWriter().write(["a photo of a doctor", "a photo of a zorbler"], gender)
    assert (
        outcome.book["a photo of a doctor"]
        == eq.PromptBook.curated("occupations-gender")["a photo of a doctor"]
    )
    assert [(f.prompt, f.group) for f in outcome.failures] == [
        ("a photo of a zorbler", "male"),
        ("a photo of a zorbler", "female"),
    ]
