"""Rivals of balanced generation: their mathematics, and what they do to small real pipelines."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import equipoise as eq
from equipoise.errors import InputError
from equipoise.generation import draw, read_provenance
from equipoise.generation._manifest import DrawnPicture, Manifest
from equipoise.generation._plan import make_plan
from equipoise.generation._treatments.fair_diffusion import FairDiffusion, SemanticGuidance
from equipoise.generation._treatments.uce import edit_map, fitted, neutral_targets
from tests.helpers.common import EPS, component, embedded_file, embedded_model

GENDER = eq.Attribute.load("gender")
DOCTOR, NURSE, MAN, TREE = (
    "a photo of a doctor",
    "a photo of a nurse",
    "a photo of a male doctor",
    "a photo of a tree",
)
SAID, UNSAID = np.ones((2, 1, 2, 2)), np.zeros((2, 1, 2, 2))


# --- Mathematics


@given(st.integers(0, 10**6))
@settings(max_examples=25, deadline=None)
def test_uce_s_map_is_the_least_of_its_loss_for_every_layer(seed):
    """The gradient at W' = W M is zero, whatever W is."""
    rng = np.random.default_rng(seed)
    edited, targets, kept = (rng.standard_normal((n, 6)) for n in (4, 4, 5))
    preserve, lam = 0.1, 0.01
    mapped = edit_map(edited, targets, kept, preserve, lam)
    layer = rng.standard_normal((3, 6))
    new = layer @ mapped
    scale = lam * (edited**2).sum(1).mean()
    gradient = (edited @ new.T - targets @ layer.T).T @ edited
    gradient += preserve * (kept @ new.T - kept @ layer.T).T @ kept + scale * (new - layer)
    size = abs(edited).sum() ** 2  # no entry of the system or of what it is solved for is larger
    np.testing.assert_allclose(gradient, 0, atol=size * np.finfo(float).eps * len(mapped))


@given(st.integers(0, 10**6), st.integers(2, 5))
@settings(max_examples=25, deadline=None)
def test_uce_s_targets_are_as_near_to_each_group(seed, groups):
    rng = np.random.default_rng(seed)
    states, anchors = rng.standard_normal((3, 9)), rng.standard_normal((3, groups, 9))
    for target, of_groups in zip(neutral_targets(states, anchors), anchors, strict=True):
        middle = of_groups.mean(0)
        apart = of_groups - middle
        condition = np.linalg.cond(apart[:-1] @ of_groups.T)  # of what is solved, in float64
        sizes = np.linalg.norm(apart) * (np.linalg.norm(target) + np.linalg.norm(middle))
        error = np.finfo(float).eps * condition * sizes
        np.testing.assert_allclose(apart @ (target - middle), 0, atol=9 * error)  # of nine entries


def test_guidance_goes_to_the_drawn_group_after_the_warm_up():
    options = FairDiffusion(scale=2.0, threshold=0.0, warmup=0.5, momentum=0.0)
    guidance = SemanticGuidance(options, [1, -1])
    assert not guidance.gamma(UNSAID, [SAID, UNSAID], 0.0).any()
    np.testing.assert_allclose(guidance.gamma(UNSAID, [SAID, UNSAID], 0.5), 2.0)
    np.testing.assert_allclose(guidance.gamma(UNSAID, [UNSAID, SAID], 0.5), -2.0)


def test_guidance_leaves_small_entries_alone_and_carries_earlier_ones():
    options = FairDiffusion(scale=1.0, threshold=0.5, warmup=0.0, momentum=1.0, beta=0.0)
    guidance = SemanticGuidance(options, [1])
    slope = np.arange(8.0).reshape(1, 1, 2, 4)
    first = guidance.gamma(0 * slope, [slope], 0.0)
    assert np.array_equal(first, np.where(slope >= 4, slope, 0))
    assert np.array_equal(guidance.gamma(0 * slope, [slope], 0.1), 2 * first)


def test_guidance_is_the_same_in_torch():
    torch = component("torch")
    rng = np.random.default_rng(0)
    unsaid, said, other = (rng.standard_normal((2, 3, 4, 4)) for _ in range(3))
    ours, theirs = (SemanticGuidance(FairDiffusion(), [1, -1]) for _ in range(2))
    for progress in (0.0, 0.5, 0.9):
        expected = ours.gamma(unsaid, [said, other], progress)
        rows = [torch.from_numpy(array) for array in (unsaid, said, other)]
        found = theirs.gamma(rows[0], rows[1:], progress)
        np.testing.assert_allclose(found.numpy(), expected, atol=1e-12)


def test_shares_of_fair_diffusion_are_checked():
    with pytest.raises(InputError, match="threshold=1 is not legal; it is a share"):
        make_plan("sd1", GENDER, [DOCTOR], ["fair-diffusion:threshold=1"], 1)


# --- Pictures


@pytest.fixture(scope="module")
def sd1():
    component("diffusers")
    component("torch")
    from tests.helpers import pipelines

    return pipelines.sd1()


def drawn(painter, folder, methods, images: int = 2) -> dict:
    from PIL import Image

    prompts = [DOCTOR, MAN, TREE]
    plan = make_plan("x", GENDER, prompts, methods, images, book="occupations-gender", steps=1)
    found = {}
    for slot, picture in draw(plan, painter, GENDER, folder).pictures.items():
        with Image.open(folder / picture.image) as image:
            found[slot] = image.tobytes()
    return found


