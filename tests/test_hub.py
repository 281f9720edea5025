"""Sharing, through the real client, with a small hub on loopback."""

from __future__ import annotations

import numpy as np
import pytest

import equipoise as eq
from equipoise import _hub as eq_hub
from equipoise.errors import ArtefactError, MissingExtraError
from tests.helpers.common import component, make_space
from tests.helpers.loopback_hub import COMMIT, Hub, serving_hub


@pytest.fixture
def loopback_hub(monkeypatch, tmp_path):
    component("huggingface_hub")
    with serving_hub(monkeypatch, tmp_path / "cache"):
        yield


def test_push_and_fetch(rng, loopback_hub, tmp_path):
    space = make_space(rng, attribute="gender", encoder="hf:clip")
    address = space.push_to_hub("me/space", token="hf_secret_of_mine", private=True)
    assert address.endswith(COMMIT)
    assert Hub.created[0].get("visibility") == "private" or Hub.created[0].get("private") is True
    card = Hub.files["README.md"].decode()
    assert "g0, g1, g2" in card and "hf:clip" in card
    assert not any(b"hf_secret_of_mine" in data for data in Hub.files.values())
    back = eq.AttributeSpace.from_pretrained("me/space", encoder="hf:clip")
    assert np.array_equal(back.basis, space.basis)
    again = eq.AttributeSpace.from_pretrained("me/space", offline=True)  # from the cache
    assert np.array_equal(again.basis, space.basis)
    with pytest.raises(ArtefactError, match="'me/other' is neither a folder nor"):
        eq.AttributeSpace.from_pretrained("me/other")


def test_an_operator_with_its_card(rng, loopback_hub):
    rows, groups = rng.standard_normal((40, 16)), ["male", "female"] * 20
    context = eq.FitContext(eq.Attribute.load("gender"), images=rows, sensitive_features=groups)
    operator = eq.methods.create("leace").fit(context)
    assert operator.push_to_hub("me/space").endswith(COMMIT)
    card = Hub.files["README.md"].decode()
    assert "Method: leace" in card and "male, female" in card
    assert 'eq.methods.from_pretrained("me/space")' in card
    back = eq.methods.from_pretrained("me/space")
    np.testing.assert_array_equal(back.image(rows), operator.image(rows))
    with pytest.raises(ArtefactError, match=r"an operator that could .* eq\.methods\.load"):
        eq.methods.from_pretrained("me/other")


def test_a_book_with_its_card(loopback_hub, tmp_path):
    book = eq.PromptBook.load("people-gender")
    assert book.push_to_hub("me/space").endswith(COMMIT)
    card = Hub.files["README.md"].decode()
    assert f"{len(book.prompts)} prompts; groups: male, female" in card and book.hash in card
    assert eq.PromptBook.from_pretrained("me/space") == book
    book.save(tmp_path / "book.json")
    assert eq.PromptBook.from_pretrained(tmp_path).hash == book.hash


def test_from_a_folder(rng, tmp_path):
    space = make_space(rng)
    space.save(tmp_path / "space.safetensors")
    assert np.array_equal(eq.AttributeSpace.from_pretrained(tmp_path).basis, space.basis)
    assert np.array_equal(
        eq.AttributeSpace.from_pretrained(tmp_path / "space.safetensors").basis, space.basis
    )
    with pytest.raises(ArtefactError, match="no file"):
        eq.AttributeSpace.from_pretrained(tmp_path.parent)


def test_missing_extra_prints_the_pip_line(monkeypatch, rng):
    monkeypatch.setitem(__import__("sys").modules, "huggingface_hub", None)
    with pytest.raises(MissingExtraError, match=r'pip install "equipoise\[hub\]"'):
        eq_hub.fetch("me/space", eq_hub.SPACE)
