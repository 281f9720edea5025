"""Attaching to real diffusers pipelines: what is edited, what is left bit for bit, and the closed form's theorems on token states."""

from __future__ import annotations

import numpy as np
import pytest

import equipoise as eq
from equipoise.errors import InputError
from equipoise.generation._fitting import as_float64
from tests.helpers.common import component, exact, rounding, unit

diffusers = component("diffusers")
torch = component("torch")

from tests.helpers import pipelines  # noqa: E402
from tests.helpers.pipelines import draw  # noqa: E402

DOCTOR, NURSE, WOMAN = "a photo of a doctor", "a photo of a nurse", "a photo of a female doctor"
BOOK = eq.PromptBook.load("occupations-gender").subset([DOCTOR, NURSE, "a photo of an engineer"])
GENDER = eq.Attribute.load("gender")


@pytest.fixture(scope="module", params=pipelines.KINDS)
def pipe(request):
    return pipelines.KINDS[request.param]()


@pytest.fixture(scope="module")
def sd1():
    return pipelines.sd1()


def attach(pipe, **options):
    return eq.generation.attach(pipe, "gender", BOOK, **options)


def encode(pipe, prompts, copies=1, **options):
    with torch.no_grad():
        return pipe.encode_prompt(
            prompt=prompts,
            device="cpu",
            num_images_per_prompt=copies,
            do_classifier_free_guidance=True,
            **options,
        )


def parts(pipe, output) -> dict[str, np.ndarray]:
    """Part -> states (n, tokens, width) of what encode_prompt returned."""
    found, at = {}, 0
    for name, width in eq.generation.Conditioning(pipe).parts.items():
        found[name] = output[2][:, None] if name == "pooled" else output[0][..., at : at + width]
        at += width
    return {name: as_float64(states) for name, states in found.items()}


def test_kappa_zero_and_a_removed_hook_leave_every_latent_bit_for_bit(pipe):
    prompts = [DOCTOR, NURSE]
    plain = draw(pipe, prompts)
    with attach(pipe, kappa=0):
        assert torch.equal(draw(pipe, prompts), plain)
    hook = attach(pipe)
    assert not torch.equal(draw(pipe, prompts), plain)
    hook.remove()
    assert torch.equal(draw(pipe, prompts), plain)
    assert "encode_prompt" not in vars(pipe)
    hook.remove()  # a second time is nothing


@pytest.mark.parametrize("kappa", [0.5, 1.0, np.inf])
def test_edited_states_are_the_closed_form_and_keep_their_length(pipe, kappa):
    plain = parts(pipe, encode(pipe, [DOCTOR, NURSE]))
    with attach(pipe, kappa=kappa) as hook:
        edited = parts(pipe, encode(pipe, [DOCTOR, NURSE]))
        spaces = hook.spaces
    for part, space in spaces.items():
        h, u = plain[part], edited[part]
        if part != "pooled":  # the start token is left alone
            assert np.array_equal(u[:, 0], h[:, 0])
            h, u = h[:, 1:], u[:, 1:]
        h, u = h.reshape(-1, space.dim), u.reshape(-1, space.dim)
        error = rounding(space.dim)
        lengths = np.linalg.norm(h, axis=1)
        np.testing.assert_allclose(np.linalg.norm(u, axis=1), lengths, rtol=error)
        np.testing.assert_allclose(unit(u), exact(h, space.basis, kappa).astype(float), atol=error)
        leakage = np.linalg.norm(unit(u) @ space.basis, axis=1)
        gaps = np.ptp(unit(u) @ space.parts[0].prototypes.T, axis=1)
        of_float64 = space.dim * np.finfo(float).eps  # sums of products of numbers below one
        assert (gaps <= space.group_gap_bound(leakage) + of_float64).all()


