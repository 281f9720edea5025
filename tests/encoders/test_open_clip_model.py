"""eq.wrap on a model of open_clip (make test-open-clip): the library's own evaluation takes it, and finds debiased features."""

from __future__ import annotations

import copy
import re
from types import SimpleNamespace

import numpy as np
import pytest

import equipoise as eq
from tests.helpers.common import ROOT, make_space, unit
from tests.helpers.open_clips import SMALL, import_open_clip, save_folder

pytestmark = pytest.mark.open_clip

CLASSES = ["doctor", "nurse", "engineer", "pilot", "cook", "judge"]
TEMPLATES = ["a photo of a {}.", "a picture of a {}."]
PRECISION = 2e-6  # float32 in another order
DIM = SMALL["embed_dim"]
BIASED = SMALL | {"init_logit_bias": -10.0, "init_logit_scale": 2.0}


@pytest.fixture(scope="module")
def open_clip():
    with import_open_clip() as module:
        yield module


@pytest.fixture(scope="module", params=["CLIP", "CustomTextCLIP"])
def model(request, open_clip):
    import torch

    torch.manual_seed(0)
    if request.param == "CLIP":
        return open_clip.CLIP(**SMALL).eval()
    return open_clip.CustomTextCLIP(**BIASED).eval()


@pytest.fixture
def space(rng):
    return make_space(rng, DIM)


@pytest.fixture(scope="module")
def pictures():
    import torch

    return torch.randn(12, 3, 32, 32, generator=torch.Generator().manual_seed(0))


@pytest.fixture(scope="module")
def tokens(open_clip):
    return open_clip.SimpleTokenizer()(CLASSES)


def features(model, pictures, tokens):
    import torch

    with torch.inference_mode():
        return model.encode_image(pictures).numpy(), model.encode_text(tokens).numpy()


def test_features_are_debiased_and_the_given_model_stays_as_it_is(model, pictures, tokens, space):
    before = features(model, pictures, tokens)
    fair = eq.wrap(model, space)
    for plain, found in zip(before, features(fair, pictures, tokens), strict=True):
        expected = eq.debias(plain, space)
        np.testing.assert_allclose(unit(found), expected, atol=PRECISION)
        lengths = np.linalg.norm(plain, axis=1)
        np.testing.assert_allclose(np.linalg.norm(found, axis=1), lengths, rtol=PRECISION)
        assert np.abs(expected - unit(plain)).max() > 1e-2
    for plain, again in zip(before, features(model, pictures, tokens), strict=True):
        np.testing.assert_array_equal(plain, again)


def test_forward_and_logits_are_those_of_debiased_features(model, pictures, tokens, space):
    import torch

    fair = eq.wrap(model, space)
    plain = features(model, pictures, tokens)
    images, texts = (eq.debias(rows, space) for rows in plain)
    with torch.inference_mode():
        found = fair(pictures, tokens)
        logits, transposed = fair.get_logits(pictures, tokens)
        scale = model.logit_scale.exp().item()
    bias = 0 if model.logit_bias is None else model.logit_bias.item()
    assert len(found) == (3 if model.logit_bias is None else 4)
    np.testing.assert_allclose(found[0].numpy(), images, atol=PRECISION)
    np.testing.assert_allclose(found[1].numpy(), texts, atol=PRECISION)
    assert found[2].item() == scale
    expected = scale * images @ texts.T + bias
    np.testing.assert_allclose(logits.numpy(), expected, atol=PRECISION * scale)
    np.testing.assert_array_equal(transposed.numpy(), logits.numpy().T)


def test_it_is_a_model_of_open_clip_in_every_other_respect(open_clip, model, pictures, space):
    import torch

    fair = eq.wrap(model, space)
    assert isinstance(fair, type(model)) and fair.logit_scale is model.logit_scale
    assert list(fair.state_dict()) == list(model.state_dict())
    assert sum(one.numel() for one in fair.parameters()) == sum(
        one.numel() for one in model.parameters()
    )
    assert not fair.eval().training
    mine = copy.deepcopy(fair).to(torch.float64)
    assert mine.encode_image(pictures.double()).dtype == torch.float64
    assert mine.load_state_dict(model.state_dict()).missing_keys == []
    assert open_clip.get_model_preprocess_cfg(fair) == open_clip.get_model_preprocess_cfg(model)
    fair.encode_image(pictures[:2]).sum().backward()
    assert fair.visual.conv1.weight.grad is not None
    model.zero_grad()


def test_output_as_a_dictionary(model, pictures, tokens, space):
    fair = eq.wrap(model, space)
    fair.output_dict = True
    found = fair(pictures, tokens)
    assert {"image_features", "text_features", "logit_scale"} <= set(found)
    assert not model.output_dict  # a setting of the twin alone


