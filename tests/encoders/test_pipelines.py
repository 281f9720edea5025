"""eq.wrap on pipelines of transformers: scores of debiased embeddings, and the given one untouched."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

import equipoise as eq
from equipoise.errors import EquipoiseError
from tests.helpers import models
from tests.helpers.common import component, make_space, unit

component("torch")
transformers = component("transformers")
LABELS = ["doctor", "nurse", "engineer"]
ZERO_SHOT = "zero-shot-image-classification"


MADE = {  # the pipeline pads SigLIP's texts to 64 tokens
    "clip": models.clip,
    "siglip": lambda folder: models.siglip(folder, tokens=64),
    "chinese_clip": models.chinese_clip,
}


@pytest.fixture(scope="module", params=MADE)
def folder(request, tmp_path_factory):
    return MADE[request.param](tmp_path_factory.mktemp("models") / request.param)


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    return models.clip(tmp_path_factory.mktemp("models") / "clip", projection_dim=16)


@pytest.fixture
def picture(rng):
    return Image.fromarray(rng.integers(0, 255, (32, 32, 3), dtype=np.uint8))


def scores(classifier, picture):
    found = {one["label"]: one["score"] for one in classifier(picture, candidate_labels=LABELS)}
    return np.array([found[label] for label in LABELS])


def embeddings(pipe, picture):
    """What the plain model gives for the picture and the labels, with its scale and its bias."""
    import torch

    inputs = pipe.preprocess(picture, candidate_labels=LABELS)
    tokens = inputs["text_inputs"][0]
    with torch.no_grad():
        out = pipe.model(**tokens, pixel_values=inputs["pixel_values"])
        scale = pipe.model.logit_scale.exp().item()
    images, texts = out.image_embeds.numpy(), out.text_embeds.numpy()
    bias = out.logits_per_image.numpy() - scale * images @ texts.T
    return images, texts, scale, bias


def test_scores_are_those_of_debiased_embeddings(folder, picture, rng):
    plain = transformers.pipeline(ZERO_SHOT, model=str(folder))
    before = scores(plain, picture)
    images, texts, scale, bias = embeddings(plain, picture)
    space = make_space(rng, images.shape[1])
    logits = scale * eq.debias(images, space) @ eq.debias(texts, space).T + bias
    if plain.model.config.model_type == "siglip":
        expected = 1 / (1 + np.exp(-logits))[0]
    else:
        expected = np.exp(logits - logits.max())[0]
        expected /= expected.sum()
    found = scores(eq.wrap(plain, space), picture)
    # float32 similarities, times a scale that a softmax magnifies
    np.testing.assert_allclose(found, expected, atol=1e-4)
    assert np.abs(found - before).max() > 1e-3
    np.testing.assert_array_equal(scores(plain, picture), before)  # the given one is as it was


def test_kappa_zero_changes_nothing(clip, picture, rng):
    plain = transformers.pipeline(ZERO_SHOT, model=str(clip))
    space = make_space(rng, 16, kappa=0.0)
    found = scores(eq.wrap(plain, space), picture)
    np.testing.assert_allclose(found, scores(plain, picture), atol=1e-6)


def test_features_of_images_are_debiased(clip, picture, rng):
    model = transformers.CLIPVisionModelWithProjection.from_pretrained(clip)
    plain = transformers.pipeline(
        "image-feature-extraction", model=model, image_processor=str(clip)
    )
    rows = np.array(plain(picture))
    space = make_space(rng, 16)
    found = np.array(eq.wrap(plain, space)(picture))
    np.testing.assert_allclose(found, eq.debias(unit(rows), space), atol=1e-6)
    several = eq.wrap(plain, space)([picture, picture], batch_size=2)
    np.testing.assert_allclose(np.array(several)[:, 0], np.repeat(found, 2, axis=0), atol=1e-6)


def test_an_operator_of_any_method_wraps_too(clip, picture, rng):
    plain = transformers.pipeline(ZERO_SHOT, model=str(clip))
    groups = np.array(["male", "female"] * 20)
    context = eq.FitContext(
        eq.Attribute.load("gender"), images=rng.standard_normal((40, 16)), sensitive_features=groups
    )
    operator = eq.methods.create("leace").fit(context)
    found = scores(eq.wrap(plain, operator), picture)
    images, texts, scale, _ = embeddings(plain, picture)
    logits = (scale * operator.image(images) @ operator.text(texts).T)[0]
    expected = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_what_is_typed_wrong_first_is_answered(clip, picture, rng):
    plain = transformers.pipeline(ZERO_SHOT, model=str(clip))
    with pytest.raises(EquipoiseError, match="gate is not legal for a pipeline"):
        eq.wrap(plain, make_space(rng, 16), gate=True)
    with pytest.raises(EquipoiseError, match="takes rows 8 wide"):
        eq.wrap(plain, make_space(rng, 8))(picture, candidate_labels=LABELS)
    with pytest.raises(EquipoiseError, match="is not an operator"):
        eq.wrap(plain, "gender")
    tower = transformers.pipeline(
        "image-feature-extraction",
        model=transformers.CLIPVisionModel.from_pretrained(clip),
        image_processor=str(clip),
    )
    with pytest.raises(EquipoiseError, match="CLIPVisionModelWithProjection"):
        eq.wrap(tower, make_space(rng, 16))(picture)
    words = transformers.pipeline(
        "feature-extraction", model=plain.model.text_model, tokenizer=plain.tokenizer
    )
    with pytest.raises(EquipoiseError, match=r"'feature-extraction' cannot be wrapped"):
        eq.wrap(words, make_space(rng, 16))
