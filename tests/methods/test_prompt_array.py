"""prompt-array, through the text encoder of a real CLIPModel: gradients, tokens that help, files, refusals."""

from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np
import pytest

import equipoise as eq
from equipoise.methods import _prompt_array as prompt_array
from equipoise.methods import _training as training
from tests.helpers import models
from tests.helpers.common import component, unit

pytestmark = pytest.mark.usefixtures("one_thread")
GENDER = eq.Attribute("gender", ("male", "female"))
WORDS = ("old", "young", "red", "blue", "very", "long")
QUICK = {
    "prompts": tuple(f"a photo of a {word} person" for word in WORDS),
    "lr": 2e-2,
    "epochs": 40,
    "held_out": 0.25,
}


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    component("transformers")
    return eq.load_encoder(
        f"hf:{models.clip(tmp_path_factory.mktemp('clip') / 'm')}",
        device="cpu",
        show_progress=False,
    )


@pytest.fixture(scope="module")
def context(encoder):
    """Images near the prompts; one group leans to some of them, which is what an adversary reads from similarities."""
    rng = np.random.default_rng(0)
    texts = encoder.encode_text(QUICK["prompts"])
    codes = rng.integers(0, 2, 240)
    lean = texts[:3].mean(0) - texts[3:].mean(0)
    images = (
        texts[rng.integers(0, 6, 240)]
        + 0.1 * rng.standard_normal((240, 16))
        + np.where(codes, 0.7, -0.7)[:, None] * lean
    )
    return eq.FitContext(
        GENDER,
        encoder=encoder,
        images=images,
        sensitive_features=np.array(GENDER.groups)[codes],
        device="cpu",
    )


def test_an_empty_prefix_is_the_encoder_itself(encoder):
    torch = component("torch")
    tower, texts = (
        encoder.text_tower(),
        ["a photo of a person", "a very long sentence about people that goes on and on"],
    )
    with torch.no_grad():
        rows = tower.features(tower.tokenize(texts, 0), torch.zeros(0, 32)).numpy()
    np.testing.assert_allclose(unit(rows), encoder.encode_text(texts), atol=1e-6)


def test_the_prefix_stands_before_the_text_without_positions(encoder):
    """Written out once by hand, from the layers of the model: [prefix, text with its own positions], pooled at the end of the text."""
    torch = component("torch")
    tower, model = encoder.text_tower(), encoder.module.model
    prefix = torch.from_numpy(np.random.default_rng(1).standard_normal((2, 32)).astype(np.float32))
    tokens = tower.tokenize(["a photo of a person", "an old man"], 2)
    ids, mask = tokens["input_ids"], tokens["attention_mask"]
    text = model.text_model
    with torch.no_grad():
        hidden = torch.cat([prefix.expand(2, -1, -1), text.embeddings(ids)], 1)
        length = hidden.shape[1]
        seen = torch.full((length, length), float("-inf")).triu(1)[None, None]
        padded = torch.cat([torch.ones(2, 2), mask], 1)[:, None, None] == 0
        for layer in text.encoder.layers:
            hidden = layer(hidden, seen.masked_fill(padded, float("-inf")))
        ends = (ids == model.config.text_config.eos_token_id).int().argmax(1) + 2
        expected = model.text_projection(text.final_layer_norm(hidden)[torch.arange(2), ends])
        np.testing.assert_allclose(
            tower.features(tokens, prefix).numpy(), expected.numpy(), atol=1e-4
        )


def test_long_texts_leave_room(encoder):
    torch = component("torch")
    tower = encoder.text_tower()
    tokens = tower.tokenize(["person " * 50, "a man"], 2)
    assert (
        tokens["input_ids"].shape[1] == 22
        and tokens["input_ids"][0, -1] == encoder.towers.tokenizer.eos_token_id
    )
    assert np.isfinite(tower.features(tokens, torch.zeros(2, 32)).detach().numpy()).all()


