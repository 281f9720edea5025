"""The embedded generator as a pipeline: what attach does to its embeddings, and a whole run with real pictures, offline."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

import equipoise as eq
from equipoise._verbs.generate import GenerationRequest as Request
from equipoise._verbs.generate import generate as perform
from equipoise.errors import ArtefactError, InputError
from equipoise.generation import _paper_preset as preset
from equipoise.generation import read_provenance
from equipoise.generation._mini import MiniPipeline, load_mini
from tests.helpers.common import (
    ROOT,
    component,
    embedded_file,
    embedded_model,
    exact,
    rounding,
)

GENDER = eq.Attribute.load("gender")
DOCTOR, NURSE, MAN = "a photo of a doctor", "a photo of a nurse", "a photo of a male doctor"


@pytest.fixture(scope="module")
def encoder():
    return embedded_model()


@pytest.fixture(scope="module")
def generator(encoder):
    return embedded_file(component("equipoise_mini").generator)


def test_attach_edits_the_embeddings_that_the_generator_samples_from(encoder):
    pipe = MiniPipeline(encoder, None)
    plain = pipe.encode_prompt([DOCTOR, NURSE, MAN])
    with eq.generation.attach(pipe, "gender", kappa=0):
        assert np.array_equal(pipe.encode_prompt([DOCTOR, NURSE, MAN]), plain)
    with eq.generation.attach(pipe, "gender") as hook:
        edited = pipe.encode_prompt([DOCTOR, NURSE, MAN])
        basis = hook.spaces["text"].basis
    np.testing.assert_allclose(
        edited[:2], exact(plain[:2], basis).astype(float), atol=rounding(256)
    )
    assert np.array_equal(edited[2], plain[2]) and hook.gated == {MAN: 1}
    assert np.array_equal(pipe.encode_prompt([DOCTOR, NURSE, MAN]), plain)


def test_what_a_pipeline_is_called_with(encoder):
    pipe = MiniPipeline(encoder, None)
    with pytest.raises(InputError, match="one of the two"):
        pipe(seeds=[0])
    with pytest.raises(InputError, match="2 seeds were given for 1 prompts"):
        pipe("a photo of a doctor", seeds=[0, 1])


def test_an_equipoise_mini_without_a_generator_says_so(encoder, monkeypatch, tmp_path):
    mini = component("equipoise_mini")
    with monkeypatch.context() as older:
        older.delattr(mini, "generator")
        with pytest.raises(
            InputError, match="has no generator; type: pip install -U equipoise-mini"
        ):
            load_mini()
    monkeypatch.setattr(mini, "FOLDER", tmp_path)
    with pytest.raises(InputError, match=r"has no generator\.onnx; type: pip install"):
        load_mini()


def test_a_damaged_generator_is_named(generator, monkeypatch, tmp_path):
    mini = component("equipoise_mini")
    monkeypatch.setattr(mini, "FOLDER", shutil.copytree(mini.FOLDER, tmp_path / "model"))
    weights = tmp_path / "model" / "generator.safetensors"
    data = bytearray(weights.read_bytes())
    data[-7] ^= 1
    weights.write_bytes(data)
    with pytest.raises(ArtefactError, match=r"generator\.safetensors is damaged"):
        load_mini()


class Blots:
    """Keeps the generator's contract, if not its art: colours by the embedding, blots by the seed."""

    def sample(self, text_embeddings, seeds, guidance=2.0, steps=8):
        assert text_embeddings.dtype == np.float32 and np.allclose(
            np.linalg.norm(text_embeddings, axis=1), 1, rtol=0, atol=rounding(256)
        )
        colour = np.tanh(guidance * 8 * text_embeddings[:, :3])[:, None, None]
        blots = np.stack(
            [np.random.default_rng(seed).standard_normal((64, 64, 3)) for seed in seeds]
        )
        return np.clip(128 + 80 * colour + 20 * blots, 0, 255).astype(np.uint8)