def counted(output, target, topk=(1,)):
    """open_clip 3.3's ``accuracy``, which turns an array of one number into a float, as numpy 2.4 no longer does."""
    best = output.topk(max(topk), dim=1).indices
    hits = best == target[:, None]
    return [float(hits[:, :k].sum()) for k in topk]


def test_the_zero_shot_loop_of_open_clip_itself(open_clip, model, pictures, space, monkeypatch):
    """open_clip_train's own ``run`` and classifier, on the wrapped model; the accuracy is that of debiased rows."""
    import torch
    from open_clip_train import zero_shot

    monkeypatch.setattr(zero_shot, "accuracy", counted)
    tokenizer = open_clip.SimpleTokenizer()
    fair = eq.wrap(model, space)
    classifier = open_clip.build_zero_shot_classifier(fair, tokenizer, CLASSES, TEMPLATES)
    numbers = torch.arange(12) % len(CLASSES)
    loader = [(pictures[:7], numbers[:7]), (pictures[7:], numbers[7:])]
    settings = SimpleNamespace(device="cpu", precision="fp32", batch_size=7)
    top1, top5 = zero_shot.run(fair, classifier, loader, settings)

    texts = [template.format(name) for name in CLASSES for template in TEMPLATES]
    with torch.inference_mode():
        plain = model.encode_text(tokenizer(texts)).numpy()
        images = eq.debias(model.encode_image(pictures).numpy(), space)
    rows = eq.debias(plain, space).reshape(len(CLASSES), len(TEMPLATES), -1).mean(axis=1)
    np.testing.assert_allclose(classifier.numpy().T, unit(rows), atol=PRECISION)
    order = np.argsort(-(images @ unit(rows).T), axis=1)
    hits = order == numbers.numpy()[:, None]
    assert top1 == pytest.approx(hits[:, 0].mean()) and top5 == pytest.approx(
        hits[:, :5].any(axis=1).mean()
    )


def test_an_operator_of_any_method_wraps_too(model, pictures, tokens, rng):
    import torch

    context = eq.FitContext(
        eq.Attribute.load("gender"),
        images=rng.standard_normal((60, DIM)),
        sensitive_features=np.array(["male", "female"] * 30),
    )
    operator = eq.methods.create("leace").fit(context)
    plain, _ = features(model, pictures, tokens)
    with torch.inference_mode():
        found = eq.wrap(model, operator).encode_image(pictures, normalize=True).numpy()
    np.testing.assert_allclose(found, operator.image(unit(plain)), atol=PRECISION)


def test_what_is_typed_wrong_first_is_answered(open_clip, model, pictures, rng, space):
    with pytest.raises(eq.EquipoiseError, match="gate is not legal for a model of open_clip"):
        eq.wrap(model, space, gate=True)
    with pytest.raises(eq.EquipoiseError, match="8 wide"):
        eq.wrap(model, make_space(rng, 8)).encode_image(pictures)
    with pytest.raises(eq.EquipoiseError, match="is not an operator"):
        eq.wrap(model, "gender")
    with pytest.raises(eq.EquipoiseError, match="forward_intermediates reads layers"):
        eq.wrap(model, space).forward_intermediates(pictures)
    with pytest.raises(eq.EquipoiseError, match=r"DebiasedC.* cannot be wrapped; pass a CLIP or a"):
        eq.wrap(eq.wrap(model, space), space)
    text = SMALL["text_cfg"] | {"embed_cls": True, "output_tokens": True}
    decoder = {"context_length": 76, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 1}
    coca = open_clip.CoCa(DIM, decoder, text, SMALL["vision_cfg"] | {"attentional_pool": True})
    with pytest.raises(eq.EquipoiseError, match="CoCa of open_clip cannot be wrapped"):
        eq.wrap(coca, space)


def test_the_page_runs(open_clip, tmp_path, pictures):
    folder = save_folder(open_clip, tmp_path)
    encoder = eq.load_encoder(f"open_clip:{folder}")
    book = eq.PromptBook.load("occupations-gender").subset(["a photo of a doctor"])
    space = eq.AttributeSpace.from_prompts(encoder, book, eq.Attribute.load("gender"))
    import torch

    numbers = torch.arange(12) % len(CLASSES)
    names = {"folder": folder, "loader": [(pictures, numbers)], "classes": CLASSES, "space": space}
    page = (ROOT / "docs" / "integrations" / "open-clip.md").read_text()
    (block,) = re.findall(r"```python\n(.*?)```", page, re.S)
    exec(compile(block, "open-clip.md", "exec"), names)
    assert 0 <= names["accuracy"](names["fair"]) <= 1
    rows = names["fair"].encode_text(names["tokenizer"](["a nurse"]), normalize=True)
    plain = encoder.encode_text(["a nurse"])
    np.testing.assert_allclose(rows.detach().numpy(), eq.debias(plain, space), atol=PRECISION)
