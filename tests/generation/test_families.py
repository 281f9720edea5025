"""Attaching to every family of pipelines: what the denoiser sees of an edited prompt, and what is left bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

import equipoise as eq
from equipoise.errors import InputError
from equipoise.generation._fitting import as_float64
from equipoise.generation._outputs import nodes
from tests.helpers.common import EPS, component, rounding, unit

diffusers = component("diffusers")
torch = component("torch")

from tests.helpers import families, pipelines  # noqa: E402

DOCTOR, NURSE, WOMAN = "a photo of a doctor", "a photo of a nurse", "a photo of a female doctor"
BOOK = eq.PromptBook.load("occupations-gender").subset([DOCTOR, NURSE])
QUICK = ("Stable Diffusion 1.5", "Stable Diffusion XL")
EVERY = [
    name if name in QUICK else pytest.param(name, marks=pytest.mark.slow)
    for name in families.FAMILIES
]


@pytest.fixture(params=EVERY)
def family(request):
    torch.set_num_threads(1)
    return families.family(request.param)


def attach(family, **options):
    return eq.generation.attach(family.pipe, "gender", BOOK, **options)


def drawn(family, prompts, **options):
    """The latents of each prompt, and the tensors that the denoiser was given at each call."""
    pipe = family.pipe
    denoiser = getattr(pipe, "transformer", None) or pipe.unet
    seen = []

    def note(module, args, kwargs):
        each = [value for _, value in nodes((args, kwargs)) if isinstance(value, torch.Tensor)]
        seen.append([value.detach().clone() for value in each])

    handle = denoiser.register_forward_pre_hook(note, with_kwargs=True)
    try:
        copies = options.get("num_images_per_prompt", 1)
        noise = [torch.Generator("cpu").manual_seed(i) for i in range(copies * len(prompts))]
        given = {**family.options, **options}
        if "negative_prompt" in given:  # Flux and Qwen-Image want one per prompt
            given["negative_prompt"] = [given["negative_prompt"]] * len(prompts)
        images = pipe(prompt=list(prompts), generator=noise, return_dict=False, **given)[0]
    finally:
        handle.remove()
    return images, seen


def encoded(family, prompts):
    """What encode_prompt returns for prompts, with the options of the pipeline's own call."""
    conditioning = eq.generation.Conditioning(family.pipe)
    arguments = conditioning.calls.arguments(
        dict.fromkeys(conditioning.calls.prompts, prompts), options_of(family), guided=True
    )
    with torch.no_grad():
        return family.pipe.encode_prompt(**arguments)


def options_of(family):
    conditioning = eq.generation.Conditioning(family.pipe)
    asked = {
        key: family.options[key] for key in conditioning.calls.options if key in family.options
    }
    return {**conditioning.usual, **asked}


def same(a, b) -> bool:
    return all(torch.equal(one, other) for one, other in zip(a, b, strict=True))


def test_the_parts_that_follow_the_prompt_are_found(family):
    assert set(eq.generation.Conditioning(family.pipe).parts) == family.parts


def test_an_edited_prompt_reaches_the_denoiser_and_an_explicit_one_is_left_bit_for_bit(family):
    plain, before = drawn(family, [DOCTOR])
    explicit, _ = drawn(family, [WOMAN])
    with attach(family, kappa=np.inf) as hook:
        edited, after = drawn(family, [DOCTOR])
        gated, _ = drawn(family, [WOMAN])
        assert hook.edited == {DOCTOR: 1} and hook.gated == {WOMAN: 1}
    assert not same(edited, plain) and same(gated, explicit)
    changed = sum(not torch.equal(a, b) for a, b in zip(before[0], after[0], strict=True))
    assert changed >= len({part.slot for part in layout(family).parts})
    if len(before) > 1:  # guidance by a call of its own: the negative prompt, which names a group
        fixed = [torch.equal(a, b) for a, b in zip(before[1], after[1], strict=True)]
        assert all(fixed)


def layout(family):
    return eq.generation.Conditioning(family.pipe)._layout(options_of(family))


