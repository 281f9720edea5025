"""A row depends on its text or picture and on the model alone: not on batches, neighbours, threads or the cache."""

from __future__ import annotations

import numpy as np
import pytest

import equipoise as eq
from equipoise._space import EncoderRef
from equipoise.encoders import EmbeddingCache, Encoder
from equipoise.encoders import _passes as passes
from tests.helpers import models
from tests.helpers.averages import Averages
from tests.helpers.common import component, embedded_model

SMALL = {
    **{f"hf-{name}": ("hf", make) for name, make in models.HF.items()},
    "st-texts": ("st", models.sentence_texts),
    "st-clip": ("st", models.sentence_clip),
}
PACKAGES = {"hf": "transformers", "st": "sentence_transformers"}


@pytest.fixture(scope="module", params=["mini", "onnx", *SMALL])
def spec(request, tmp_path_factory):
    """How an encoder of each kind is named."""
    if request.param == "mini":
        embedded_model()
        return "mini"
    folder = tmp_path_factory.mktemp("model") / "model"
    if request.param == "onnx":
        component("onnxscript")
        clip = eq.load_encoder(f"hf:{models.clip(folder)}", device="cpu")
        return f"onnx:{eq.export_onnx(clip, folder.parent / 'onnx')}"
    scheme, make = SMALL[request.param]
    component(PACKAGES[scheme])
    return f"{scheme}:{make(folder)}"


@pytest.fixture
def texts(rng):
    words = models.WORDS.split()
    return [" ".join(rng.choice(words, size=rng.integers(1, 9))) for _ in range(40)]


@pytest.fixture
def pictures(rng):
    return [rng.integers(0, 256, (40, 30 + i, 3), dtype=np.uint8) for i in range(20)]


def load(spec, **options):
    return eq.load_encoder(spec, **{"device": "cpu", "workers": 0} | options)


def test_rows_depend_on_the_item_alone(spec, texts, pictures):
    encoder, other = load(spec), load(spec, batch_size=7)
    for kind, encode, items in (
        ("text", "encode_text", texts),
        ("image", "encode_images", pictures),
    ):
        if kind not in encoder.modalities:
            continue
        rows = getattr(encoder, encode)(items)
        backwards = getattr(other, encode)(items[::-1])[::-1]
        alone = np.concatenate([getattr(encoder, encode)([item]) for item in items[:5]])
        np.testing.assert_array_equal(backwards, rows)
        np.testing.assert_array_equal(alone, rows[:5])
    assert encoder.note == ""


def test_rows_do_not_depend_on_cores(spec, texts, pictures, monkeypatch):
    encoder = load(spec)
    rows = encoder.encode_text(texts)
    monkeypatch.setattr(passes, "cores", lambda: 5)
    np.testing.assert_array_equal(encoder.encode_text(texts), rows)
    if not spec.startswith(("hf", "st")):
        return
    torch = component("torch")
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        np.testing.assert_array_equal(load(spec).encode_text(texts), rows)
        assert torch.get_num_threads() == 3  # the caller's own stay
    finally:
        torch.set_num_threads(before)


def test_a_row_out_of_the_cache_is_the_row_that_would_be_computed(spec, texts, tmp_path):
    """Half of the texts are kept from another run, with other neighbours."""
    cache = EmbeddingCache(tmp_path / "c.sqlite")
    load(spec, cache=cache, batch_size=3).encode_text(texts[::2])
    encoder = load(spec, cache=cache)
    np.testing.assert_array_equal(encoder.encode_text(texts), load(spec).encode_text(texts))
    assert encoder.report.from_cache >= 20


def test_unit_length_is_taken_row_by_row(rng):
    """Of 768 numbers each: einsum's buffers of 8192 would end inside of a row."""

    class Wide(Averages):
        dim = 768

        def text_features(self, texts):
            return np.stack([features[text] for text in texts])

    names = [f"t{i}" for i in range(64)]
    features = dict(zip(names, rng.standard_normal((64, 768)).astype(np.float32), strict=True))
    together = Encoder(Wide()).encode_text(names)
    alone = np.concatenate([Encoder(Wide()).encode_text([name]) for name in names])
    np.testing.assert_array_equal(together, alone)


def test_what_cannot_be_promised_is_said_in_the_artefact(tmp_path):
    """An encoder that computes in batches, as on a GPU, says so wherever its name is written."""
    note = (
        "rows may differ in their last digits with what is encoded beside them:"
        " computed in batches on cpu in float32"
    )
    encoder = Encoder(Averages())
    assert EncoderRef.of(encoder).note == note
    assert EncoderRef.of(eq.wrap(encoder, eq.AttributeSpace.from_prototypes(
        dict(zip("ab", encoder.encode_text(["one two", "three"]), strict=True)), encoder=encoder
    ))).note == note  # fmt: skip
    space = eq.AttributeSpace.from_prototypes(
        dict(zip("ab", encoder.encode_text(["one two", "three"]), strict=True)), encoder=encoder
    )
    space.save(tmp_path / "space")
    assert eq.AttributeSpace.load(tmp_path / "space").encoder.note == note
