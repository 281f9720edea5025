"""equipoise.sentence_transformers: appended, saved, loaded without trust_remote_code, and evaluated."""

from __future__ import annotations

import json

import numpy as np
import pytest
from PIL import Image

import equipoise as eq
from equipoise.errors import EquipoiseError
from tests.helpers import models
from tests.helpers.common import component, make_space

sentence_transformers = component("sentence_transformers")
from equipoise.sentence_transformers import Debias, SkewEvaluator, load  # noqa: E402

TEXTS = ["a photo of a doctor", "a photo of a nurse", "a man in front of the hospital"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model of texts and images, 16 wide."""
    return models.sentence_clip(tmp_path_factory.mktemp("models") / "clip")


@pytest.fixture
def model(folder):
    return sentence_transformers.SentenceTransformer(str(folder), device="cpu")


@pytest.fixture
def pictures(rng):
    arrays = rng.integers(0, 255, (6, 32, 32, 3), dtype=np.uint8)
    return [Image.fromarray(array) for array in arrays]


def test_an_appended_module_debiases_texts_and_images(model, pictures, rng):
    space = make_space(rng, 16)
    plain = model.encode(TEXTS), model.encode(pictures)
    model.append(Debias(space, kappa=np.inf))
    for before, items in zip(plain, (TEXTS, pictures), strict=True):
        found = model.encode(items)
        expected = eq.debias(before, space, kappa=np.inf)
        np.testing.assert_allclose(found, expected, atol=1e-6)
        assert np.abs(found @ space.basis).max() < 1e-6  # nothing of the attribute is left


def test_it_is_saved_and_loaded_with_the_model(model, rng, tmp_path):
    model.append(Debias(make_space(rng, 16, kappa=2.0)))
    before = model.encode(TEXTS)
    model.save(str(tmp_path / "saved"))
    saved = load(tmp_path / "saved", device="cpu")
    np.testing.assert_array_equal(saved.encode(TEXTS), before)
    assert saved[-1].space.kappa == 2.0
    assert saved.get_embedding_dimension() == 16
    saved.save(str(tmp_path / "again"))
    np.testing.assert_array_equal(load(tmp_path / "again").encode(TEXTS), before)


def test_nobody_loads_it_undebiased_by_mistake(model, rng, tmp_path):
    """Without equipoise's own load, sentence-transformers refuses rather than leaves it out."""
    model.append(Debias(make_space(rng, 16)))
    model.save(str(tmp_path / "saved"))
    with pytest.raises(ValueError, match=r"equipoise\.sentence_transformers\.Debias"):
        sentence_transformers.SentenceTransformer(str(tmp_path / "saved"))


def test_load_imports_no_class_of_anybody_else(model, rng, tmp_path):
    model.append(Debias(make_space(rng, 16)))
    model.save(str(tmp_path / "saved"))
    listed = tmp_path / "saved" / "modules.json"
    modules = json.loads(listed.read_text())
    modules[-1]["type"] = "antigravity.fly"
    listed.write_text(json.dumps(modules))
    with pytest.raises(ValueError, match="antigravity"):
        load(tmp_path / "saved")
    with pytest.raises(EquipoiseError, match="trust_remote_code is not legal here"):
        load(tmp_path / "saved", trust_remote_code=True)


def test_a_model_without_its_space_is_not_loaded(model, rng, tmp_path):
    model.append(Debias(make_space(rng, 16)))
    model.save(str(tmp_path / "saved"))
    (file,) = (tmp_path / "saved").glob("*_Debias/space.safetensors")
    file.unlink()
    with pytest.raises(EquipoiseError, match=r"has no space\.safetensors"):
        load(tmp_path / "saved")


def test_the_evaluator_measures_our_skew(model, pictures, rng):
    groups = ["male", "female"] * 3
    evaluator = SkewEvaluator(TEXTS, pictures, groups, m=2, name="pictures")
    found = evaluator(model)
    queries = model.encode(TEXTS, normalize_embeddings=True)
    items = model.encode(pictures, normalize_embeddings=True)
    expected = eq.metrics.max_skew(queries @ items.T, sensitive_features=groups, m=2)
    assert found == {"pictures_max_skew@2": pytest.approx(expected)}
    assert evaluator(model) == found
    assert evaluator.primary_metric == "pictures_max_skew@2" and not evaluator.greater_is_better


def test_what_is_typed_wrong_first_is_answered(model, pictures, rng):
    with pytest.raises(EquipoiseError, match="takes an AttributeSpace or its file"):
        Debias(np.eye(3))
    model.append(Debias(make_space(rng, 8)))
    with pytest.raises(EquipoiseError, match="16 dimensions and the space has 8"):
        model.encode(TEXTS)
    with pytest.raises(EquipoiseError, match="append it last"):
        Debias(make_space(rng, 8))({})
    with pytest.raises(EquipoiseError, match="5 groups for 6 items"):
        SkewEvaluator(TEXTS, pictures, ["male"] * 5)
    with pytest.raises(EquipoiseError, match="from 1 to 6"):
        SkewEvaluator(TEXTS, pictures, ["male"] * 6, m=7)