def test_gradients_flow_through_the_text_encoder(encoder):
    """Autograd against finite differences, in float64."""
    torch = component("torch")
    import copy

    tower = copy.copy(encoder.text_tower())
    tower.model = copy.deepcopy(tower.model).double()
    tokens = tower.tokenize(["a photo of a doctor"], 2)
    prefix = torch.randn(2, 32, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) / 3
    weights = torch.linspace(-1, 1, 16, dtype=torch.float64)

    def value(prefix):
        return (unit_rows(tower.features(tokens, prefix)) @ weights).sum()

    def unit_rows(rows):
        return rows / rows.norm(dim=1, keepdim=True)

    (gradient,) = torch.autograd.grad(value(prefix.requires_grad_()), prefix)
    step = torch.zeros_like(prefix)
    for i in (0, 17, 40, 63):
        step.zero_().view(-1)[i] = 1e-5
        with torch.no_grad():
            slope = (value(prefix + step) - value(prefix - step)) / 2e-5
        assert float(gradient.view(-1)[i]) == pytest.approx(float(slope), rel=1e-5, abs=1e-9)
    assert gradient.abs().min() > 0


def test_other_threads_see_no_prefix(encoder):
    torch = component("torch")
    tower, stop, wrong = encoder.text_tower(), threading.Event(), []
    plain = encoder.encode_text(["a photo of a doctor"])
    tokens, prefix = tower.tokenize(["a photo of a doctor"], 2), torch.ones(2, 32)

    def learn():
        while not stop.is_set():
            tower.features(tokens, prefix)

    thread = threading.Thread(target=learn)
    thread.start()
    for _ in range(50):
        wrong.append(np.abs(encoder.encode_text(["a photo of a doctor"]) - plain).max())
    stop.set()
    thread.join()
    assert max(wrong) < 1e-5


def skew(operator, context):
    rows = operator.encode_text(QUICK["prompts"])
    return eq.metrics.ndkl(
        rows @ unit(np.asarray(context.images)).T,
        sensitive_features=context.sensitive_features,
        m=60,
    )


def test_tokens_hide_the_group_and_come_back_from_a_file(context, encoder, tmp_path):
    operator = eq.methods.create("prompt-array", **QUICK | {"lr": 5e-2, "adversary": "logits"}).fit(
        context
    )
    plain = eq.methods.create("none").fit(context)
    assert skew(operator, context) < 0.7 * skew(plain, context)
    prompts = ["a photo of a doctor", "a photo of a woman"]
    rows = operator.encode_text(prompts)
    assert rows.dtype == np.float32 and rows.shape == (2, 16)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-6)
    assert operator.arrays()["tokens"].shape == (2, 32) and operator.changes == ("text",)
    operator.save(tmp_path / "op.safetensors")
    again = eq.methods.load(tmp_path / "op.safetensors", encoder=encoder)
    np.testing.assert_array_equal(again.encode_text(prompts), rows)
    np.testing.assert_array_equal(
        eq.methods.load(tmp_path / "op.safetensors").bind(encoder).encode_text(prompts), rows
    )
    np.testing.assert_array_equal(
        again.text(encoder.encode_text(prompts), prompts), rows
    )  # as tasks and eq.wrap call it
    np.testing.assert_allclose(eq.wrap(encoder, again).encode_text(prompts), rows, atol=1e-6)
    gated = again.encode_text(prompts, gate=True)
    np.testing.assert_array_equal(gated[0], rows[0])
    np.testing.assert_allclose(gated[1], encoder.encode_text(prompts)[1], atol=1e-6)
    images = unit(np.asarray(context.images, np.float32))
    assert again.image(images) is images


def test_rows_that_are_encoded_already_are_refused(context, tmp_path):
    operator = eq.methods.create("prompt-array", **QUICK | {"epochs": 1}).fit(context)
    with pytest.raises(
        eq.EquipoiseError, match=r"cannot change rows that are encoded already; use op.encode_text"
    ):
        operator.text(np.ones((2, 16), np.float32))
    operator.save(tmp_path / "op.safetensors")
    with pytest.raises(eq.EquipoiseError, match=r"has no encoder; give it one with op.bind"):
        eq.methods.load(tmp_path / "op.safetensors").encode_text(["a man"])


