"""sentence-transformers, for texts alone and for both."""

from __future__ import annotations

import json

import numpy as np
import pytest
from PIL import Image

import equipoise as eq
from tests.helpers import models
from tests.helpers.common import component

sentence_transformers = component("sentence_transformers")

TEXTS = ["a photo of a doctor", "a nurse", "an old woman with a hat"]
PRECISION = 2e-6  # float32, another batch


def test_texts_alone(tmp_path):
    folder = models.sentence_texts(tmp_path)
    encoder = eq.load_encoder(f"st:{folder}")
    model = sentence_transformers.SentenceTransformer(str(folder), device="cpu")
    np.testing.assert_allclose(
        encoder.encode_text(TEXTS), model.encode(TEXTS, normalize_embeddings=True), atol=PRECISION
    )
    assert encoder.modalities == ("text",)
    with pytest.raises(eq.EquipoiseError, match="has no image tower"):
        encoder.encode_images([Image.new("RGB", (8, 8))])
    with pytest.warns(UserWarning, match="1 of 1 texts are longer"):
        encoder.encode_text(["a nurse " * 30])


def test_texts_and_images(tmp_path, rng):
    folder = models.sentence_clip(tmp_path)
    encoder = eq.load_encoder(f"st:{folder}")
    model = sentence_transformers.SentenceTransformer(str(folder), device="cpu")
    pictures = [
        Image.fromarray(rng.integers(0, 256, (40, 30 + i, 3), dtype=np.uint8)) for i in range(3)
    ]
    np.testing.assert_allclose(
        encoder.encode_text(TEXTS), model.encode(TEXTS, normalize_embeddings=True), atol=PRECISION
    )
    np.testing.assert_allclose(
        encoder.encode_images(pictures),
        model.encode(pictures, normalize_embeddings=True),
        atol=PRECISION,
    )
    assert eq.load_encoder(f"st:{folder}").fingerprint == encoder.fingerprint


def test_pooling_and_preprocessing_are_in_the_fingerprint(tmp_path):
    folder = models.sentence_texts(tmp_path)
    fingerprint = eq.load_encoder(f"st:{folder}").fingerprint
    assert eq.load_encoder(f"st:{folder}").fingerprint == fingerprint
    (pooling,) = folder.glob("1_Pooling/config.json")
    settings = json.loads(pooling.read_text())
    key = next(key for key, value in settings.items() if value in (True, "mean"))
    if key == "pooling_mode":
        settings[key] = "cls"
    else:
        settings |= {key: False, "pooling_mode_cls_token": True}
    pooling.write_text(json.dumps(settings))
    assert eq.load_encoder(f"st:{folder}").fingerprint != fingerprint


def test_unknown(monkeypatch):
    with pytest.raises(
        eq.EquipoiseError, match=r"did you mean sentence-transformers/clip-ViT-B-32"
    ):
        eq.load_encoder("st:sentence-transformers/clip-vit-b32", offline=True)
