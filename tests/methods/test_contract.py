"""One interface for every registered method: files, widths, rows of every kind, strengths, what is missing. A new method is a line in PARAMS."""

from __future__ import annotations

import json
import subprocess
import sys
import types
from contextlib import suppress
from dataclasses import replace
from functools import cache
from importlib.metadata import EntryPoint

import numpy as np
import pytest
from scripts import methods_table

import equipoise as eq
from equipoise._verbs import methods as listing
from equipoise._verbs.methods import FILE, GROUP, described_methods
from equipoise.methods import _registry
from equipoise.methods._describe import describe_methods
from equipoise.methods._registry import NEEDS
from tests.helpers.common import component, unit

DIM = 64
GENDER = eq.Attribute("gender", ("male", "female"))
BOTH = GENDER & eq.Attribute("age", ("young", "old"))
CLASSES = {"hat": "a hat", "tie": "a tie", "bare": "a head"}
NAMES = [
    name for name in eq.methods.names() if name != "prompt-array"
]  # it learns through a real encoder: tests/methods/test_prompt_array.py
PARAMS: dict[str, dict] = {  # beyond the defaults: what keeps a fit small here
    "adapted": {"smallest": 5},
    "sfid": {"k": 8, "tau": 0.9, "trees": 20},
    "fairer-clip": {"features": 200},
    "dear": {"epochs": 2, "classifier_epochs": 2},
    "joint-vl": {"epochs": 2, "hidden_image": 16, "hidden_both": 16},
    "prism": {"samples": 60},
    "roboshot": {"tolerance": 0.1},
    "rlace": {"rounds": 20},
}
VARIANTS = [
    *((name, PARAMS.get(name, {})) for name in NAMES),
    ("prism", {"bases": 2, "text_norm": "raw", "samples": 60}),
    ("closed-form", {"kappa": 3.0, "modality": "text"}),
    ("orth-proj", {"span": "differences", "modality": "both"}),
    ("orth-cali", {"projection": False, "lam": 500, "modality": "both"}),
    ("prism-mini", {"words": "book", "renormalise": True, "modality": "both"}),
    (
        "roboshot",
        {
            "accept": (("a hat", "a tie"),),
            "reject": (("man", "woman"), ("a young person", "an old person")),
        },
    ),
    ("clip-clip", {"m": 10, "estimator": "knn", "renormalise": True}),
    ("sfid", {"modality": "image", "fill": "noise", "renormalise": False, "trees": 20}),
    ("sfid", {"modality": "text", "fill": "zero", "trees": 20}),
    ("leace", {"modality": "both", "renormalise": True, "variant": "orth"}),
    ("adapted", {"kappa": np.inf, "folds": 3, "smallest": 5}),
    ("balanced", {"k": 5, "membership": "both", "target": "equal", "strength": 0.5}),
    ("balanced", {"k": 30, "membership": "text"}),
    ("balanced", {"mode": "rerank"}),
    ("interleave", {"k": 7, "target": "equal"}),
    ("det-const-sort", {"k": 7, "target": "equal"}),
    ("fa-ir", {"k": 9, "alpha": 0.2}),
    ("splince", {"shrinkage": False, "renormalise": True}),
    ("inlp", {"rounds": 2, "renormalise": True}),
    ("spd", {"modality": "image", "directions": 3, "neutral": "groups"}),
    ("fair-pca", {"components": 10, "modality": "both"}),
    ("bend-vlm", {"neighbours": 7, "references": 50}),
    ("fairer-clip", {"features": 100, "labels": "zero-shot", "sensitive": "given"}),
]
IDS = [f"{name}-{i}" for i, (name, _) in enumerate(VARIANTS)]


class Words:
    """An encoder of texts: the sum of a random row a word."""

    id, revision, fingerprint, dim = "test:words", "", "words", DIM

    def encode_text(self, texts):
        return unit(
            np.stack([np.sum([self.word(word) for word in text.split()], axis=0) for text in texts])
        ).astype(np.float32)

    @staticmethod
    @cache
    def word(word):
        return np.random.default_rng(list(word.encode())).standard_normal(DIM)


def context(attribute=BOTH, book="people-gender-age", images=900, **given):
    """Images in which one attribute is ten times as strong as the other, with classes, groups, prompts and an encoder."""
    rng = np.random.default_rng(0)
    texts, s = Words(), rng.integers(0, len(attribute.groups), images)
    y = rng.integers(0, len(CLASSES), images)
    strengths = 10.0 ** -rng.permutation(np.arange(len(attribute.parts)))
    groups = np.array(attribute.groups)[s]
    rows = 2 * texts.encode_text(list(CLASSES.values()))[y] + rng.standard_normal((images, DIM)) / 8
    for strength, part, names in zip(
        strengths, attribute.parts, zip(*map(attribute.split, groups), strict=True), strict=True
    ):
        rows = (
            rows
            + strength * texts.encode_text(part.groups)[[part.groups.index(name) for name in names]]
        )
    whole = eq.PromptBook.curated(book)
    fields = {
        "encoder": texts,
        "book": whole.subset(list(whole.prompts)[:10]),
        "images": rows.astype(np.float32),
        "sensitive_features": groups,
    }
    fields |= {"labels": np.array(list(CLASSES))[y], "class_prompts": CLASSES}
    return eq.FitContext(attribute, **(fields | given))


