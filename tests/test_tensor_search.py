"""Search in tensors: the half-width product rules out nothing that brute force finds.

Its torch form runs on CPU tensors here, and its CUDA kernels in ``kernels/test_triton_best.py``;
``scripts/check_gpu.py`` runs both on a GPU.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import equipoise as eq
from equipoise import _tensor_search as tensors
from equipoise._search import top_k
from equipoise.errors import InputError
from tests.helpers.common import component, unit
from tests.helpers.searching import assert_same

torch = component("torch")
best = component("equipoise.kernels._torch_best")

K = 40


def found_in_tensors(texts, images, k):
    pair = torch.from_numpy(texts.astype(np.float64)), torch.from_numpy(images)
    return [tensor.numpy() for tensor in best.top_k(*pair, k)]


@st.composite
def cases(draw):
    """Eighths up to 8: exact in every dtype here, as their sums are, so that ties are many."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    dim, count, distinct = draw(st.tuples(*[st.integers(1, most) for most in (9, 700, 700)]))
    rows = (rng.integers(-64, 65, (distinct, dim)) / 8)[rng.integers(0, distinct, count)]
    for i in draw(st.lists(st.integers(0, count - 1), max_size=3)):
        rows[i, draw(st.integers(0, dim - 1))] = draw(st.sampled_from([np.nan, np.inf, -np.inf]))
    kind = draw(st.sampled_from([np.float16, np.float32, np.float64]))
    return rng.integers(-64, 65, (draw(st.integers(1, 5)), dim)) / 8, rows.astype(kind)


@given(cases(), st.integers(1, 900))
def test_ties_and_unreadable_rows_are_those_of_the_host(case, k):
    texts, images = case
    if np.isfinite(images).all(axis=1).any():
        assert_same(found_in_tensors(texts, images, k), top_k(texts, images, k))
    else:
        assert found_in_tensors(texts, images, k)[0].shape == (len(texts), 0)


@pytest.mark.parametrize("scale", [1.0, 1e-40, 1e-30, 1e18, 3e37])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_near_ties_and_lengths_of_any_size(rng, dtype, scale):
    if dtype == np.float16 and scale != 1:
        pytest.skip("float16 does not hold such numbers")
    images = unit(rng.standard_normal((3000, 48))).astype(dtype)
    images[1500:2500] = images[:1000]
    images[2500:] = np.nextafter(images[:500], dtype(1))
    images[0] *= dtype(2)
    images = images * dtype(scale)
    texts = unit(rng.standard_normal((20, 48)))
    texts[3] = 0
    for k in (1, 300):
        assert_same(found_in_tensors(texts, images, k), top_k(texts, images, k))


def test_small_memory_changes_nothing(rng, monkeypatch):
    """Blocks of a few rows, tiles of a few texts, and too few candidates at first."""
    images = unit(rng.standard_normal((500, 16))).astype(np.float32)
    images[100:400] = images[0]
    texts = np.concatenate([images[:5], unit(rng.standard_normal((6, 16)))])
    expected = top_k(texts, images, K)
    for name, value in {"TILE": 4, "SPARE": 1, "SCORES": 64, "WIDE": 64}.items():
        monkeypatch.setattr(best, name, value)
    assert_same(found_in_tensors(texts, images, K), expected)


@pytest.mark.parametrize("spread", ["even", "one entry", "outliers", "tiny"])
@pytest.mark.parametrize("dim", [1, 7, 512])
def test_a_rough_score_is_within_its_margin(rng, dim, spread):
    texts, images = rng.standard_normal((2, 90, dim))
    if spread == "one entry":
        texts, images = np.eye(dim)[rng.integers(0, dim, (2, 90))] * 3.7
    if spread == "outliers":
        images[:, 0] *= 1e4
    if spread == "tiny":
        images[1:] *= 1e-7
    directions = torch.from_numpy(unit(texts))
    rows = torch.from_numpy(images)
    index = best.ShortIndex(rows)
    short = directions.half()
    rough = best._product(short, index.short(rows)).double()
    exact = directions @ (rows * index.scale).T
    margins = best._margins(directions, short, index)
    assert ((rough - exact).abs() <= margins[:, None]).all()
    assert margins.max() < 5e-3  # else it would rule out nothing


