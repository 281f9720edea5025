"""``PromptBook``: the file, its schema, merging, and every way a book can be wrong."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

import equipoise as eq
from equipoise.errors import ArtefactError, InputError
from equipoise.prompts._prompt_book import Entry, Source

ROWS = {
    "a photo of a doctor": {
        "male": ["a photo of a male doctor", "a photo of a man doctor"],
        "female": ["a photo of a female doctor"],
    },
    'ein "Zitat" – ü': {"male": ["x\ty"]},
}
text = st.text(min_size=1).filter(
    lambda s: s.strip() and not any(0xD800 <= ord(c) < 0xE000 for c in s)
)


@given(
    st.dictionaries(
        text,
        st.dictionaries(text, st.lists(text, min_size=1, max_size=3), min_size=1, max_size=3),
        max_size=4,
    )
)
def test_file_round_trip(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("book") / "book.json"
    book = eq.PromptBook.of(rows, note="n")
    book.save(path)
    assert eq.PromptBook.load(path) == book
    json.loads(path.read_text())


def test_merge_keeps_who_wrote_what():
    first = eq.PromptBook.of(ROWS, writer="hand")
    second = eq.PromptBook.of(
        {"a photo of a doctor": {"female": ["a photo of a woman doctor"]}}, writer="llm", model="m"
    )
    merged = first.merge(second)
    assert (
        merged["a photo of a doctor"]["female"].anchor == "a photo of a woman doctor"
    )  # the later one's
    assert [
        merged.sources[merged["a photo of a doctor"][g].source].writer for g in ("male", "female")
    ] == ["hand", "llm"]
    assert merged.merge(merged) == merged
    assert first.merge(second).hash == first.merge(second, second).hash
    assert first.hash != merged.hash and first.hash == eq.PromptBook.of(ROWS, writer="other").hash


def test_subset_missing_statistics_diff():
    book = eq.PromptBook.of(ROWS)
    gender = eq.Attribute.load("gender")
    assert book.missing(book.prompts, gender) == [('ein "Zitat" – ü', "female")]
    assert len(book.missing(["new"], gender)) == 2
    assert book.subset(groups=["female"]).groups == ("female",)
    assert len(book.subset(["a photo of a doctor"])) == 1
    facts = book.statistics()
    assert (facts["prompts"], facts["entries"], facts["texts"]) == (2, 3, 4) and facts[
        "variants"
    ] == {"min": 0, "mean": 1 / 3, "max": 1}
    smaller = book.subset(["a photo of a doctor"], ["male"])
    assert book.diff(book) == []
    assert "- a photo of a doctor | female | anchor: a photo of a female doctor" in book.diff(
        smaller
    )
    assert [line.replace("+", "-", 1) for line in smaller.diff(book)] == book.diff(smaller)
    for call in (
        lambda: book["nothing"],
        lambda: book.subset(["nothing"]),
        lambda: book.subset(groups=["nothing"]),
    ):
        with pytest.raises(InputError, match="nothing"):
            call()


def test_released_layout(tmp_path):
    node = {
        "sensitive_attribute": "gender",
        "t_g": "a photo of a male doctor",
        "T_g": ["a photo of a man doctor", " a photo of a man doctor", ""],
    }
    row = {
        "dataset": "flickr",
        "image_filename": "1.jpg",
        "text_query": "a person runs",
        "sensitive_attribute": "gender",
    }
    document = {
        "classification": {"celeba": {"a photo of a doctor": {"old_male": node}}, "facet": {}},
        "retrieval": [
            row | {"group": "male", "t_g": "a man runs", "T_g": ["a guy runs"]},
            row | {"group": "female", "t_g": "", "T_g": []},
        ],
        "generation": [
            {
                "prompt_set": "neutral",
                "text_query": "A photo of a CEO",
                "group": "male",
                "t_g": "A photo of a male CEO",
                "T_g": None,
            }
        ],
    }
    path = tmp_path / "LLM.json"
    path.write_text(json.dumps(document))
    book = eq.PromptBook.load(path)
    assert book["a photo of a doctor"]["old male"] == Entry(
        anchor="a photo of a male doctor", variants=("a photo of a man doctor",) * 2
    )  # a repeated variant weighs twice in the released mean
    assert (
        book["a person runs"].keys() == {"male"} and book["A photo of a CEO"]["male"].variants == ()
    )
    assert book.sources == (
        Source(
            writer="released",
            note="LLM.json of the paper's released code; 1 rows without an anchor left out",
        ),
    )
    for broken in (
        {"retrieval": [3]},
        {"retrieval": [{"group": "x"}]},
        {"classification": 3},
        {"retrieval": []},
    ):
        path.write_text(json.dumps(broken))
        with pytest.raises(ArtefactError):
            eq.PromptBook.load(path)


def test_of_repeated_released_rows_the_last_whole_one_counts(tmp_path):
    """As the released code reads them: a whole row is replaced by a whole one only; COCO's rows also answer without skin tone."""
    row = {"dataset": "coco", "text_query": "a dark-skinned person runs", "group": "male"}
    whole = [row | {"t_g": f"anchor {i}", "T_g": [f"variant {i}"]} for i in range(3)]
    path = tmp_path / "LLM.json"
    for rows, anchor in (
        (whole, "anchor 2"),
        ([*whole, row | {"t_g": "bare", "T_g": []}], "anchor 2"),
        ([row | {"t_g": "bare", "T_g": []}, whole[0]], "anchor 0"),
        ([row | {"t_g": "one", "T_g": []}, row | {"t_g": "two", "T_g": [""]}], "two"),
    ):
        path.write_text(json.dumps({"retrieval": rows}))
        book = eq.PromptBook.load(path)
        assert list(book.prompts) == ["a dark-skinned person runs", "a person runs"]
        assert {book[prompt]["male"].anchor for prompt in book.prompts} == {anchor}
    flickr = [entry | {"dataset": "flickr"} for entry in whole]
    path.write_text(json.dumps({"retrieval": flickr}))
    assert list(eq.PromptBook.load(path).prompts) == ["a dark-skinned person runs"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "no prompt book"),
        ('{"kind": "other"}', "no prompt book"),
        ('{"kind": "equipoise prompt book", "format": 2}', "pip install -U"),
        ('{"kind": "equipoise prompt book", "prompts": {"p": {"g": {"variants": []}}}}', "anchor"),
        ('{"kind": "equipoise prompt book", "prompts": {"p": {"g": {"anchor": " "}}}}', "anchor"),
        (
            '{"kind": "equipoise prompt book", "prompts": {"p": {"g": {"anchor": "x", "source": 4}}}}',
            "source",
        ),
        ('{"kind": "equipoise prompt book", "extra": 1}', "extra"),
        ("\x00\x01", "not JSON"),
    ],
)
def test_damaged_books(tmp_path, content, message):
    path = tmp_path / "book.json"
    path.write_text(content)
    with pytest.raises(ArtefactError, match=message):
        eq.PromptBook.load(path)


def test_no_such_book(tmp_path):
    with pytest.raises(ArtefactError, match="people-gender"):
        eq.PromptBook.load(tmp_path / "none.json")
    with pytest.raises(ArtefactError):
        eq.PromptBook.load(tmp_path)
    (tmp_path / "latin.json").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(ArtefactError, match="not JSON"):
        eq.PromptBook.load(tmp_path / "latin.json")


@pytest.mark.parametrize("texts", ["text", [], [""], ["a", 3], None])
def test_of_takes_lists_of_texts(texts):
    with pytest.raises(InputError, match="list of texts"):
        eq.PromptBook.of({"a": {"b": texts}})


def test_load_takes_a_path():
    with pytest.raises(InputError, match="NoneType"):
        eq.PromptBook.load(None)
