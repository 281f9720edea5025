"""The embedded default: what is shipped loads offline, computes alike in ONNX and torch, says what it is, and tells people apart as its card says."""

from __future__ import annotations

import io
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import equipoise as eq
from equipoise.encoders import registry
from tests.conftest import component, shared_data

ROOT = Path(__file__).parents[1]
TEXTS = ["a photo of a man", "a photo of a woman", "a doctor who smiles", "quantum chromodynamics on a lattice", "ein Arzt", "😀"]


@pytest.fixture(scope="module")
def package():
    return component("equipoise_mini")


@pytest.fixture(scope="module")
def mini(package):
    return eq.load_encoder("mini")


@pytest.fixture(scope="module")
def faces():
    import pandas as pd
    from PIL import Image

    table = pd.read_parquet(shared_data("people/fairface_val.parquet")).head(400)
    return [Image.open(io.BytesIO(picture)).convert("RGB") for picture in table["image"]], table["gender"].to_numpy()


def test_texts_of_any_domain_are_unit_rows(mini):
    rows = mini.encode_text(TEXTS)
    assert rows.shape == (len(TEXTS), 256) and np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-6)
    assert rows[0] @ rows[1] < 0.999 and rows[0] @ rows[1] > rows[0] @ rows[3]


def test_torch_and_onnx_compute_the_same(mini, package):
    torch = component("torch")
    model = package.torch_model()
    tokens = mini.towers._cut.encode_batch(TEXTS)
    ids, mask = (torch.tensor([getattr(token, name) for token in tokens]) for name in ("ids", "attention_mask"))
    pixels = np.random.default_rng(0).integers(0, 256, (5, 64, 64, 3), dtype=np.uint8)
    with torch.inference_mode():  # 256 sums of products in float32, in another order
        np.testing.assert_allclose(model.encode_text(ids, mask).numpy(), mini.towers.text_features(TEXTS), atol=5e-6)
        np.testing.assert_allclose(model.encode_image(torch.from_numpy(pixels)).numpy(), mini.towers.image_features(pixels), atol=5e-6)
    ids, mask = ids[:2], mask[:2]
    embeddings = model.text.tokens(ids).detach().requires_grad_()
    model.text(embeddings, mask).square().sum().backward()
    assert embeddings.grad.abs().sum() > 0


def test_it_loads_without_a_network_and_without_torch(package):
    code = (
        "import socket, sys\n"
        "def refuse(*_): raise OSError('no network')\n"
        "socket.socket.connect = refuse; sys.modules['torch'] = None\n"
        "import equipoise as eq\n"
        "print(eq.load_encoder('mini').encode_text(['a nurse']).shape)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout == "(1, 256)\n"


def test_a_damaged_file_is_named(package, tmp_path):
    folder = shutil.copytree(package.FOLDER, tmp_path / "model")
    weights = folder / "weights.safetensors"
    data = bytearray(weights.read_bytes())
    data[-7] ^= 1
    weights.write_bytes(data)
    with pytest.raises(eq.EquipoiseError, match=r"weights\.safetensors is damaged"):
        eq.load_encoder(f"onnx:{folder}")


def test_without_the_package_the_message_has_the_pip_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "equipoise_mini", None)
    with pytest.raises(eq.EquipoiseError, match=re.escape('pip install "equipoise[mini]"')):
        registry.find("mini")


def test_doctor_says_what_it_knows_and_may_be_used_for(package):
    from equipoise import doctor

    about = doctor.about_mini()
    assert about == {"knows": package.KNOWS, "notice": package.NOTICE} and "non-commercial" in about["notice"]
    assert "non-commercial" in (ROOT / "mini" / "LICENSE").read_text()


def test_it_is_small(package):
    assert sum(file.stat().st_size for file in package.FOLDER.iterdir()) < 30e6


def test_the_card_quotes_its_figures():
    figures, card = json.loads((ROOT / "mini" / "figures.json").read_text()), (ROOT / "mini" / "README.md").read_text()
    quoted = 0
    for name, figure in figures.items():
        if isinstance(figure, dict) and "low" in figure:
            assert f"| {name} | {figure['value']:.3f} [{figure['low']:.3f}, {figure['high']:.3f}] | {figure['n']:,} |" in card
            quoted += 1
    assert quoted > 25 and figures["revision"] in card


def test_it_reads_perceived_gender_as_the_card_says(mini, faces):
    """400 photographs: four standard errors below the card's 0.917 is 0.86."""
    pictures, gender = faces
    images = mini.encode_images(pictures)
    texts = mini.encode_text(["a photo of a man", "a photo of a woman"])
    assert (np.array(["male", "female"])[np.argmax(images @ texts.T, axis=1)] == gender).mean() > 0.86


def test_the_closed_form_makes_its_searches_even(mini, faces):
    """Occupations found in a gallery of faces: the skew by gender falls, and explicit prompts still find whom they name."""
    pictures, gender = faces
    images = mini.encode_images(pictures)
    attribute = eq.Attribute.load("gender")
    space = eq.AttributeSpace.from_prompts(mini, eq.PromptBook.curated("occupations-gender"), attribute)
    prompts = [
        "a photo of a nurse",
        "a photo of a mechanic",
        "a photo of a ballet dancer",
        "a photo of a carpenter",
        "a photo of a florist",
        "a photo of a soldier",
    ]
    texts = mini.encode_text(prompts)
    skew = eq.metrics.max_skew
    before = skew(texts @ images.T, sensitive_features=gender, m=50)
    after = skew(eq.debias(texts, space, kappa=np.inf) @ eq.debias(images, space, kappa=np.inf).T, sensitive_features=gender, m=50)
    assert after < before
