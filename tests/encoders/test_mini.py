"""The embedded default: what is shipped loads offline, computes alike in ONNX and torch, says what it is, and tells people apart as its card says."""

from __future__ import annotations

import io
import json
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import equipoise as eq
from equipoise.encoders import _registry as registry
from tests.helpers.common import component, shared_data, unit

ROOT = Path(__file__).parents[2]
TEXTS = [
    "a photo of a man",
    "a photo of a woman",
    "a doctor who smiles",
    "quantum chromodynamics on a lattice",
    "ein Arzt",
    "😀",
]


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
    return [Image.open(io.BytesIO(picture)).convert("RGB") for picture in table["image"]], table[
        "gender"
    ].to_numpy()


def test_texts_of_any_domain_are_unit_rows(mini):
    rows = mini.encode_text(TEXTS)
    assert rows.shape == (len(TEXTS), 256) and np.allclose(
        np.linalg.norm(rows, axis=1), 1, atol=1e-6
    )
    assert rows[0] @ rows[1] < 0.999 and rows[0] @ rows[1] > rows[0] @ rows[3]


def test_torch_and_onnx_compute_the_same(mini, package):
    torch = component("torch")
    model = package.torch_model()
    tokens = mini.towers._cut.encode_batch(TEXTS)
    ids, mask = (
        torch.tensor([getattr(token, name) for token in tokens])
        for name in ("ids", "attention_mask")
    )
    pixels = np.random.default_rng(0).integers(0, 256, (5, 64, 64, 3), dtype=np.uint8)
    with torch.inference_mode():  # 256 sums of products in float32, in another order
        np.testing.assert_allclose(
            model.encode_text(ids, mask).numpy(), mini.towers.text_features(TEXTS), atol=5e-6
        )
        np.testing.assert_allclose(
            model.encode_image(torch.from_numpy(pixels)).numpy(),
            mini.towers.image_features(pixels),
            atol=5e-6,
        )
    ids, mask = ids[:2], mask[:2]
    embeddings = model.text.tokens(ids).detach().requires_grad_()
    model.text(embeddings, mask).square().sum().backward()
    assert embeddings.grad.abs().sum() > 0


def test_its_text_tower_without_a_prefix_is_the_graph(mini):
    torch = component("torch")
    tower = mini.text_tower()
    assert mini.text_tower() is tower and not any(
        weight.requires_grad for weight in tower.model.parameters()
    )
    texts = [*TEXTS, "a very long sentence about people at work " * 9]
    with torch.no_grad():
        rows = tower.features(tower.tokenize(texts, 0), torch.zeros(0, 256)).numpy()
    np.testing.assert_allclose(unit(rows), mini.towers.text_features(texts), atol=5e-6)  # as above


def test_a_prefix_is_seen_by_every_token_and_is_not_pooled(mini):
    """Written out by hand, one text at a time without padding: [prefix, text with its own positions], the mean of the text's states."""
    torch = component("torch")
    tower, texts = mini.text_tower(), ["a photo of a doctor", "a nurse"]
    prefix = torch.randn(3, 256, generator=torch.Generator().manual_seed(0)).requires_grad_()
    tokens = tower.tokenize([*texts, "people " * 50], 3)
    assert tokens["input_ids"].shape == (3, 29)  # room for the prefix
    rows = tower.features(tokens, prefix)
    model = tower.model
    for i in range(2):
        ids = tokens["input_ids"][i][tokens["attention_mask"][i].bool()]
        x = torch.cat([prefix, model.tokens(ids) + model.positions[: len(ids)]])[None]
        for layer in model.layers:
            x = layer(x, torch.ones(1, 1, 1, x.shape[1], dtype=torch.bool))
        np.testing.assert_allclose(
            rows[i].detach().numpy(),
            model.head(model.norm(x[:, 3:]).mean(1))[0].detach().numpy(),
            atol=2e-5,
        )
    (gradient,) = torch.autograd.grad(rows[:2].square().sum(), prefix)
    assert gradient.abs().min() > 0
    assert np.abs(unit(rows.detach().numpy()[:2]) - mini.encode_text(texts)).max() > 1e-3


