"""The judge of drawn pictures: what it answers, how it is kept, and what it may learn from."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from tests.helpers.common import ROOT, component

torch = component("torch")


@pytest.fixture(scope="module")
def training():
    """The training code's modules, which are not installed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "mini"))
        from training import augment, judging, labels, perceive

        yield SimpleNamespace(augment=augment, judging=judging, labels=labels, perceive=perceive)


@pytest.fixture(scope="module")
def judge(training, tmp_path_factory):
    """A judge that has learned nothing."""
    folder = tmp_path_factory.mktemp("judge")
    torch.manual_seed(0)
    training.judging.save(training.judging.Perceiver(), folder / "perceive.safetensors")
    return training.judging.Judge(folder)


@pytest.fixture(scope="module")
def pictures():
    return np.random.default_rng(0).integers(0, 256, (5, 64, 64, 3), dtype=np.uint8)


def test_it_answers_every_question_with_probabilities(training, judge, pictures):
    found = judge(pictures)
    assert set(found) == {*training.judging.QUESTIONS, "features"}
    for question in training.judging.QUESTIONS:
        assert found[question].shape == (len(pictures), len(training.labels.SLOTS[question]))
        # ten float32 numbers are added, each of which is rounded once
        assert np.abs(found[question].sum(1) - 1).max() < 1e-5
    assert found["features"].shape == (len(pictures), training.judging.FEATURES)


def test_a_saved_judge_says_the_same(training, judge, pictures, tmp_path):
    training.judging.save(judge.model, tmp_path / "again.safetensors")
    again = training.judging.Judge(tmp_path, "again")(pictures)
    for name, rows in judge(pictures).items():
        np.testing.assert_array_equal(again[name], rows)
    assert [path.name for path in tmp_path.iterdir()] == ["again.safetensors"]


def test_a_mirrored_picture_is_judged_alike(judge, pictures):
    mirrored = judge(pictures[:, :, ::-1])
    for name, rows in judge(pictures).items():
        np.testing.assert_array_equal(mirrored[name], rows)


def test_blocks_do_not_change_what_is_seen(training, judge, pictures, monkeypatch):
    whole = judge(pictures)
    monkeypatch.setattr(training.judging, "BLOCK", 2)
    for name, rows in judge(pictures).items():
        # convolutions of another batch size may add in another order
        np.testing.assert_allclose(rows, whole[name], rtol=1e-4, atol=1e-5)


def test_it_says_the_names_of_the_labels(training):
    for question in training.judging.QUESTIONS:
        names = training.labels.SLOTS[question]
        said = training.judging.says({question: np.eye(len(names))}, question)
        assert said.tolist() == list(names)


def test_kernel_distance_is_the_unbiased_estimate(training):
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((6, 4)), rng.standard_normal((5, 4)) + 1

    def mean(pairs):
        return np.mean([(x @ y / 4 + 1) ** 3 for x, y in pairs])

    within = mean(itertools.permutations(a, 2)) + mean(itertools.permutations(b, 2))
    expected = within - 2 * mean(itertools.product(a, b))
    # float64 sums of fewer than a hundred terms
    assert training.judging.kernel_distance(a, b) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("pixels", [32, 64])
def test_shrunk_views_lose_what_is_fine_and_nothing_else(training, monkeypatch, pixels):
    monkeypatch.setattr(training.augment, "COMPRESSED", 0)
    torch.manual_seed(0)
    flat = torch.full((20, 3, pixels, pixels), 0.25)
    fine = flat.clone()
    fine[..., ::2] += 0.5
    fine[..., 1::2] -= 0.5
    kept = training.augment.shrunk(flat, least=4)
    # weights of an interpolation sum to one, up to rounding in float32
    assert torch.allclose(kept, flat, atol=1e-5)
    blurred = training.augment.shrunk(fine, least=4)
    assert blurred.shape == fine.shape
    # a triangle of at least two pixels' half width averages neighbours of opposite sign
    assert (blurred - flat).abs().max() < 0.25


def test_answers_that_nobody_knows_cost_nothing(training):
    logits = torch.randn(3, 2, requires_grad=True)
    training.perceive.error(logits, torch.tensor([-1, -1, -1])).backward()
    assert logits.grad is not None
    assert (logits.grad == 0).all()


def test_it_learns_from_training_photographs_alone(training):
    rng = np.random.default_rng(0)
    names = np.array(list(training.perceive.MIX))
    there = training.perceive.Photographs.__new__(training.perceive.Photographs)
    there.pictures = rng.integers(0, 256, (600, 72, 72, 3), dtype=np.uint8)
    there.source, there.part = names[np.arange(600) % len(names)], rng.integers(0, 3, 600)
    there.known = {
        name: rng.integers(-1, len(training.labels.SLOTS[name]), 600)
        for name in training.judging.QUESTIONS
    }
    drawn = training.perceive.batches(there, ["idenprof"], 64, rng)
    for near, far in itertools.islice(drawn, 20):
        places = np.concatenate([near, far])
        assert (there.part[places] == 0).all()
        assert "idenprof" not in there.source[places]
        assert set(there.source[far]) <= set(training.perceive.PORTRAITS)
        seen, answers = training.perceive.views_of(there, (near, far), 32)
        assert seen.shape == (len(places), 3, 32, 32)
        for name, known in there.known.items():
            assert answers[name].tolist() == known[places].tolist()
