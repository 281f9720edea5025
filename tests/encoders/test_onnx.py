"""Exported graphs: they agree with torch, run without it, and a damaged folder says what is wrong. And wrapped encoders, exported or not."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

import equipoise as eq
from equipoise.encoders._preprocess import Preprocess
from tests.helpers import models
from tests.helpers.common import component, unit

torch = component("torch")
component("onnxruntime")
component("onnxscript")

TEXTS = [
    "a photo of a doctor",
    "a nurse",
    "an old woman with a hat",
    "a",
    "🙂",
    "Don't! a (very)  LONG hat.",
]
AGREE = 1e-4  # cosine, the issue's own figure; float32 gives 1e-6


@pytest.fixture(scope="module")
def pictures():
    rng = np.random.default_rng(0)
    return [
        Image.fromarray(rng.integers(0, 256, (40 + i, 60, 3), dtype=np.uint8)) for i in range(5)
    ]


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    return eq.load_encoder(f"hf:{models.clip(tmp_path_factory.mktemp('clip') / 'clip')}")


@pytest.fixture(scope="module")
def exported(clip, tmp_path_factory):
    return eq.export_onnx(clip, tmp_path_factory.mktemp("export") / "onnx")


@pytest.fixture
def space(clip):
    rows = clip.encode_text(["a photo of a man", "a photo of a woman"])
    return eq.AttributeSpace.from_prototypes(
        dict(zip(("male", "female"), rows, strict=True)), encoder=clip
    )


@pytest.fixture
def copy(exported, tmp_path):
    return shutil.copytree(exported, tmp_path / "copy")


def agree(a, b):
    assert a.shape == b.shape and (1 - (a * b).sum(1)).max() < AGREE


def test_torch_and_onnx_agree(clip, exported, pictures):
    encoder = eq.load_encoder(f"onnx:{exported}", batch_size=3)
    agree(encoder.encode_text(TEXTS), clip.encode_text(TEXTS))
    agree(encoder.encode_images(pictures), clip.encode_images(pictures))
    assert (encoder.id, encoder.dim) == (clip.id, clip.dim)
    assert encoder.fingerprint == clip.fingerprint  # one space: an artefact of either fits both
    with pytest.warns(UserWarning, match="1 of 1 texts are longer than the 24 tokens"):
        agree(encoder.encode_text(["a nurse " * 30]), _quiet(clip.encode_text, ["a nurse " * 30]))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["blip", "blip2", "align", "chinese_clip"])
def test_other_architectures_export(kind, tmp_path, pictures):
    encoder = eq.load_encoder(f"hf:{models.HF[kind](tmp_path / kind)}")
    onnx = eq.load_encoder(f"onnx:{eq.export_onnx(encoder, tmp_path / 'onnx')}")
    agree(onnx.encode_text(TEXTS), encoder.encode_text(TEXTS))
    agree(onnx.encode_images(pictures), encoder.encode_images(pictures))


def test_without_torch(exported, tmp_path):
    Image.new("RGB", (50, 40), "red").save(tmp_path / "a.png")
    code = f"""
import sys
sys.modules["torch"] = sys.modules["transformers"] = None
import equipoise as eq
encoder = eq.load_encoder("onnx:{exported}")
print(encoder.encode_text(["a doctor"]).shape, encoder.encode_images(["{tmp_path}/a.png"]).shape)
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "(1, 16) (1, 16)"


def test_a_graph_made_elsewhere_that_takes_floats(clip, copy, pictures):
    """A folder written by hand: other names, normalised floats, no fingerprint of ours."""

    class Vision(torch.nn.Module):
        def forward(self, pixel_values):
            return clip.module.image_features(pixel_values)

    batch = torch.export.Dim("batch")
    program = torch.onnx.export(
        Vision().eval(),
        (torch.zeros(2, 3, 32, 32),),
        input_names=["pixel_values"],
        output_names=["image_embeds"],
        dynamic_shapes=({0: batch},),
        dynamo=True,
    )
    program.save(str(copy / "vision_model.onnx"))
    settings = json.loads((copy / "encoder.json").read_text())
    preprocess = clip.towers.preprocess.to_json()
    settings |= {"sha256": {}, "fingerprint": "", "id": ""}
    settings["image"] = {
        "file": "vision_model.onnx",
        "input": "pixel_values",
        "output": "image_embeds",
        "layout": "floats",
        "preprocess": preprocess,
    }
    (copy / "encoder.json").write_text(json.dumps(settings))
    encoder = eq.load_encoder(f"onnx:{copy}")
    agree(encoder.encode_images(pictures), clip.encode_images(pictures))
    assert encoder.fingerprint != clip.fingerprint
    assert encoder.id == f"onnx:{copy}"