@pytest.mark.usefixtures("one_thread")
def test_prompt_array_learns_through_it(mini, tmp_path):
    """Images of one group lean to some of the prompts; the tokens take it out of how texts rank images."""
    rng = np.random.default_rng(0)
    prompts = tuple(
        f"a photo of a {word} person"
        for word in ("kind", "strict", "tall", "short", "busy", "calm")
    )
    texts = mini.encode_text(prompts)
    codes = rng.integers(0, 2, 200)
    images = texts[rng.integers(0, 6, 200)] + 0.02 * rng.standard_normal((200, 256))
    images += np.where(codes, 0.3, -0.3)[:, None] * unit(texts[:3].mean(0) - texts[3:].mean(0))
    gender = eq.Attribute.load("gender")
    context = eq.FitContext(
        gender,
        encoder=mini,
        images=images,
        sensitive_features=np.array(gender.groups)[codes],
        device="cpu",
    )
    method = eq.methods.create(
        "prompt-array", prompts=prompts, lr=2e-2, epochs=30, held_out=0.25, adversary="logits"
    )
    operator = method.fit(context)
    skew = [
        eq.metrics.ndkl(rows @ unit(images).T, sensitive_features=context.sensitive_features, m=60)
        for rows in (texts, operator.encode_text(prompts))
    ]
    assert skew[1] < 0.8 * skew[0]
    operator.save(tmp_path / "op.safetensors")
    again = eq.methods.load(tmp_path / "op.safetensors", encoder=mini)
    np.testing.assert_array_equal(again.encode_text(prompts), operator.encode_text(prompts))


def test_without_torch_the_text_tower_says_what_to_install(package):
    code = "import sys; sys.modules['torch'] = None\nimport equipoise as eq\neq.load_encoder('mini').text_tower()"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert 'pip install "equipoise[torch]"' in out.stderr.splitlines()[-1]


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
    from equipoise import _doctor as doctor

    about = doctor.about_mini()
    assert (
        about == {"knows": package.KNOWS, "notice": package.NOTICE}
        and "non-commercial" in about["notice"]
    )
    assert "non-commercial" in (ROOT / "mini" / "LICENSE").read_text()


def test_it_is_small(package):
    """14 MB of encoder, 17 MB of generator, at most 6 MB of gallery, as the card says."""
    assert sum(file.stat().st_size for file in package.FOLDER.iterdir()) < 38e6


def test_the_card_quotes_its_figures():
    figures, card = (
        json.loads((ROOT / "mini" / "figures.json").read_text()),
        (ROOT / "mini" / "README.md").read_text(),
    )
    quoted = 0
    for name, figure in figures.items():
        if isinstance(figure, dict) and "low" in figure:
            assert (
                f"| {name} | {figure['value']:.3f} [{figure['low']:.3f}, {figure['high']:.3f}] | {figure['n']:,} |"
                in card
            )
            quoted += 1
    assert quoted > 25 and figures["revision"] in card


FLOORS = {
    "fairface gender": 0.91,
    "fairface race": 0.65,
    "fairface young or old, balanced": 0.97,
    "idenprof occupation": 0.84,
    **{
        f"celeba {name}, AUC": 0.96
        for name in ("eyeglasses", "wearing_hat", "smiling", "blond_hair")
    },
    "flickr8k text to image, R@10": 0.32,
    "lean of held-out occupations, Spearman with the teacher": 0.8,
}


def test_the_card_reaches_its_floors():
    figures = json.loads((ROOT / "mini" / "figures.json").read_text())
    assert {
        name: figures[name]["value"]
        for name, floor in FLOORS.items()
        if figures[name]["value"] < floor
    } == {}


@pytest.mark.slow
def test_the_card_was_measured_on_what_is_shipped(mini):
    """All test photographs again. Rounding differs between processors: 2 in 1,000 photographs may."""
    evaluate = runpy.run_path(str(ROOT / "mini" / "evaluate.py"))
    card = json.loads((ROOT / "mini" / "figures.json").read_text())
    assert card["fingerprint"] == mini.fingerprint
    found = evaluate["from_photographs"](mini, shared_data("people").parent)
    for name in FLOORS.keys() & found.keys():
        assert abs(found[name]["value"] - card[name]["value"]) <= 0.002, name


def test_it_reads_perceived_gender_as_the_card_says(mini, faces):
    """400 photographs: four standard errors below the card's 0.912 is 0.855."""
    pictures, gender = faces
    images = mini.encode_images(pictures)
    texts = mini.encode_text(["a photo of a man", "a photo of a woman"])
    assert (
        np.array(["male", "female"])[np.argmax(images @ texts.T, axis=1)] == gender
    ).mean() > 0.855


def test_the_closed_form_makes_its_searches_even(mini, faces):
    """Occupations found in a gallery of faces: the skew by gender falls, and explicit prompts still find whom they name."""
    pictures, gender = faces
    images = mini.encode_images(pictures)
    attribute = eq.Attribute.load("gender")
    space = eq.AttributeSpace.from_prompts(
        mini, eq.PromptBook.curated("occupations-gender"), attribute
    )
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
    after = skew(
        eq.debias(texts, space, kappa=np.inf) @ eq.debias(images, space, kappa=np.inf).T,
        sensitive_features=gender,
        m=50,
    )
    assert after < before