def test_a_tensor_of_the_cpu_is_searched_as_numpy_is(rng):
    images = unit(rng.standard_normal((300, 12))).astype(np.float32)
    texts = unit(rng.standard_normal((4, 12))).astype(np.float32)
    expected = eq.search(images, texts, 7)
    found = eq.search(torch.from_numpy(images), torch.from_numpy(texts), 7)
    assert_same(tuple(found), tuple(expected))
    in_half = torch.from_numpy(images).bfloat16()
    rounded = in_half.float().numpy()
    assert_same(tuple(eq.search(in_half, texts, 7)), tuple(eq.search(rounded, texts, 7)))


def test_balance_works_on_tensors_of_the_cpu(rng):
    man, woman = unit(rng.standard_normal((2, 12)))
    shown = np.where(rng.random((400, 1)) < 0.5, man, woman)
    images = unit(shown + 0.2 * rng.standard_normal((400, 12))).astype(np.float32)
    gender = eq.Attribute("gender", ("male", "female"))
    prototypes = {"male": man, "female": woman}
    context = eq.FitContext(gender, prototypes=prototypes, images=images)
    operator = eq.methods.create("balanced", k=20).fit(context)
    texts = unit(rng.standard_normal((2, 12))).astype(np.float32)
    found = eq.search(torch.from_numpy(images), texts, 20, balance=operator)
    assert_same(tuple(found), tuple(eq.search(images, texts, 20, balance=operator)))


@pytest.mark.parametrize(
    ("index", "said"),
    [
        (lambda: torch.zeros(3, 4, dtype=torch.int64), "dtype int64"),
        (lambda: torch.zeros(3), "rows must be embeddings"),
        (lambda: torch.zeros(3, 5), "5 wide and texts are 4 wide"),
        (lambda: torch.zeros(3, 4).to_sparse(), "pass a dense tensor"),
        (lambda: torch.zeros(3, 4, device="meta"), "pass a dense tensor"),
    ],
)
def test_tensors_that_cannot_be_searched(index, said):
    with pytest.raises(InputError, match=said):
        eq.search(index(), np.ones((1, 4), np.float32), 2)


def test_one_row_of_a_tensor_is_no_query():
    images = torch.eye(4)
    with pytest.raises(InputError, match="rows must be embeddings"):
        eq.search(images, images[0], 2)


def test_what_the_search_of_a_gpu_cannot_take():
    texts = np.ones((1, 4))
    with pytest.raises(InputError, match="tensor of int64"):
        tensors.top_k(texts, torch.zeros(3, 4, dtype=torch.int64), 2)
    with pytest.raises(InputError, match="there are no images"):
        tensors.top_k(texts, torch.zeros(0, 4), 2)
    with pytest.raises(InputError, match="none of the 3 images"):
        tensors.top_k(texts, torch.full((3, 4), torch.nan), 2)


def test_a_tensor_on_a_gpu_gives_tensors_there(rng):
    if not torch.cuda.is_available():
        pytest.skip("there is no GPU here")
    images = unit(rng.standard_normal((5000, 64))).astype(np.float32)
    texts = unit(rng.standard_normal((9, 64))).astype(np.float32)
    found = eq.search(torch.from_numpy(images).cuda(), torch.from_numpy(texts).cuda(), K)
    assert found.indices.is_cuda and found.scores.is_cuda
    on_host = tensors.on_host(found.indices), tensors.on_host(found.scores)
    assert_same(on_host, tuple(eq.search(images, texts, K)))
    assert len(found.to_frame()) == 9 * K
