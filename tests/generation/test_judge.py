"""The judge of drawn pictures: what it answers, how it is kept, and what it may learn from."""

from __future__ import annotations

import io
import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from tests.helpers.common import ROOT, component

torch = component("torch")


@pytest.fixture(scope="module")
def training():
    """The training code's modules, which are not installed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "mini"))
        from training import arrays, augment, framing, judging, labels, perceive

        yield SimpleNamespace(
            arrays=arrays,
            augment=augment,
            framing=framing,
            judging=judging,
            labels=labels,
            perceive=perceive,
        )


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


def sights(training, rng, rows=600):
    """Random photographs of every source and part, each seen once."""
    there = training.arrays.Sights.__new__(training.arrays.Sights)
    there.pictures = rng.integers(0, 256, (rows, 72, 72, 3), dtype=np.uint8)
    there.photograph = rng.permutation(rows)
    there.frame = np.tile(np.array(training.framing.WHOLE, np.float32), (rows, 1))
    there.source = (np.arange(rows) % len(training.arrays.SOURCES)).astype(np.uint8)
    there.part = rng.integers(0, 3, rows)
    there.bits = (rng.random((rows, len(training.labels.BITS))) < 0.05).astype(np.uint8)
    return there


def test_it_learns_from_training_photographs_alone(training):
    there = sights(training, np.random.default_rng(0))
    batches = training.perceive.Batches(there, ["idenprof"], 64)
    assert set(batches.rows) == set(training.perceive.MIX) - {"idenprof"}
    for source, rows in batches.rows.items():
        places = rows.numpy()
        assert (there.part[places] == training.arrays.TRAIN).all()
        assert (there.source[places] == training.arrays.SOURCES.index(source)).all()
        known = [there.known(name)[places] >= 0 for name in training.judging.QUESTIONS]
        assert np.any(known, axis=0).all()
    seen, answers = batches.draw()
    assert seen.shape == (sum(batches.counts.values()), 3, 64, 64)
    assert all(len(known) == len(seen) for known in answers.values())


def test_a_frame_of_the_middle_is_the_middle(training):
    there = sights(training, np.random.default_rng(1), 20)
    crops = there.crops(np.arange(20))
    middles = training.arrays.middle(there.pictures)[there.photograph]
    # a bicubic sample at a pixel's own place is that pixel, up to rounding in float32
    assert np.abs(crops.astype(int) - middles).max() <= 1


def test_a_face_is_upright_and_in_its_place(training):
    """Whatever its size, place and tilt were: eyes level, at one height, the mouth below."""
    framing, rng = training.framing, np.random.default_rng(2)
    upright = np.array([[-7, -8], [7, -8], [0, 0], [-5, 8], [5, 8]], float)
    for _ in range(50):
        angle, size = rng.uniform(-0.4, 0.4), rng.uniform(0.8, 1.2)
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        points = size * upright @ turn.T + 36
        x, y, side, turned = framing.portrait(points, 72.0)
        back = np.array([[np.cos(turned), np.sin(turned)], [-np.sin(turned), np.cos(turned)]])
        seen = (points - [x, y]) @ back.T / side  # in shares of the crop, from its middle
        assert turned == pytest.approx(angle, abs=1e-6)
        assert seen[0, 1] == pytest.approx(seen[1, 1], abs=1e-6)
        assert np.ptp(seen[[0, 1], 0] + seen[[1, 0], 0]) < 1e-6
        assert seen[3:, 1].mean() - seen[:2, 1].mean() == pytest.approx(1 / framing.PORTRAIT)


def test_a_frame_stays_in_its_photograph(training):
    framing, rng = training.framing, np.random.default_rng(3)
    for _ in range(200):
        box = np.sort(rng.uniform(-5, 77, (2, 2)), axis=0).ravel()
        x, y, side, _ = framing.person(box, np.zeros((5, 2)), 72.0)
        assert side <= 72
        assert min(x, y) >= side / 2 - 1e-6
        assert max(x, y) <= 72 - side / 2 + 1e-6


def test_a_blurred_photograph_teaches_early_times_alone(training):
    from torch.nn import functional as F

    torch.manual_seed(0)
    rough = F.interpolate(torch.rand(8, 3, 8, 8) * 2 - 1, (64, 64), mode="bicubic")
    sharp = (rough + 0.2 * torch.randn(8, 3, 64, 64)).clamp(-1, 1)
    whole = torch.full((8,), 64.0)
    until = [training.framing.latest_times(sharp, whole)]
    for fine in (40, 24):
        small = F.interpolate(sharp, (fine, fine), mode="bicubic", antialias=True)
        blurred = F.interpolate(small, (64, 64), mode="bicubic")
        until.append(training.framing.latest_times(blurred, whole))
    assert (until[0] == 1).all()
    assert (until[0] > until[1]).all() and (until[1] >= until[2]).all() and (until[2] > 0).all()
    enlarged = training.framing.latest_times(sharp, torch.full((8,), 30.0))
    assert (enlarged < until[0]).all()  # whatever the pixels say


def test_what_jpeg_leaves_is_what_pillow_leaves(training):
    rng = np.random.default_rng(4)
    coarse = rng.integers(0, 256, (6, 6, 3), dtype=np.uint8)
    picture = np.asarray(Image.fromarray(coarse).resize((40, 40), Image.Resampling.BICUBIC))
    floats = training.augment.floats(torch.from_numpy(picture.copy())[None])
    for quality in (60, 90):
        out = io.BytesIO()
        Image.fromarray(picture).save(out, "JPEG", quality=quality, subsampling=0)
        theirs = training.augment.floats(torch.from_numpy(np.array(Image.open(out)))[None])
        ours = training.augment.compressed(floats, quality)
        # Pillow rounds to bytes and transforms in integers: about one byte of 255
        assert (ours - theirs).abs().mean() * 127.5 < 1.5
        assert (ours - theirs).abs().mean() < 0.5 * (floats - theirs).abs().mean()