def test_rivals_change_neutral_prompts_alone_and_leave_the_pipeline_as_it_was(sd1, tmp_path):
    from equipoise.generation._painters import DiffusersPainter

    before = {name: value.clone() for name, value in sd1.unet.state_dict().items()}
    methods = ["uce", "fair-diffusion:warmup=0,scale=40", "prompt-intervention"]
    shown = drawn(DiffusersPainter(sd1, steps=1, guidance=5.0), tmp_path, methods)
    for method in {method for method, _, _ in shown} - {"none"}:
        for number in range(2):
            for prompt, same in ((DOCTOR, False), (MAN, True)):
                pictures = shown["none", prompt, number], shown[method, prompt, number]
                assert (pictures[0] == pictures[1]) == same, (method, prompt)
    assert all((value == before[name]).all() for name, value in sd1.unet.state_dict().items())
    assert "forward" not in sd1.unet.__dict__
    pictures = Manifest(tmp_path).pictures
    added = read_provenance(tmp_path / pictures["prompt-intervention", DOCTOR, 0].image)
    assert added is not None and added.wording.endswith("irrespective of their gender")
    guided = next(method for method, _, _ in pictures if method.startswith("fair"))
    groups = [pictures[guided, DOCTOR, number].drawn for number in range(2)]
    assert groups == ["male", "female"]


def test_guidance_of_no_scale_is_the_original_model(sd1, tmp_path):
    from equipoise.generation._painters import DiffusersPainter

    typed = "fair-diffusion:scale=0"
    shown = drawn(DiffusersPainter(sd1, steps=2, guidance=5.0), tmp_path, [typed], 1)
    assert shown["none", DOCTOR, 0] == shown["fair-diffusion (scale=0)", DOCTOR, 0]


def test_uce_multiplies_every_layer_that_reads_a_prompt(sd1):
    import torch

    editing = fitted(sd1, GENDER, eq.PromptBook.load("occupations-gender"), 0.1, 6e-4)
    before = [layer.weight.detach().clone() for layer in editing.layers]
    assert len(before) == 2 * sum(name.endswith("attn2") for name, _ in sd1.unet.named_modules())
    with editing.applied():
        for layer, weight in zip(editing.layers, before, strict=True):
            wanted = weight.double() @ torch.from_numpy(editing.mapped)
            # in float64, and rounded once
            torch.testing.assert_close(layer.weight.double(), wanted, rtol=EPS, atol=0)
    assert all(
        torch.equal(layer.weight, weight)
        for layer, weight in zip(editing.layers, before, strict=True)
    )


def test_the_embedded_generator_is_guided_and_left_as_it_was(tmp_path):
    from equipoise.generation._mini import MiniPipeline
    from equipoise.generation._painters import MiniPainter

    generator = embedded_file(component("equipoise_mini").generator)
    pipe = MiniPipeline(embedded_model(), generator)
    methods = ["uce", "fair-diffusion:warmup=0", "fair-diffusion:scale=0"]
    shown = drawn(MiniPainter(pipe, steps=1), tmp_path, methods, 1)
    assert shown["none", DOCTOR, 0] == shown["fair-diffusion (scale=0)", DOCTOR, 0]
    for method in ("uce", "fair-diffusion (warmup=0)"):
        assert shown["none", DOCTOR, 0] != shown[method, DOCTOR, 0]
        assert shown["none", MAN, 0] == shown[method, MAN, 0]
    assert "velocity" not in generator.__dict__ and "encode_prompt" not in pipe.__dict__


def test_guidance_in_torch_is_that_on_onnxruntime_whatever_is_drawn_beside(tmp_path):
    """In float32, but for the order of sums; one picture at a time or all of them."""
    component("torch")
    from equipoise.generation import _treatments as treatments
    from equipoise.generation._mini import MiniPipeline
    from equipoise.generation._painters import MiniPainter
    from equipoise_mini.torch_drawing import TorchGenerator

    typed = "fair-diffusion:warmup=0,scale=40"
    plan = make_plan("mini", GENDER, [DOCTOR], [typed], 3)
    spec = list(plan.specs().values())[-1]
    shown = []
    for generator in (
        embedded_file(component("equipoise_mini").generator),
        TorchGenerator(device="cpu"),
    ):
        painter = MiniPainter(MiniPipeline(embedded_model(), generator), steps=2)
        some = [picture_of(plan, spec.label, number) for number in range(3)]
        with treatments.open_treatment(
            spec, treatments.DrawingRun(plan, painter, GENDER)
        ) as at_work:
            together = at_work.paint(some)
            alone = np.concatenate([at_work.paint([picture]) for picture in some])
        shown += [together.astype(int), alone.astype(int)]
    np.testing.assert_array_equal(shown[0], shown[1])  # onnxruntime takes a row at a time
    for others in shown[2:]:
        assert abs(shown[0] - others).max() <= 2 and (shown[0] != others).mean() < 0.02


def picture_of(plan, method, number):
    return DrawnPicture(
        image=f"{number}.png",
        prompt=plan.prompts[0].prompt,
        method=method,
        seed=number,
        explicit_group="",
        attempt=0,
        number=number,
    )