def test_an_edited_folder_loses_the_fingerprint_of_its_source(clip, copy):
    assert eq.load_encoder(f"onnx:{copy}").fingerprint == clip.fingerprint
    settings = json.loads((copy / "encoder.json").read_text())
    settings["image"]["preprocess"]["resize"] = 64
    (copy / "encoder.json").write_text(json.dumps(settings))
    assert eq.load_encoder(f"onnx:{copy}").fingerprint != clip.fingerprint


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda s: s["image"]["preprocess"].update(size=32), "does not describe an encoder"),
        (lambda s: s["text"].update(padid=3), "does not describe an encoder"),
        (
            lambda s: s["image"].update(input="pixel_values"),
            "has no 'pixel_values', which encoder.json names; it has pixels",
        ),
        (lambda s: s["text"].update(output="rows"), "has no 'rows'"),
    ],
)
def test_mistakes_in_a_hand_written_folder(copy, edit, message):
    settings = json.loads((copy / "encoder.json").read_text())
    edit(settings)
    (copy / "encoder.json").write_text(json.dumps(settings))
    with pytest.raises(eq.EquipoiseError, match=message):
        eq.load_encoder(f"onnx:{copy}")


def test_a_wrong_width_is_found(copy, pictures):
    settings = json.loads((copy / "encoder.json").read_text())
    (copy / "encoder.json").write_text(json.dumps(settings | {"dim": 12}))
    with pytest.raises(
        eq.EquipoiseError,
        match=r"gave image features of shape \(5, 16\) for 5 items of 12 dimensions",
    ):
        eq.load_encoder(f"onnx:{copy}").encode_images(pictures)


def test_a_folder_without_an_image_graph_is_text_only(copy):
    settings = json.loads((copy / "encoder.json").read_text())
    del settings["image"]
    (copy / "encoder.json").write_text(json.dumps(settings))
    assert eq.load_encoder(f"onnx:{copy}").modalities == ("text",)


def test_damaged_folders(copy):
    (copy / "text.onnx").write_bytes((copy / "text.onnx").read_bytes()[:-1] + b"x")
    with pytest.raises(eq.EquipoiseError, match=r"text.onnx is damaged: its checksum"):
        eq.load_encoder(f"onnx:{copy}")
    (copy / "text.onnx").unlink()
    with pytest.raises(eq.EquipoiseError, match=r"lacks text.onnx"):
        eq.load_encoder(f"onnx:{copy}")
    settings = json.loads((copy / "encoder.json").read_text())
    (copy / "encoder.json").write_text(json.dumps(settings | {"format": 99}))
    with pytest.raises(eq.EquipoiseError, match=r"format 99"):
        eq.load_encoder(f"onnx:{copy}")
    (copy / "encoder.json").write_text(json.dumps(settings | {"dim": "wide"}))
    with pytest.raises(eq.EquipoiseError, match=r"does not describe an encoder"):
        eq.load_encoder(f"onnx:{copy}")
    settings["text"]["file"] = "../../elsewhere.onnx"
    (copy / "encoder.json").write_text(json.dumps(settings))
    with pytest.raises(eq.EquipoiseError, match=r"files lie in the folder itself"):
        eq.load_encoder(f"onnx:{copy}")


def test_export_refuses_what_it_cannot_do(clip, exported, tmp_path):
    with pytest.raises(eq.EquipoiseError, match="exists and is not empty"):
        eq.export_onnx(clip, exported)
    with pytest.raises(eq.EquipoiseError, match="pass an encoder of hf:"):
        eq.export_onnx(eq.load_encoder(f"onnx:{exported}"), tmp_path / "again")
    flexible = eq.load_encoder(f"hf:{models.siglip2(tmp_path / 'siglip2')}")
    with pytest.raises(eq.EquipoiseError, match="is not resize, crop and normalise"):
        eq.export_onnx(flexible, tmp_path / "flexible")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["siglip2"]  # nothing half-written


