"""Search by the CUDA kernels, in Triton's interpreter: what they find is what the host finds, bit for bit."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from equipoise._search import top_k
from tests.helpers.common import component, unit
from tests.helpers.searching import assert_same

torch = component("torch")
if torch.cuda.is_available():
    pytest.skip("there is a GPU: run scripts/check_gpu.py", allow_module_level=True)
component("triton")
import triton  # noqa: E402 - it may not be there
import triton.language as tl  # noqa: E402

from equipoise.kernels import _torch_best as best  # noqa: E402 - it needs torch
from equipoise.kernels import _triton_best as fused  # noqa: E402 - it needs triton
from equipoise.kernels import _triton_rough as rough  # noqa: E402

DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


@pytest.fixture(autouse=True)
def _quiet_interpreter():
    with warnings.catch_warnings():  # numpy warns of what a GPU does in silence
        warnings.simplefilter("ignore")
        yield


@pytest.fixture(autouse=True)
def _large_programs(monkeypatch):
    """Give a program more to do: here they run one by one."""
    monkeypatch.setattr(fused, "EXACT", {"BN": 256, "BD": 64})
    monkeypatch.setattr(fused, "MEASURE", {"BN": 128, "BD": 64})


@pytest.fixture
def little_room(monkeypatch):
    """Let a few hundred images be too many to hold all of them."""
    monkeypatch.setattr(fused, "SPARE", 16)


def numbers(images):
    """Return a tensor's numbers as numpy."""
    return (images.float() if images.dtype == torch.bfloat16 else images).numpy()


def expect_same(texts, images, k, left=None):
    """Compare with the host. ``left``: how many queries the kernels leave, where it is known."""
    queries = torch.from_numpy(texts)
    if left is not None:
        assert len(fused.top_k(queries, images, k).left) == left
    found = [tensor.numpy() for tensor in best._fused(queries, images, k)]
    assert_same(found, top_k(texts, numbers(images), k))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("dim", [1, 100, 513])
def test_near_ties_and_rows_that_are_not_finite(rng, little_room, dtype, dim):
    images = unit(rng.standard_normal((700, dim)))
    images[300:400] = images[:100]
    images = torch.from_numpy(images).to(dtype)
    images[400:450] = torch.nextafter(images[:50], torch.ones((), dtype=dtype))
    images[7], images[9, 0], images[11, -1] = torch.nan, torch.inf, -torch.inf
    texts = unit(rng.standard_normal((3, dim)))
    for k in (1, 20):
        assert dim == 1 or fused.planned(700, k).order > 0
        expect_same(texts, images, k, left=None if dim == 1 else 0)