@pytest.mark.parametrize(
    "params", [{}, {"adversary": "logits", "regularise": 1.0}, {"contrast": 0.1}]
)
def test_the_same_for_a_seed_stopped_or_not(context, params, tmp_path, monkeypatch):
    captions = [
        f"a photo of a {'man' if group == 'male' else 'woman'}"
        for group in context.sensitive_features
    ]
    context = replace(context, captions=captions)
    method = eq.methods.create("prompt-array", **QUICK | {"epochs": 8} | params)
    undisturbed = method.fit(context).tokens
    np.testing.assert_array_equal(method.fit(context).tokens, undisturbed)
    assert not np.array_equal(method.fit(replace(context, seed=1)).tokens, undisturbed)
    monkeypatch.setattr(training, "SECONDS", 0)
    keep = training._keep

    def stop(*given):
        keep(*given)
        if given[-1] == 13:  # in the tokens' turn, after two choices of the best
            raise KeyboardInterrupt

    monkeypatch.setattr(training, "_keep", stop)
    with pytest.raises(KeyboardInterrupt):
        method.fit(replace(context, workdir=tmp_path))
    np.testing.assert_array_equal(
        method.fit(replace(context, workdir=tmp_path)).tokens, undisturbed
    )


def test_the_regularisation_is_a_mean_over_prompts_and_the_reference_s_a_sum(context, encoder):
    """So its weight w is ours by the number of prompts, as docs/learned-methods.md says."""
    component("torch")
    tower, weight = encoder.text_tower(), 0.3
    images = prompt_array.Labelled.of("prompt-array", context)
    here = training.machine("prompt-array", "cpu")
    batches = training.Batches(len(images.rows), 64, 0)
    totals = []
    for given in (0, weight * len(QUICK["prompts"])):
        method = eq.methods.create("prompt-array", **QUICK | {"regularise": given})
        loss = prompt_array._Losses(
            method, here, tower, images, np.arange(len(images.rows)), None, batches
        )
        start = method._start(context, tower, here)
        state = {name: here.tensor(array) for name, array in start.items()}
        totals.append(float(loss(state, prompt_array.TURN)))  # the tokens' turn
    moved = (loss.texts(state) - loss.plain).numpy()
    assert totals[1] - totals[0] == pytest.approx(weight * np.square(moved).sum(), rel=1e-4)
    assert np.square(moved).sum() > 0.1


def test_the_sigmoid_bounds_the_adversary():
    """The least cross-entropy of answers squeezed to [0, 1]: 0.313 for two groups."""
    torch = component("torch")
    sure = torch.tensor([[1.0, 0.0]])
    assert float(torch.nn.functional.cross_entropy(sure, torch.tensor([0]))) == pytest.approx(
        0.313, abs=5e-4
    )


@pytest.mark.parametrize(
    ("change", "params", "message"),
    [
        ({"encoder": None}, {}, "prompt-array needs encoder"),
        ({"images": None}, {}, "prompt-array needs images"),
        ({"sensitive_features": None}, {}, "prompt-array needs sensitive_features"),
        (
            {"images": np.ones((240, 5))},
            {},
            "the encoder gives 16 dimensions, and the images have 5",
        ),
        ({}, {"tokens": 0}, "tokens=0 is not legal"),
        ({}, {"adversary": "softmax"}, "adversary='softmax' is not legal"),
        ({}, {"contrast": 1.0}, "prompt-array with contrast needs captions"),
        ({"captions": ["a man"]}, {"contrast": 1.0}, "there are 1 captions and 240 images"),
        ({}, {"prompts": "a man"}, "pass a list of prompts"),
    ],
)
def test_bad_input(change, params, message, context):
    with pytest.raises(eq.EquipoiseError, match=message):
        eq.methods.create("prompt-array", **QUICK | params).fit(replace(context, **change))


def test_encoders_without_a_tower_are_refused(context, tmp_path):
    class Words:
        def encode_text(self, texts):
            return np.ones((len(texts), 16))

    with pytest.raises(
        eq.EquipoiseError, match=r"Words has no text_tower\(\); use mini, or a CLIP of hf:"
    ):
        eq.methods.create("prompt-array").fit(replace(context, encoder=Words()))
    blip = eq.load_encoder(f"hf:{models.blip(tmp_path / 'blip')}", device="cpu")
    with pytest.raises(eq.EquipoiseError, match="has no text tower that gradients flow through"):
        eq.methods.create("prompt-array").fit(replace(context, encoder=blip))