def test_wrap_encodes_debiased(clip, space, pictures):
    wrapped = eq.wrap(clip, space)
    np.testing.assert_allclose(
        wrapped.encode_text(TEXTS), eq.debias(clip.encode_text(TEXTS), space), atol=1e-7
    )
    np.testing.assert_allclose(
        wrapped.encode_images(pictures), eq.debias(clip.encode_images(pictures), space), atol=1e-7
    )
    rows = np.stack(list(wrapped.iter_images(pictures)))
    np.testing.assert_allclose(rows, wrapped.encode_images(pictures), atol=1e-7)
    assert wrapped.fingerprint != clip.fingerprint
    assert eq.wrap(clip, space.with_kappa(2)).fingerprint != wrapped.fingerprint


def test_wrap_passes_unreadable_pictures_through(clip, space, pictures):
    with pytest.warns(UserWarning, match="1 of 2"):
        rows = eq.wrap(clip, space).encode_images([pictures[0], b"broken"])
    assert np.isnan(rows[1]).all()
    assert np.isfinite(rows[0]).all()


def test_a_wrapped_module_is_a_torch_module(clip, space):
    module = eq.wrap(clip, space).module
    pixels = torch.randint(0, 256, (3, 32, 32, 3), dtype=torch.uint8)
    tokens = clip.towers.tokenize(TEXTS[:3])
    _, texts = module(pixels, **tokens)
    np.testing.assert_allclose(texts, eq.debias(clip.encode_text(TEXTS[:3]), space), atol=2e-6)
    assert isinstance(module, torch.nn.Module)
    grad = torch.rand(2, 3, 32, 32, requires_grad=True)
    module.encode_image(grad).sum().backward()
    assert torch.isfinite(grad.grad).all()


@pytest.mark.slow
def test_a_wrapped_encoder_exports_too(clip, space, tmp_path, pictures):
    wrapped = eq.wrap(clip, space)
    encoder = eq.load_encoder(f"onnx:{eq.export_onnx(wrapped, tmp_path / 'onnx')}")
    agree(encoder.encode_text(TEXTS), wrapped.encode_text(TEXTS))
    agree(encoder.encode_images(pictures), wrapped.encode_images(pictures))
    assert encoder.fingerprint == wrapped.fingerprint
    leaked = np.abs(encoder.encode_text(["a man"]) @ space.basis)
    assert leaked < np.abs(clip.encode_text(["a man"]) @ space.basis)


def test_an_artefact_refuses_another_encoder(clip, space, tmp_path):
    other = eq.load_encoder(
        f"hf:{models.clip(tmp_path / 'other', hidden_act='gelu', num_hidden_layers=1)}"
    )
    message = f"fitted with {clip.id} {clip.fingerprint[:12]}, and {other.id} {other.fingerprint[:12]} was given"
    with pytest.raises(eq.errors.EncoderMismatchError, match=message):
        eq.wrap(other, space)
    space.save(tmp_path / "space.safetensors")
    with pytest.raises(eq.errors.EncoderMismatchError, match=message):
        eq.AttributeSpace.load(tmp_path / "space.safetensors", encoder=other)
    with pytest.raises(eq.errors.EncoderMismatchError, match=message):
        eq.certify(other.encode_text(TEXTS), space, encoder=other)
    assert (
        eq.certify(clip.encode_text(TEXTS), space, encoder=clip).summary()["embeddings_encoder"]
        == f"{clip.id} {clip.fingerprint[:12]}"
    )
    assert (
        "bare array" in eq.certify(other.encode_text(TEXTS), space).summary()["embeddings_encoder"]
    )


def test_normalise_is_what_the_graph_does(clip, exported, rng):
    raw = rng.integers(0, 256, (2, 32, 32, 3), dtype=np.uint8)
    preprocess = Preprocess.from_json(
        json.loads((exported / "encoder.json").read_text())["image"]["preprocess"]
    )
    with torch.inference_mode():
        expected = clip.module.encode_image(torch.from_numpy(preprocess.normalise(raw))).numpy()
    np.testing.assert_allclose(
        unit(eq.load_encoder(f"onnx:{exported}").towers.image_features(raw)), expected, atol=2e-6
    )


def _quiet(function, items):
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(items)