def test_the_negative_branch_is_left_alone(pipe):
    options = {"negative_prompt": ["a man", "blue"]}
    plain = encode(pipe, [DOCTOR, NURSE], **options)
    with attach(pipe):
        edited = encode(pipe, [DOCTOR, NURSE], **options)
    assert not torch.equal(edited[0], plain[0])
    for place in (1, 3)[: len(plain) // 2]:
        assert torch.equal(edited[place], plain[place])


def test_the_gate_leaves_prompts_that_name_a_group_and_counts_them(pipe):
    plain = draw(pipe, [WOMAN, DOCTOR, WOMAN])
    with attach(pipe) as hook:
        drawn = draw(pipe, [WOMAN, DOCTOR, WOMAN])
    assert [torch.equal(a, b) for a, b in zip(drawn, plain, strict=True)] == [True, False, True]
    assert hook.gated == {WOMAN: 2} and hook.edited == {DOCTOR: 1}
    with attach(pipe, gate=False):
        assert not torch.equal(draw(pipe, [WOMAN, DOCTOR, WOMAN])[0], plain[0])
    with attach(pipe, gate=lambda prompt: "doctor" in prompt):
        assert torch.equal(draw(pipe, [WOMAN, DOCTOR, WOMAN]), plain)


def test_copies_of_a_prompt_and_batches_are_edited_as_one_by_one(pipe):
    def encoded():
        return encode(pipe, [NURSE]), encode(pipe, [DOCTOR, NURSE], copies=3)

    plain_one, plain_batch = encoded()
    with attach(pipe):
        one, batch = encoded()
    for place in (0, 2)[: len(one) // 2]:
        assert all(torch.equal(batch[place][3 + i], batch[place][3]) for i in range(3))
        # A batch's products round otherwise in the encoder. The edit turns what is outside the
        # space by at most 1 / sqrt(1 - b^2) of that, which is below 2 for leakages b below 0.86.
        rounded = abs(plain_batch[place][3] - plain_one[place][0]).max()
        longest = one[place][0].norm(dim=-1).max()
        most = 2 * float(rounded) + rounding(one[place].shape[-1]) * float(longest)
        assert abs(batch[place][3] - one[place][0]).max() <= most
    assert len(batch[0]) == 6


def test_unpadded_leaves_padding_as_it_is(pipe):
    plain = encode(pipe, [DOCTOR])[0][0]
    with attach(pipe, tokens="unpadded"):
        edited = encode(pipe, [DOCTOR])[0][0]
    end = pipe.tokenizer(DOCTOR).input_ids.index(pipe.tokenizer.eos_token_id)
    changed = (edited != plain).any(-1)
    assert changed[1 : end + 1].all() and not changed[0] and not changed[end + 1 :].any()


def test_each_encoder_of_xl_has_a_space_and_goes_by_its_own_prompt():
    pipe = pipelines.sdxl()
    plain = parts(pipe, encode(pipe, [WOMAN], prompt_2=[DOCTOR]))
    with attach(pipe) as hook:
        edited = parts(pipe, encode(pipe, [WOMAN], prompt_2=[DOCTOR]))
    assert {part: space.dim for part, space in hook.spaces.items()} == {
        "text_encoder": 32,
        "text_encoder_2": 40,
        "pooled": 24,
    }
    assert np.array_equal(edited["text_encoder"], plain["text_encoder"])
    assert not np.array_equal(
        edited["text_encoder_2"], plain["text_encoder_2"]
    ) and not np.array_equal(edited["pooled"], plain["pooled"])


def test_a_lora_gets_a_space_of_its_own():
    component("peft")
    from peft import LoraConfig

    pipe = pipelines.sd1()
    with attach(pipe) as hook:
        before = hook.spaces["text_encoder"].basis
        torch.manual_seed(1)
        pipe.text_encoder.add_adapter(
            LoraConfig(r=4, target_modules=["q_proj", "v_proj"], init_lora_weights=False), "style"
        )
        edited = as_float64(encode(pipe, [DOCTOR])[0])
        space = hook.spaces["text_encoder"]
        assert not np.allclose(abs(before.T @ space.basis), 1)
    plain = as_float64(encode(pipe, [DOCTOR])[0])
    np.testing.assert_allclose(
        unit(edited[0, 1:]),
        exact(plain[0, 1:], space.basis).astype(float),
        atol=rounding(space.dim),
    )


def model_offload(pipe, folder):
    pipe.enable_model_cpu_offload(device="cpu")


def group_offload(pipe, folder):
    pipe.enable_group_offload(torch.device("cpu"), offload_type="leaf_level")


def disk_offload(pipe, folder):
    path = str(folder)
    options = {"offload_type": "leaf_level", "offload_to_disk_path": path}
    pipe.enable_group_offload(torch.device("cpu"), **options)


@pytest.mark.slow
@pytest.mark.parametrize("offload", [model_offload, group_offload, disk_offload])
def test_weights_that_come_and_go_with_each_call(sd1, offload, tmp_path):
    """diffusers' own offloading, before attaching and after: the pictures are those of a pipeline that stays."""
    component("accelerate")
    prompts = [DOCTOR, WOMAN]
    plain = draw(sd1, prompts)
    with attach(sd1):
        edited = draw(sd1, prompts)
    before, later = pipelines.sd1(), pipelines.sd1()
    offload(before, tmp_path / "before")
    assert torch.equal(draw(before, prompts), plain)
    with attach(before, kappa=0):
        assert torch.equal(draw(before, prompts), plain)
    with attach(before) as hook:
        assert torch.equal(draw(before, prompts), edited)
        assert hook.edited == {DOCTOR: 1} and hook.gated == {WOMAN: 1}
    assert torch.equal(draw(before, prompts), plain)
    with attach(later):
        offload(later, tmp_path / "later")
        assert torch.equal(draw(later, prompts), edited)
    assert torch.equal(draw(later, prompts), plain)


@pytest.mark.parametrize("guidance", [0.0, 1.0])
def test_without_classifier_free_guidance_there_is_one_half_and_it_is_edited(sd1, guidance):
    """As models are called that were distilled to few steps: guidance up to 1 has no unconditional half."""
    seen = []

    def drawn():
        seen.clear()
        return draw(sd1, [DOCTOR, WOMAN], guidance_scale=guidance)

    handle = sd1.unet.register_forward_pre_hook(lambda module, args: seen.append(len(args[0])))
    try:
        plain = drawn()
        assert set(seen) == {2}  # a row per prompt, and none without a text
        with attach(sd1, kappa=0):
            assert torch.equal(drawn(), plain)
        with attach(sd1):
            edited = drawn()
    finally:
        handle.remove()
    assert [torch.equal(a, b) for a, b in zip(edited, plain, strict=True)] == [False, True]


def test_a_skipped_layer_gets_a_space_of_its_own():
    pipe = pipelines.sdxl()
    plain = parts(pipe, encode(pipe, [DOCTOR], clip_skip=1))["text_encoder"]
    with attach(pipe) as hook:
        edited = parts(pipe, encode(pipe, [DOCTOR], clip_skip=1))["text_encoder"]
        states = hook.conditioning.states

        class Skipped:
            def encode_text(self, texts):
                return as_float64(states(texts, {"clip_skip": 1})["text_encoder"])

        space = eq.AttributeSpace.from_prompts(Skipped(), BOOK, GENDER)
    np.testing.assert_allclose(
        unit(edited[0, 1:]),
        exact(plain[0, 1:], space.basis).astype(float),
        atol=rounding(space.dim),
    )


def test_saved_spaces_are_used_in_place_of_a_book(pipe, tmp_path):
    with attach(pipe) as hook:
        fitted = draw(pipe, [DOCTOR])
        for part, space in hook.spaces.items():
            space.save(tmp_path / f"{part}.safetensors")
            assert part in space.encoder.id
    spaces = {
        part: eq.AttributeSpace.load(tmp_path / f"{part}.safetensors") for part in hook.spaces
    }
    plain = draw(pipe, [DOCTOR])
    with eq.generation.attach(pipe, GENDER, spaces=spaces):
        assert torch.equal(draw(pipe, [DOCTOR]), fitted)
    with eq.generation.attach(pipe, GENDER, spaces=spaces, kappa=0):
        assert torch.equal(draw(pipe, [DOCTOR]), plain)
    wide = {
        part: eq.AttributeSpace.from_prototypes({"male": np.eye(100)[0], "female": np.eye(100)[1]})
        for part in spaces
    }
    with pytest.raises(InputError, match="100 wide and its states are"):
        eq.generation.attach(pipe, GENDER, spaces=wide)
    with pytest.raises(InputError, match="this pipeline's parts are text_encoder"):
        eq.generation.attach(pipe, GENDER, spaces={"text": wide["text_encoder"]})


def test_a_certificate_of_prompts(pipe):
    with attach(pipe) as hook:
        for certificate in hook.certify([DOCTOR, NURSE]).values():
            before = certificate.leakage_before
            assert (certificate.leakage < before / 2).all()
            o = np.sqrt(1 - before**2)
            gap = abs(certificate.leakage / before - certificate.self_loss / (1 - o))
            # e / b of the leakage and 2 e / b of the loss, as test_families explains
            assert (gap <= 3 * rounding(40) / before).all()  # the widest part has 40


def test_orth_proj_takes_the_prompts_span_away_and_scales_nothing_up(sd1):
    h = as_float64(encode(sd1, [DOCTOR])[0])[0, 1:]
    with attach(sd1, method="orth-proj") as hook:
        u = as_float64(encode(sd1, [DOCTOR])[0])[0, 1:]
        basis = hook.spaces["text_encoder"].basis
    assert basis.shape[1] == 2
    lengths = np.linalg.norm(h, axis=1, keepdims=True)
    twice = 2 * rounding(32)  # a direction, and then a length
    np.testing.assert_allclose(u / lengths, (h - h @ basis @ basis.T) / lengths, atol=twice)


@pytest.mark.parametrize("projection", [True, False])
def test_orth_cali_is_its_equation(sd1, projection):
    """P = P0 (I + 500 M)^-1 with P0 or without, dense, from the states themselves."""
    h = as_float64(encode(sd1, [DOCTOR])[0])[0, 1:]
    with attach(sd1, method="orth-cali", projection=projection):
        u = as_float64(encode(sd1, [DOCTOR])[0])[0, 1:]
    groups = GENDER.groups
    states = eq.generation.Conditioning(sd1).states
    z = np.array(
        [
            [
                unit(unit(as_float64(states(BOOK[p][g].texts, {})["text_encoder"])).sum(0))
                for g in groups
            ]
            for p in BOOK.prompts
        ]
    )
    gaps = z[:, 0] - z[:, 1]
    calibrated = np.linalg.inv(np.eye(32) + 500 * gaps.T @ gaps / len(gaps))
    basis = np.linalg.qr(unit(z.sum(0)).T)[0]
    p0 = np.eye(32) - basis @ basis.T if projection else np.eye(32)
    # (I + 500 g g^T)^-1 changes by up to sqrt(500) of what g does: the encoder's own rounding, since
    # the book is encoded here in other batches than there.
    lengths = np.linalg.norm(h, axis=1, keepdims=True)
    error = np.sqrt(500) * rounding(32)
    np.testing.assert_allclose(u / lengths, h @ (p0 @ calibrated).T / lengths, atol=error)


def test_sfid_overwrites_coordinates_of_every_state_with_the_same_values(sd1):
    book = eq.PromptBook.load("occupations-gender").subset(
        [f"a photo of a {who}" for who in ("doctor", "nurse", "teacher", "writer")]
    )
    h = as_float64(encode(sd1, [DOCTOR])[0])[0, 1:]
    with eq.generation.attach(sd1, GENDER, book, method="sfid", k=4, tau=1.0, renormalise=False):
        u = as_float64(encode(sd1, [DOCTOR])[0])[0, 1:]
    ratio = u / np.linalg.norm(h, axis=1, keepdims=True)
    twice = 2 * rounding(32)  # a direction, and then a length
    written = np.ptp(ratio, axis=0) < twice
    assert written.sum() == 4
    np.testing.assert_allclose(u[:, ~written], h[:, ~written], rtol=twice)


def test_sfid_in_the_unet_writes_channels_of_the_conditional_half_alone(sd1):
    book = eq.PromptBook.load("occupations-gender")
    plain = draw(sd1, [DOCTOR, WOMAN])
    seen = []
    with eq.generation.attach(
        sd1, GENDER, book, method="sfid", on="unet", k=3, steps=2, tau=0.5
    ) as hook:
        handle = sd1.unet.mid_block.register_forward_hook(
            lambda module, inputs, output: seen.append(output.detach().numpy())
        )
        drawn = draw(sd1, [DOCTOR, WOMAN])
        handle.remove()
        places, values = hook._features.fills["mid"]
    assert [torch.equal(a, b) for a, b in zip(drawn, plain, strict=True)] == [
        False,
        True,
    ]  # the second names a group
    assert len(seen) == 2  # steps
    for maps in seen:
        channels = maps[:, places].mean((2, 3))
        error = rounding(maps[0, 0].size) * abs(np.asarray(values)).max()  # of a mean over a map
        assert any(np.allclose(channels[2], value, rtol=0, atol=error) for value in values)
        assert not any(
            np.allclose(channels[i], value, rtol=0, atol=error)
            for i in (0, 1, 3)
            for value in values
        )
    assert torch.equal(draw(sd1, [DOCTOR, WOMAN]), plain)


def test_the_group_that_sfid_writes_is_the_prompts_own_or_drawn_by_the_noise(sd1):
    book = eq.PromptBook.load("occupations-gender")
    with eq.generation.attach(
        sd1, GENDER, book, method="sfid", on="unet", k=3, steps=1, tau=0.5, gate=False
    ) as hook:
        draw(sd1, [DOCTOR] * 12, num_inference_steps=1)
        drawn = hook._features._codes.copy()
        draw(sd1, [DOCTOR] * 3, seed=4, num_inference_steps=1)
        assert np.array_equal(hook._features._codes, drawn[4:7])  # of its noise, not of its batch
        draw(sd1, [WOMAN] * 12, num_inference_steps=1)
        assert (hook._features._codes == GENDER.groups.index("female")).all()
        embeds, negative = encode(sd1, [DOCTOR])
        noise, given = (
            [torch.Generator("cpu").manual_seed(0)],
            {"prompt_embeds": embeds, "negative_prompt_embeds": negative},
        )
        with pytest.warns(UserWarning, match="left as they are"):
            alone = sd1(**given, generator=noise, **pipelines.GUIDED).images
    assert torch.equal(alone, draw(sd1, [DOCTOR]))  # whose prompts nobody knows
    assert set(drawn) == {0, 1}


def test_embeddings_in_place_of_a_prompt_are_left_alone_and_said(sd1):
    with attach(sd1):
        embeds, negative = encode(sd1, [DOCTOR])
        drawn = draw(sd1, [DOCTOR])
        noise = [torch.Generator("cpu").manual_seed(0)]
        with pytest.warns(UserWarning, match="edited already"):
            again = sd1(
                prompt_embeds=embeds,
                negative_prompt_embeds=negative,
                generator=noise,
                **pipelines.GUIDED,
            ).images
    assert torch.equal(again, drawn)


def test_a_pipeline_from_disk_and_one_in_half_width(sd1, tmp_path):
    sd1.save_pretrained(tmp_path / "sd1")
    pipe = diffusers.StableDiffusionPipeline.from_pretrained(
        tmp_path / "sd1", safety_checker=None, requires_safety_checker=False
    )
    pipe.set_progress_bar_config(disable=True)
    with attach(pipe) as loaded, attach(sd1):
        assert torch.equal(draw(pipe, [DOCTOR]), draw(sd1, [DOCTOR]))
        assert "sd1/text_encoder" in loaded.spaces["text_encoder"].encoder.id
    pipe.to(torch.bfloat16)
    plain = encode(pipe, [DOCTOR])[0]
    with attach(pipe, kappa=0):
        assert torch.equal(encode(pipe, [DOCTOR])[0], plain)
    with attach(pipe):
        edited = encode(pipe, [DOCTOR])[0]
    assert edited.dtype == torch.bfloat16 and not torch.equal(edited, plain)


@pytest.mark.parametrize(
    "kind", ["StableDiffusionImg2ImgPipeline", "StableDiffusionXLImg2ImgPipeline"]
)
def test_pipelines_that_begin_with_a_picture(kind):
    from PIL import Image

    base = pipelines.sdxl() if "XL" in kind else pipelines.sd1()
    names = (
        {"requires_aesthetics_score": False} if "XL" in kind else {"requires_safety_checker": False}
    )
    pipe = getattr(diffusers, kind)(**base.components, **names)
    pipe.set_progress_bar_config(disable=True)
    picture = Image.fromarray(
        np.random.default_rng(0).integers(0, 255, (16, 16, 3), dtype=np.uint8)
    )

    def drawn(prompt):
        return draw(pipe, [prompt], image=picture, strength=0.9, num_inference_steps=3)

    plain = {prompt: drawn(prompt) for prompt in (DOCTOR, WOMAN)}
    with attach(pipe, kappa=0):
        assert torch.equal(drawn(DOCTOR), plain[DOCTOR])
    with attach(pipe):
        assert not torch.equal(drawn(DOCTOR), plain[DOCTOR]) and torch.equal(
            drawn(WOMAN), plain[WOMAN]
        )


class TestBadInput:
    def test_pipelines_without_prompts(self):
        with pytest.raises(InputError, match="object has no encode_prompt to attach to"):
            eq.generation.attach(object(), "gender")
        unconditional = diffusers.DDPMPipeline(pipelines.sd1().unet, pipelines.sd1().scheduler)
        with pytest.raises(InputError, match="DDPMPipeline has no encode_prompt"):
            eq.generation.attach(unconditional, "gender")

    def test_a_prompt_longer_than_the_window(self, sd1):
        long = DOCTOR + " with a hat" * 40
        with (
            attach(sd1),
            pytest.raises(
                InputError,
                match=r"has \d+ tokens and text_encoder of this pipeline reads 77.*shorten it",
            ),
        ):
            draw(sd1, [long])

    def test_options(self, sd1):
        for options, message in (
            ({"method": "leace"}, "pass one of none, closed-form"),
            ({"method": "orth-proj", "kappa": 2}, "kappa=2 was given, and orth-proj has none"),
            ({"kappa": -1}, "kappa"),
            ({"tokens": "all"}, "pass one of after-sos, unpadded"),
            ({"gate": "yes"}, "pass True, False"),
            ({"lam": 3}, "closed-form has no parameter 'lam'"),
        ):
            with pytest.raises(InputError, match=message):
                attach(sd1, **options)
        assert "encode_prompt" not in vars(sd1)

    def test_twice(self, sd1):
        with attach(sd1), pytest.raises(InputError, match="attached already"):
            attach(sd1)