@cache
def fitted(i):
    name, params = VARIANTS[i]
    return eq.methods.create(name, **params).fit(context())


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(1)
    return rng.standard_normal((50, DIM)).astype(np.float32), rng.standard_normal((7, DIM)).astype(
        np.float32
    )


@pytest.fixture(scope="module")
def fresh(rows, tmp_path_factory):
    """The outputs of every operator in another process, from their files alone."""
    folder = tmp_path_factory.mktemp("operators")
    for i in range(len(VARIANTS)):
        with suppress(eq.EquipoiseError):  # its own tests say so
            fitted(i).save(folder / f"{i}.safetensors")
    np.savez(folder / "rows.npz", images=rows[0], texts=rows[1], index=context().images)
    code = """
import sys, numpy as np, equipoise as eq
from pathlib import Path
with np.load(f"{sys.argv[1]}/rows.npz", allow_pickle=False) as file:
    images, texts, index = file["images"], file["texts"], file["index"]
for path in Path(sys.argv[1]).glob("*.safetensors"):
    op = eq.methods.load(path)
    if hasattr(op, "index"):
        op.bind(index=index)
    np.savez(path.with_suffix(".npz"), image=op.image(images), text=op.text(texts), scores=op.scores(images, texts), fingerprint=op.fingerprint)
"""
    subprocess.run([sys.executable, "-c", code, str(folder)], check=True)
    return folder


@pytest.mark.parametrize("i", range(len(VARIANTS)), ids=IDS)
def test_a_file_gives_the_same_output_in_a_fresh_process(i, rows, fresh):
    operator, (images, texts) = fitted(i), rows
    with np.load(fresh / f"{i}.npz", allow_pickle=False) as file:
        np.testing.assert_array_equal(file["image"], operator.image(images))
        np.testing.assert_array_equal(file["text"], operator.text(texts))
        np.testing.assert_array_equal(file["scores"], operator.scores(images, texts))
        assert file["fingerprint"] == operator.fingerprint
    data = (fresh / f"{i}.safetensors").read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(
        data[8 : 8 + size]
    )  # nothing but numbers follows: each has a plain type and its place
    ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
    assert max(ends, default=0) == len(data) - 8 - size
    assert {entry["dtype"] for name, entry in header.items() if name != "__metadata__"} <= {
        "F64",
        "F32",
        "I64",
    }


@pytest.mark.parametrize("i", range(len(VARIANTS)), ids=IDS)
def test_rows_in_and_rows_out(i, rows):
    operator = fitted(i)
    for modality, change, given in (
        ("image", operator.image, rows[0]),
        ("text", operator.text, rows[1]),
    ):
        out = change(given)
        if modality not in operator.changes:
            assert out is given
            continue
        assert out.dtype == given.dtype and out.shape == (len(given), operator.out_dim)
        if operator.unit:
            np.testing.assert_allclose(np.linalg.norm(out, axis=1), 1, atol=5e-7)
        np.testing.assert_allclose(
            change((given * 5).astype(np.float64)), out, atol=1e-5
        )  # a row's length says nothing
        broken = given.copy()
        broken[2] = np.nan
        changed = change(broken)
        assert np.isnan(changed[2]).all()
        np.testing.assert_array_equal(np.delete(changed, 2, 0), np.delete(out, 2, 0))
        with pytest.raises(eq.EquipoiseError, match=f"takes rows {DIM} wide"):
            change(given[:, :5])
    if not operator.per_prompt:
        np.testing.assert_allclose(
            operator.scores(*rows), operator.image(rows[0]) @ operator.text(rows[1]).T, atol=1e-6
        )
    assert operator.scores(*rows).shape == (50, 7)


@pytest.mark.parametrize("i", range(len(VARIANTS)), ids=IDS)
def test_tensors_are_rows_too(i, rows):
    torch, operator = component("torch"), fitted(i)
    for change, given in ((operator.image, rows[0]), (operator.text, rows[1])):
        out = change(torch.tensor(given))
        assert isinstance(out, torch.Tensor)
        np.testing.assert_allclose(
            out.numpy(), change(given), atol=1e-5
        )  # float32 sums in another order