@st.composite
def cases(draw):
    """Eighths up to 8: exact in every dtype here, as their sums are, so that ties are many."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    dim, count, distinct = draw(st.tuples(*[st.integers(1, most) for most in (9, 300, 300)]))
    rows = (rng.integers(-64, 65, (distinct, dim)) / 8)[rng.integers(0, distinct, count)]
    for i in draw(st.lists(st.integers(0, count - 1), max_size=3)):
        rows[i, draw(st.integers(0, dim - 1))] = draw(st.sampled_from([np.nan, np.inf, -np.inf]))
    images = torch.from_numpy(rows).to(draw(st.sampled_from(DTYPES)))
    return rng.integers(-64, 65, (draw(st.integers(1, 3)), dim)) / 8, images


@settings(max_examples=25)
@given(cases(), st.integers(1, 400))
def test_ties(case, k):
    texts, images = case
    if images.isfinite().all(1).any():
        expect_same(texts, images, k)
    else:
        assert best._fused(torch.from_numpy(texts), images, k)[0].shape == (len(texts), 0)


@pytest.mark.parametrize("scale", [1e-40, 1e-30, 1e18, 3e37])
@pytest.mark.parametrize("dtype", DTYPES[1:], ids=str)
def test_lengths_of_any_size(rng, little_room, dtype, scale):
    if dtype == torch.bfloat16 and scale == 1e-40:
        pytest.skip("the interpreter takes subnormal numbers of bfloat16 for 0")
    images = unit(rng.standard_normal((600, 48))) * scale
    images[0] *= 2
    images[1] *= 1e-9
    texts = unit(rng.standard_normal((2, 48)))
    expect_same(texts, torch.from_numpy(images).to(dtype), 5)


def test_the_whole_range_of_half_width(rng, little_room):
    images = rng.standard_normal((600, 32)) * np.geomspace(1e-8, 3e4, 600)[:, None]
    images[:5] = 65504 * np.sign(images[:5])
    texts = rng.standard_normal((2, 32)) * [[1e-40], [1e30]]
    expect_same(texts, torch.from_numpy(images).half(), 5, left=0)


@pytest.mark.parametrize("few", [0, 128])
@pytest.mark.parametrize("queries", [1, 17, 130])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=str)
def test_any_number_of_queries(rng, monkeypatch, little_room, few, queries, dtype):
    """In one read, and measured before."""
    monkeypatch.setattr(fused, "FEW", few)
    images = torch.from_numpy(unit(rng.standard_normal((500, 20)))).to(dtype)
    images[3] = torch.nan
    texts = rng.standard_normal((queries, 20)).astype(np.float32)
    expect_same(texts, images, 3)


@pytest.mark.parametrize("few", [0, 128])
def test_little_memory_changes_nothing(rng, monkeypatch, little_room, few):
    """Blocks of some images, and tiles of some texts."""
    for name, value in {"FEW": few, "BYTES": 1 << 13, "TILE": 4}.items():
        monkeypatch.setattr(fused, name, value)
    images = torch.from_numpy(unit(rng.standard_normal((500, 16)))).float()
    expect_same(unit(rng.standard_normal((9, 16))), images, 4, left=0)


@pytest.mark.parametrize("k", [499, 500, 501])
def test_all_images(rng, k):
    images = torch.from_numpy(rng.standard_normal((500, 8))).float()
    expect_same(rng.standard_normal((2, 8)), images, k, left=0)
    images[4] = torch.nan  # 499 are left
    expect_same(rng.standard_normal((2, 8)), images, k, left=0 if k == 499 else 2)


def test_zeros(rng, little_room):
    """All images tie, or most do, and the second attempt has room for them all; -0 is 0."""
    images = torch.from_numpy(rng.standard_normal((600, 8))).half()
    texts = rng.standard_normal((3, 8))
    texts[1] = 0
    expect_same(texts, images, 4, left=0)
    images[:590] = -0.0
    expect_same(texts, images, 40)
    expect_same(texts, torch.zeros(600, 8), 4, left=0)
    tiny = torch.from_numpy(1e-30 * rng.standard_normal((600, 8))).float()
    expect_same(1e-30 * texts, tiny, 4)  # float32 rounds negative scores to -0


def test_equal_rows_beyond_what_there_is_room_for(rng, monkeypatch, little_room):
    """The query that they are best for is left, or settled where the second attempt has the room."""
    images = torch.from_numpy(unit(rng.standard_normal((1500, 16)))).half()
    images[100:1300] = images[0]
    texts = np.concatenate([images[:1].numpy(), -images[:1].numpy()])
    expect_same(texts, images, 20, left=0)
    monkeypatch.setattr(fused, "MORE", 1)
    expect_same(texts, images, 20, left=1)


@pytest.mark.parametrize("error", [-np.inf, -0.3, 0.05, 0.3, np.inf])
def test_a_wrong_threshold_changes_nothing(rng, monkeypatch, little_room, error):
    usual = fused._thresholds

    def wrong(*given):
        found = usual(*given)
        found[1:] += error
        return found

    images = torch.from_numpy(unit(rng.standard_normal((900, 16)))).half()
    texts = unit(rng.standard_normal((4, 16)))
    expect_same(texts, images, 5, left=0)
    monkeypatch.setattr(fused, "_thresholds", wrong)
    monkeypatch.setattr(fused, "MORE", 1)
    expect_same(texts, images, 5, left={-np.inf: 2, np.inf: 2}.get(error))


@pytest.mark.parametrize("few", [0, 128])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_threshold_right_below_the_last_place(rng, monkeypatch, dtype, few):
    """Half width cannot tell these images apart; only their slacks keep the right ones in."""
    centre = unit(rng.standard_normal((1, 40)))
    images = centre + 1e-4 * rng.standard_normal((600, 40))
    images = torch.from_numpy(images * rng.choice([0.1, 1], (600, 1))).to(dtype)
    texts = unit(centre + rng.standard_normal((4, 40)) / 9)
    last = top_k(texts, numbers(images), 20)[1][:, -1].astype(float)
    near = 1 - 2.0**-22

    def right_below(directions, index, plan):
        scale = 1.0 if index.scale is None else float(index.scale)
        return torch.from_numpy(last * scale * near).float()

    monkeypatch.setattr(fused, "planned", lambda *_: fused.Plan(64, 1, 1, 768))
    monkeypatch.setattr(fused, "_thresholds", right_below)
    monkeypatch.setattr(fused, "FEW", few)
    expect_same(texts, images, 20, left=0)
    near = 1 + 2.0**-22  # and right above it nothing is settled
    assert len(fused.top_k(torch.from_numpy(texts), images, 20).left) == 4


def test_a_second_attempt_settles_what_a_bad_sample_does_not(rng, monkeypatch, little_room):
    """The best images are all in one part of the index, and the sample has too many of them."""
    images = unit(rng.standard_normal((900, 16)))
    texts = unit(rng.standard_normal((1, 16)))
    plans, usual = [], fused._attempt
    monkeypatch.setattr(fused, "_attempt", lambda *given: plans.append(given[3]) or usual(*given))
    monkeypatch.setattr(
        fused, "planned", lambda n, k, allowance=1: fused.Plan(192, 1, 2 * allowance, 256)
    )
    expect_same(texts, torch.from_numpy(images), 40)
    assert [plan.order for plan in plans] == [2, 8]


@pytest.mark.parametrize("few", [0, 128])
@pytest.mark.parametrize(
    "view",
    [lambda x: x[::2], lambda x: x[:, ::3], lambda x: x.T.contiguous().T, lambda x: x[1:, 1:]],
)
def test_rows_that_are_not_side_by_side(rng, monkeypatch, little_room, view, few):
    monkeypatch.setattr(fused, "FEW", few)
    images = view(torch.from_numpy(rng.standard_normal((800, 40))).half())
    expect_same(rng.standard_normal((2, images.shape[1])), images, 4, left=0)


@triton.jit
def _write_rough(
    directions, images, scale, scores, slacks,
    LONG: tl.constexpr, MOVED: tl.constexpr, LEAST: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    rows = tl.arange(0, 64)
    found, slack = rough._rough(
        directions, images, scale, rows, rows, D, 1,
        LONG, MOVED, LEAST, True, D, 64, 64, 32,
    )  # fmt: skip
    tl.store(scores + rows[:, None] * 64 + rows[None, :], found)
    tl.store(slacks + rows, slack)


@pytest.mark.parametrize("spread", ["even", "one entry", "outliers", "tiny", "huge"])
@pytest.mark.parametrize("dim", [1, 7, 512])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_rough_score_is_within_its_slack(rng, dtype, dim, spread):
    texts, images = rng.standard_normal((2, 64, dim))
    if spread == "one entry":
        texts, images = np.eye(dim)[rng.integers(0, dim, (2, 64))] * 3.7
    if spread == "outliers":
        images[:, 0] *= 1e3
    if spread == "tiny":
        images[1:] *= 1e-7
    if spread == "huge":
        images[1:] *= 65504 / np.abs(images).max() if dtype == torch.float16 else 1e38 / 3.7
    images = torch.from_numpy(images).to(dtype)
    index = fused.RoughIndex(images)
    directions, lengths = fused._directions(torch.from_numpy(texts))
    scores, slacks = torch.empty(64, 64), torch.empty(64)
    _write_rough[(1,)](directions, images, index.scale, scores, slacks, **index.terms)
    scale = 1.0 if index.scale is None else float(index.scale)
    assert np.log2(scale) == round(np.log2(scale))
    wide = images.double() * scale
    exact = wide @ (torch.from_numpy(texts) / lengths[:, None]).T
    assert ((scores.double() - exact).abs() <= slacks[:, None].double()).all()
    short, measured = index.measured(images)
    assert torch.allclose(measured, slacks, rtol=1e-5)
    if spread in ("even", "one entry"):
        assert (slacks < 2e-3 * wide.norm(dim=1)).all()  # else it would rule out nothing
        assert short.dtype == torch.float16 and short.isfinite().all()


def test_a_row_that_is_not_finite_has_no_slack():
    for dtype in DTYPES:
        images = torch.ones(4, 3, dtype=dtype)
        images[1, 2], images[2, 0] = torch.nan, -torch.inf
        slack = fused.RoughIndex(images).measured(images)[1]
        assert slack.isnan().tolist() == [False, True, True, False]
    images = torch.ones(2, 3, dtype=torch.float64)
    images[1, 1] = 1e39  # beyond float32
    assert fused.RoughIndex(images).measured(images)[1].isnan().tolist() == [False, True]


@given(st.integers(1, 10**9), st.integers(1, 10**7))
def test_a_plan_rarely_fails(images, k):
    k = min(k, images)
    plan = fused.planned(images, k)
    assert k <= plan.capacity and plan.capacity % 256 == 0
    if plan.order == 0:
        assert plan.capacity >= images
        return
    groups = plan.sampled // plan.group
    assert plan.sampled % 64 == plan.sampled % plan.group == 0
    assert plan.order < groups <= plan.sampled < images
    # it fails where so many of the k best are in the sample
    assert stats.binom.sf(plan.order - 1, plan.sampled, k / images) < 4e-6


def test_all_images_can_be_counted():
    for k in (1, fused.MOST_IMAGES):
        assert fused.planned(fused.MOST_IMAGES, k).capacity < 1 << 31