def require_theorem(family, kappa: float, eps: float) -> None:
    """Leakage and self-loss of each edited state are in the closed form's ratio.

    All leakage is gone at kappa = inf. eps: of the states' own width. A state that is off by e is
    off by e in its leakage; its loss 1 - cos is off by e times the sine of the angle to what it
    was, which is at most the leakage b of before. So the ratios L/b and V/(1 - sqrt(1 - b^2)), the
    latter below by b^2/2, are off by e/b and 2e/b.
    """
    plain = encoded(family, [DOCTOR, NURSE])
    with attach(family, kappa=kappa) as hook:
        edited = encoded(family, [DOCTOR, NURSE])
        edits = hook._source.edits(options_of(family))
    for part in layout(family).parts:
        basis = edits[part.name].operator.space.basis
        error = rounding(len(basis), eps)
        changed_tokens = 0
        for row, again in zip(part.slot.rows(plain), part.slot.rows(edited), strict=True):
            h, u = as_float64(part.states(row)), as_float64(part.states(again))
            which = (h != u).any(1)
            changed_tokens += which.sum()
            h, u = unit(h[which]), unit(u[which])
            before, leakage = (np.linalg.norm(x @ basis, axis=1) for x in (h, u))
            if np.isinf(kappa):
                assert (leakage <= error).all(), part.name
                continue
            loss = 1 - (h * u).sum(1)
            most = 1 - np.sqrt(1 - before**2)
            gap = abs(leakage / before - loss / most)
            assert (gap <= 3 * error / before).all(), part.name
        assert changed_tokens > 0, part.name


@pytest.mark.parametrize("kappa", [1.0, np.inf])
def test_the_theorem_holds_on_every_part(family, kappa):
    require_theorem(family, kappa, EPS)


def test_kappa_zero_and_a_removed_hook_leave_every_latent_bit_for_bit(family):
    plain, _ = drawn(family, [DOCTOR])
    with attach(family, kappa=0):
        assert same(drawn(family, [DOCTOR])[0], plain)
    assert same(drawn(family, [DOCTOR])[0], plain)
    assert not {"encode_prompt", "upsample_prompt"} & set(vars(family.pipe))


def test_batches_and_copies_go_by_their_own_prompt(family):
    options = {"num_images_per_prompt": 2}
    plain, _ = drawn(family, [WOMAN, DOCTOR], **options)
    with attach(family):
        edited, _ = drawn(family, [WOMAN, DOCTOR], **options)
    unchanged = [torch.equal(a, b) for a, b in zip(plain, edited, strict=True)]
    kept = np.array([True, True, False, False])
    if any(part.tiled for part in layout(family).parts):  # Kandinsky 5 mixes two prompts' states
        kept &= [True, False, True, False]
    assert unchanged == kept.tolist()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Flux", "Flux.2"])
def test_a_guidance_distilled_model_is_told_its_guidance_and_sees_the_edited_prompt_alone(name):
    """Its denoiser takes guidance as a number, and is called once per step."""
    family = families.family(name)._replace(options={**families.SMALL, "num_inference_steps": 2})
    plain, before = drawn(family, [DOCTOR, WOMAN])
    with attach(family, kappa=0):
        assert same(drawn(family, [DOCTOR, WOMAN])[0], plain)
    with attach(family) as hook:
        edited, after = drawn(family, [DOCTOR, WOMAN])
    assert len(before) == len(after) == 2
    assert hook.edited == {DOCTOR: 1} and hook.gated == {WOMAN: 1}
    assert [torch.equal(a, b) for a, b in zip(edited, plain, strict=True)] == [False, True]
    told = families.SMALL["guidance_scale"]
    assert any(each.ndim == 1 and bool((each == told).all()) for each in after[0])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Flux", "Stable Diffusion 3"])
def test_a_lora_of_any_encoder_gets_a_space_of_its_own(name):
    component("peft")
    from peft import LoraConfig

    found = families.FAMILIES[name]()
    found.pipe.set_progress_bar_config(disable=True)
    encoder, part = found.pipe.text_encoder_2, "text_encoder_2"
    target = ["q", "v"] if name == "Flux" else ["q_proj", "v_proj"]
    with attach(found) as hook:
        before = hook.spaces
        torch.manual_seed(1)
        encoder.add_adapter(
            LoraConfig(r=4, target_modules=target, init_lora_weights=False), "style"
        )
        encoded(found, [DOCTOR])
        after = hook.spaces
    assert before[part].fingerprint != after[part].fingerprint
    others = "pooled" if name == "Flux" else "text_encoder_3"
    assert before[others].fingerprint == after[others].fingerprint
    for kappa in (1.0, np.inf):
        require_theorem(found, kappa, EPS)