@pytest.mark.parametrize("i", range(len(VARIANTS)), ids=IDS)
def test_jax_arrays_are_rows_too_or_refused(i, rows):
    jax, operator = component("jax"), fitted(i)
    for change, given in ((operator.image, rows[0]), (operator.text, rows[1])):
        try:
            out = change(jax.numpy.asarray(given))
        except eq.EquipoiseError as error:  # a learned network
            assert "not jax arrays; pass numpy.asarray(rows)" in str(error)
        else:
            assert isinstance(out, jax.Array)
            np.testing.assert_allclose(np.asarray(out), change(given), atol=1e-5)


@pytest.mark.parametrize("i", range(len(VARIANTS)), ids=IDS)
def test_a_fit_is_repeatable_and_streams(i):
    name, params = VARIANTS[i]
    given = context()
    again = eq.methods.create(name, **params).fit(given)
    assert again.fingerprint == fitted(i).fingerprint
    blocks = eq.methods.create(name, **params).fit(
        replace(given, images=iter(np.array_split(given.images, 7)))
    )
    if hasattr(blocks, "index"):  # blocks that were read once are no index
        assert blocks.index is None
        blocks.bind(index=given.images)
    images = np.random.default_rng(2).standard_normal((20, DIM))
    np.testing.assert_allclose(
        np.abs(blocks.scores(images, images)), np.abs(again.scores(images, images)), atol=1e-6
    )


@pytest.mark.parametrize("name", eq.methods.names())
def test_a_context_that_lacks_what_is_needed(name):
    method = eq.methods.create(name, **PARAMS.get(name, {}))
    if not method.needs:
        assert method.fit(eq.FitContext(GENDER)).changes == ()
        return
    with pytest.raises(eq.EquipoiseError, match=f"{name} needs .*lack"):
        method.fit(eq.FitContext(GENDER))


@pytest.mark.parametrize("name", NAMES)
def test_seven_groups(name):
    race = eq.Attribute.load("race")
    given = context(race, "people-race", images=1500)
    operator = eq.methods.create(name, **PARAMS.get(name, {})).fit(given)
    assert operator.scores(given.images, Words().encode_text(["a hat"])).shape == (1500, 1)


STRENGTHS = {
    name: strength
    for name in NAMES
    if (strength := eq.methods.find(name).sweep) and strength.becomes
}


@pytest.mark.parametrize("name", STRENGTHS)
def test_at_the_neutral_value_nothing_is_left_of_a_strength(name, rows):
    strength = STRENGTHS[name]
    given = context()
    neutral = eq.methods.create(
        name, **(PARAMS.get(name, {}) | {strength.param: strength.neutral})
    ).fit(given)
    other = eq.methods.create(strength.becomes).fit(given)
    images, texts = (unit(part.astype(np.float64)) for part in rows)
    np.testing.assert_allclose(neutral.image(images), other.image(images), atol=1e-12)
    np.testing.assert_allclose(neutral.text(texts), other.text(texts), atol=1e-12)
    for value in strength.values:
        eq.methods.create(name, **{strength.param: value})


@pytest.mark.parametrize("i", range(len(NAMES)), ids=NAMES)
def test_what_a_method_says_of_itself(i):
    name = NAMES[i]
    about = next(method for method in describe_methods() if method["name"] == name)
    assert about["summary"] and set(about["tasks"]) <= {"classification", "retrieval", "generation"}
    assert about["changes"] == list(fitted(i).changes)
    assert set(eq.methods.find(name).needs) <= set(NEEDS)


@pytest.mark.parametrize("i", range(len(NAMES)), ids=NAMES)
def test_what_it_takes_to_use_a_method(i):
    """What the table says is so: who changes no image leaves the index, and any database ranks by what text and image give."""
    about = next(method for method in describe_methods() if method["name"] == NAMES[i])
    operator = fitted(i)
    assert about["changes_index"] == ("image" in operator.changes)
    assert about["any_database"] == (not operator.per_prompt)
    assert about["needs_labels"] <= about["needs_images"]
    assert about["year"] is None or 2017 <= about["year"] <= 2026
    assert about["licence"] in ("", "none given", "MIT", "Apache 2.0", "CC BY-NC 4.0")


def test_the_listing_says_what_the_methods_say():
    written = FILE.read_text(encoding="utf-8")
    assert written == methods_table.text(), "type python -m scripts.methods_table"
    assert described_methods() == describe_methods()


def test_the_listing_asks_methods_of_other_packages(monkeypatch):
    """A package's own method is listed, with what it says of itself."""
    module = types.ModuleType("somebodys_methods")
    module.METHOD = eq.methods.find("orth-proj")
    monkeypatch.setitem(sys.modules, "somebodys_methods", module)
    point = EntryPoint("somebodys", "somebodys_methods:METHOD", GROUP)
    for place in (listing, _registry):
        monkeypatch.setattr(place, "entry_points", lambda group: [point] if group == GROUP else [])
    last = described_methods()[-1]
    assert last["name"] == "somebodys" and last["summary"] == module.METHOD.summary