@pytest.mark.slow
def test_a_run_through_whatever_keeps_the_contract(encoder, monkeypatch, tmp_path):
    """The preset's five methods in mini's own space, and the columns of Table 4."""
    monkeypatch.setattr(component("equipoise_mini"), "generator", Blots, raising=False)
    (tmp_path / "prompts.txt").write_text(
        "\n".join([DOCTOR, NURSE, MAN, "a photo of a female nurse"])
    )
    asked = {
        "methods": preset.MINI_METHODS,
        "per_prompt": 2,
        "clip_score": "mini",
        "same_encoder": True,
        "resamples": 50,
        "guidance": 3.0,
    }
    manifest, results = request(tmp_path / "run", **asked).perform()
    assert [method.label for method in results.methods] == [
        "none",
        "orth-proj",
        "orth-cali",
        "sfid (tau=0.9)",
        "closed-form",
    ]
    assert [column.key for column in results.columns] == [
        "sp",
        "sp_5",
        "clip",
        "accuracy",
        "clip_gated",
        "accuracy_gated",
    ]
    assert len(manifest.pictures) == 5 * 4 * 2 and results.clip.same and results.annotator.same
    drawn = {
        picture.slot: np.asarray(Image.open(tmp_path / "run" / picture.image))
        for picture in manifest.pictures.values()
    }
    assert all(
        not np.array_equal(drawn[method, DOCTOR, 0], drawn["none", DOCTOR, 0])
        for method in ("orth-proj", "sfid (tau=0.9)", "closed-form")
    )
    with pytest.raises(InputError, match="tokens and mini reads"):
        Request(
            tmp_path / "long", "mini", prompts="a photo of a doctor" + " with a hat" * 200
        ).perform()
    with pytest.raises(InputError, match="has one size"):
        Request(tmp_path / "large", "mini", prompts=DOCTOR, size=512).perform()
    with pytest.raises(InputError, match="has one dtype"):
        Request(tmp_path / "large", "mini", prompts=DOCTOR, loading={"dtype": "float16"}).perform()


def test_a_run_does_not_go_on_with_another_generator(encoder, generator, monkeypatch, tmp_path):
    """Half of its pictures would be of other weights."""
    assert len(generator.fingerprint) == 64
    monkeypatch.setattr(component("equipoise_mini"), "generator", Blots)
    monkeypatch.setattr(Blots, "fingerprint", "one", raising=False)
    asked = {"prompts": DOCTOR, "per_prompt": 1, "methods": ("none",)}
    manifest, _ = Request(tmp_path / "run", "mini", **asked).perform()
    (picture,) = manifest.pictures.values()
    assert (
        read_provenance(tmp_path / "run" / picture.image).revision
        == f"{encoder.fingerprint[:12]}-one"
    )
    Request(tmp_path / "run", "mini", **asked).perform()
    monkeypatch.setattr(Blots, "fingerprint", "other")
    with pytest.raises(InputError, match="holds another run \\(what differs: revision"):
        Request(tmp_path / "run", "mini", **asked | {"per_prompt": 2}).perform()


def test_pictures_depend_on_prompt_and_seed_alone(encoder, generator):
    pipe = MiniPipeline(encoder, generator)
    rough = {"steps": 6}  # to be quick
    two = pipe([DOCTOR, NURSE], seeds=[3, 4], **rough)
    assert two.dtype == np.uint8 and two.shape[0] == 2 and two.shape[3] == 3
    assert np.array_equal(pipe(NURSE, seeds=[4], **rough)[0], two[1])
    assert not np.array_equal(pipe(NURSE, seeds=[5], **rough)[0], two[1])
    embeds = pipe.encode_prompt([DOCTOR, NURSE])
    assert np.array_equal(pipe(prompt_embeds=embeds, seeds=[3, 4], **rough), two)


def test_what_a_generator_is_given(generator):
    assert generator.sample(np.zeros((0, 256)), []).shape == (0, 64, 64, 3)
    with pytest.raises(ValueError, match=r"shape \(2, 255\); pass rows of mini's encode_text"):
        generator.sample(np.ones((2, 255)), [0, 1])
    with pytest.raises(ValueError, match="2 text rows with 1 seeds"):
        generator.sample(np.ones((2, 256)), [0])
    with pytest.raises(ValueError, match=r"1 of 2 text rows hold NaN or infinity \(first: 1\)"):
        generator.sample(np.stack([np.ones(256), np.full(256, np.nan)]), [0, 1])
    for options in ({"steps": 0}, {"guidance": np.nan}):
        with pytest.raises(ValueError, match="are not legal; pass steps from 1"):
            generator.sample(np.ones((1, 256)), [0], **options)


