"""open_clip, in an environment of its own (make test-open-clip): our rows are the library's own, for ResNet and ViT, by name, file and folder."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest
from PIL import Image

import equipoise as eq
from tests.helpers.common import unit
from tests.helpers.open_clips import SMALL, import_open_clip
from tests.helpers.traps import Payload, set_trap

pytestmark = pytest.mark.open_clip

TEXTS = [
    "a photo of a doctor",
    "a nurse",
    "an old woman with a hat, and a young man with glasses in front of the hospital",
]
PRECISION = 2e-6  # float32, another batch


@pytest.fixture(scope="module")
def open_clip():
    with import_open_clip() as module:
        yield module


@pytest.fixture(scope="module")
def pictures():
    rng = np.random.default_rng(0)
    return [
        Image.fromarray(rng.integers(0, 256, (240 + 9 * i, 260 - 13 * i, 3), dtype=np.uint8))
        for i in range(4)
    ]


def straight(open_clip, model, name, pictures):
    """With the library alone, as its documentation says."""
    import torch

    preprocess = open_clip.transform.image_transform_v2(
        open_clip.transform.PreprocessCfg(**open_clip.get_model_preprocess_cfg(model)),
        is_train=False,
    )
    tokenizer = open_clip.get_tokenizer(name)
    with torch.inference_mode():
        images = model.eval().encode_image(
            torch.stack([preprocess(picture) for picture in pictures])
        )
        texts = model.encode_text(tokenizer(TEXTS))
    return unit(texts.numpy()), unit(images.numpy())


def save(model, path):
    from safetensors.torch import save_file

    save_file(
        {name: tensor.contiguous().clone() for name, tensor in model.state_dict().items()}, path
    )


def check(encoder, expected, pictures):
    text, image = encoder.encode_text(TEXTS), encoder.encode_images(pictures)
    np.testing.assert_allclose(text, expected[0], atol=PRECISION)
    np.testing.assert_allclose(image, expected[1], atol=PRECISION)
    assert text.dtype == image.dtype == np.float32


def test_a_resnet_50_from_a_checkpoint_file(open_clip, tmp_path, pictures):
    """The paper's second backbone at full size, with random weights."""
    import torch

    torch.manual_seed(0)
    model = open_clip.create_model("RN50", pretrained=None)
    save(model, tmp_path / "rn50.safetensors")
    encoder = eq.load_encoder(f"open_clip:RN50/{tmp_path}/rn50.safetensors", workers=0)
    assert encoder.dim == 1024
    check(encoder, straight(open_clip, model, "RN50", pictures[:2]), pictures[:2])


def test_a_folder(open_clip, tmp_path, pictures):
    import torch

    torch.manual_seed(0)
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "small.json").write_text(json.dumps(SMALL))
    open_clip.add_model_config(tmp_path / "configs")
    model = open_clip.create_model("small", pretrained=None)
    folder = tmp_path / "folder"
    folder.mkdir()
    preprocess = {
        "mean": [0.4, 0.5, 0.6],
        "std": [0.2, 0.3, 0.4],
        "interpolation": "bilinear",
        "resize_mode": "shortest",
    }
    (folder / "open_clip_config.json").write_text(
        json.dumps({"model_cfg": SMALL, "preprocess_cfg": preprocess})
    )
    save(model, folder / "open_clip_model.safetensors")
    same = open_clip.create_model(f"local-dir:{folder}")
    encoder = eq.load_encoder(f"open_clip:{folder}")
    check(encoder, straight(open_clip, same, f"local-dir:{folder}", pictures), pictures)
    assert encoder.towers.preprocess.mean == (0.4, 0.5, 0.6)
    assert encoder.fingerprint == eq.load_encoder(f"open_clip:{folder}").fingerprint
    with pytest.warns(UserWarning, match="1 of 2 texts are longer than the 77 tokens"):
        encoder.encode_text(["a nurse", "a nurse and a doctor " * 30])
    rows = encoder.encode_text(["a man", "a woman"])
    wrapped = eq.wrap(
        encoder,
        eq.AttributeSpace.from_prototypes({"male": rows[0], "female": rows[1]}, encoder=encoder),
    )
    tokens = encoder.towers.tokenize(TEXTS)
    np.testing.assert_allclose(
        wrapped.module.encode_text(**tokens), wrapped.encode_text(TEXTS), atol=PRECISION
    )


def written_folder(folder, text=SMALL["text_cfg"]):
    """A folder of open_clip without weights."""
    folder.mkdir()
    settings = {"model_cfg": SMALL | {"text_cfg": text}, "preprocess_cfg": {}}
    (folder / "open_clip_config.json").write_text(json.dumps(settings))
    return folder


def test_a_pickle_does_not_run(open_clip, tmp_path):
    marker = tmp_path / "ran"
    folder = written_folder(tmp_path / "folder")
    (folder / "open_clip_pytorch_model.bin").write_bytes(pickle.dumps(Payload(marker), protocol=2))
    with pytest.raises(eq.EquipoiseError):
        eq.load_encoder(f"open_clip:{folder}")
    assert not marker.exists()


def test_code_of_a_text_tower_does_not_run_whatever_is_typed(open_clip, tmp_path, monkeypatch):
    pytest.importorskip("transformers")
    marker, tower = tmp_path / "ran", tmp_path / "tower"
    tower.mkdir()
    set_trap(tower, marker)
    named = {"model_type": "trap", "auto_map": {"AutoConfig": "trap.Trap"}}
    (tower / "config.json").write_text(json.dumps(named))
    text = {"hf_model_name": str(tower), "hf_tokenizer_name": str(tower)}
    folder = written_folder(tmp_path / "folder", text)
    monkeypatch.setattr("builtins.input", lambda *_: "y")
    with pytest.raises(eq.EquipoiseError):
        eq.load_encoder(f"open_clip:{folder}", offline=True)
    assert not marker.exists()


def test_the_tag_decides_the_activation(open_clip, monkeypatch):
    """RN50/openai was trained with QuickGELU, which the name RN50 alone does not say."""
    asked = {}

    def create(name, **options):
        asked.update(options, name=name)
        raise OSError("no hub here")

    monkeypatch.setattr(open_clip, "create_model", create)
    with pytest.raises(
        eq.EquipoiseError, match="copy the model's files to a folder and pass open_clip:FOLDER"
    ):
        eq.load_encoder("open_clip:RN50/openai")
    assert asked == {
        "name": "RN50",
        "pretrained": "openai",
        "force_quick_gelu": True,
        "require_pretrained": True,
        "weights_only": True,
    }


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("RN50", "does not name weights; pass open_clip:NAME/WEIGHTS"),
        ("RN50/openia", "did you mean RN50/openai"),
        ("ViT-B32/openai", "did you mean ViT-B-32/openai"),
    ],
)
def test_names_that_are_none(open_clip, name, message):
    with pytest.raises(eq.EquipoiseError, match=message):
        eq.load_encoder(f"open_clip:{name}")


def test_revision_is_refused(open_clip):
    with pytest.raises(eq.EquipoiseError, match="open_clip has no revisions"):
        eq.load_encoder("open_clip:RN50/openai", revision="main")