@pytest.mark.slow
def test_each_prompt_of_several_encoders_is_gated_by_itself():
    family = families.family("Stable Diffusion 3")
    prompts = {"prompt_2": DOCTOR, "prompt_3": WOMAN}
    plain, before = drawn(family, [WOMAN], **prompts)
    with attach(family):
        edited, after = drawn(family, [WOMAN], **prompts)
    assert not same(edited, plain)
    states = [part for part in layout(family).parts if not part.pooled]
    widest = next(i for i, each in enumerate(before[0]) if each.ndim == 3 and len(each[0]) > 77)
    for part in states:
        pair = (part.states(each[0][widest][-1]) for each in (before, after))
        assert torch.equal(*pair) == (part.argument != "prompt_2")


@pytest.mark.slow
def test_the_gate_goes_by_the_prompt_that_was_written_and_not_by_a_rewriting():
    found = families.family("Flux.2")

    class Rewriting(type(found.pipe)):
        def upsample_prompt(self, prompt, **options):
            return ["a photo of a male doctor" for _ in prompt]

    pipe = Rewriting(**found.pipe.components)
    pipe.set_progress_bar_config(disable=True)
    family = found._replace(pipe=pipe)
    plain, _ = drawn(family, [DOCTOR], caption_upsample_temperature=0.15)
    with attach(family) as hook:
        edited, _ = drawn(family, [DOCTOR], caption_upsample_temperature=0.15)
    assert hook.edited == {DOCTOR: 1} and not hook.gated and not same(edited, plain)
    assert "upsample_prompt" not in vars(pipe)


@pytest.mark.slow
@pytest.mark.parametrize("width", ["bfloat16", "float16"])
def test_half_width_keeps_its_type_its_bits_at_kappa_zero_and_the_theorem(width):
    family = families.FAMILIES["PixArt Sigma"]()
    family.pipe.set_progress_bar_config(disable=True)
    family.pipe.to(getattr(torch, width))
    plain, _ = drawn(family, [DOCTOR])
    with attach(family, kappa=0):
        assert same(drawn(family, [DOCTOR])[0], plain)
    with attach(family):
        edited, _ = drawn(family, [DOCTOR])
    assert edited.dtype == getattr(torch, width) and not same(edited, plain)
    for kappa in (1.0, np.inf):
        require_theorem(family, kappa, torch.finfo(getattr(torch, width)).eps)


class TestRefusals:
    """A pipeline that nobody has seen works, or is refused with the reason."""

    def pipeline(self, encode):
        """Stable Diffusion whose encode_prompt returns something else."""
        base = diffusers.StableDiffusionPipeline
        kind = type("UnseenPipeline", (base,), {"encode_prompt": encode})
        parts = {**pipelines.sd1().components, "requires_safety_checker": False}
        return kind(**parts)

    def refused(self, encode, match):
        with pytest.raises(InputError, match=match):
            eq.generation.attach(self.pipeline(encode), "gender", BOOK)

    def test_states_that_are_mixed_over_rows(self):
        def encode_prompt(self, prompt, device=None):
            states = diffusers.StableDiffusionPipeline.encode_prompt(self, prompt, "cpu", 1, False)
            weights = torch.arange(1.0, len(prompt) + 1)[:, None, None]
            return states[0], (weights * states[0]).sum(0)

        self.refused(encode_prompt, "output 1 of encode_prompt changes with the prompts, but not")

    def test_tokens_in_place_of_states(self):
        def encode_prompt(self, prompt, device=None):
            states = diffusers.StableDiffusionPipeline.encode_prompt(self, prompt, "cpu", 1, False)
            ids = self.tokenizer(prompt, padding="max_length", return_tensors="pt").input_ids
            return states[0], ids

        self.refused(encode_prompt, "output 1 of encode_prompt holds whole numbers that follow")

    def test_an_argument_that_nobody_knows(self):
        def encode_prompt(self, prompt, mood):
            return None

        self.refused(encode_prompt, "also requires 'mood'")

    def test_text_that_is_encoded_behind_the_hook(self):
        pipe = families.family(QUICK[0]).pipe
        kind = type(pipe)

        class Talkative(kind):
            def __call__(self, *args, **kwargs):
                self.text_encoder(torch.ones((1, 3), dtype=torch.long))
                return super().__call__(*args, **kwargs)

        talkative = Talkative(**pipe.components, requires_safety_checker=False)
        with (
            eq.generation.attach(talkative, "gender", BOOK),
            pytest.raises(InputError, match="gave text_encoder a text outside encode_prompt"),
        ):
            talkative(DOCTOR, **families.GUIDED)