def test_torch_draws_what_onnxruntime_draws(encoder, generator):
    """In float32, but for the order of sums, which may round a byte the other way."""
    component("torch")
    from equipoise_mini.torch_drawing import TorchGenerator

    rows = encoder.encode_text([DOCTOR, NURSE])
    in_torch = TorchGenerator(device="cpu")
    assert in_torch.precision == generator.precision == "float32 on cpu"
    ours, theirs = (one.sample(rows, [3, 4], steps=4).astype(int) for one in (in_torch, generator))
    assert abs(ours - theirs).max() <= 1 and (ours != theirs).mean() < 0.01


def test_a_device_that_is_not_there_is_told(encoder):
    component("torch")
    with pytest.raises(InputError, match="device='tpu' is not on this machine; pass one of"):
        load_mini("tpu")


def request(out, **options) -> Request:
    return Request(
        out,
        "mini",
        prompts=str(out.parent / "prompts.txt"),
        annotator="encoder:mini",
        **{"per_prompt": 4, "gate": False, **options},
    )


@pytest.mark.slow
def test_a_run_of_real_pictures(encoder, generator, tmp_path):
    (tmp_path / "prompts.txt").write_text(
        "\n".join([DOCTOR, NURSE, MAN, "a photo of a female nurse"])
    )
    options = {
        "methods": ("closed-form", "orth-proj"),
        "clip_score": "mini",
        "steps": 4,
    }  # rough ones, to be quick
    with pytest.raises(InputError, match="a judge in its own case"):
        request(tmp_path / "run", **options).perform()
    manifest, results = perform(request(tmp_path / "run", same_encoder=True, **options))
    assert results.clip.same and results.annotator.same and len(manifest.pictures) == 3 * 4 * 4
    assert (tmp_path / "run" / "report.html").is_file()


@pytest.mark.slow
def test_a_newcomers_first_pictures(generator, tmp_path, monkeypatch):
    """What docs/generation.md begins with, word for word."""
    monkeypatch.chdir(tmp_path)
    section = (
        (ROOT / "docs" / "generation.md").read_text().split("## Try it")[1].split("## Attach")[0]
    )
    (typed,) = re.findall(r"```bash\n(.*?)```", section, re.S)
    subprocess.run([sys.executable, "-m", *shlex.split(typed)], check=True, capture_output=True)
    assert (
        len(list((tmp_path / "first" / "images").rglob("*.png"))) == 16
        and (tmp_path / "first" / "report.html").is_file()
    )
    (block,) = re.findall(r"```python\n(.*?)```", section, re.S)
    names: dict = {}
    exec(compile(block, "generation.md", "exec"), names)
    assert names["pictures"].shape == (2, 64, 64, 3)


@pytest.mark.slow
def test_the_papers_preset_on_the_embedded_generator(encoder, generator, tmp_path):
    """Figures for pictures, offline: Table 4's columns, each with an interval. 680 pictures of two steps; sixteen would take an hour."""
    judges = {"annotator": "encoder:mini", "clip_score": "mini", "same_encoder": True}
    _, results = perform(
        Request(tmp_path / "run", "mini", preset="paper", per_prompt=2, steps=2, **judges)
    )
    assert [column.key for column in results.columns] == [
        "sp",
        "sp_5",
        "clip",
        "accuracy",
        "clip_gated",
        "accuracy_gated",
    ]
    for method in results.methods:
        assert all(
            entry.low - 1e-12 <= entry.value <= entry.high + 1e-12
            for entry in method.cells.values()
        )


def test_a_run_that_nothing_measures_leaves_its_report_too(generator, tmp_path):
    (tmp_path / "prompts.txt").write_text(DOCTOR)
    asked = request(tmp_path / "run", per_prompt=1, steps=2, methods=("closed-form",))
    asked.annotator = None
    manifest, results = perform(asked)
    assert len(manifest.pictures) == 2 and results.columns == []
    page = (tmp_path / "run" / "report.html").read_text()
    assert "Nothing was measured: nobody labelled the pictures." in page
    assert (tmp_path / "run" / "results.json").is_file()
