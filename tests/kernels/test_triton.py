"""The CUDA kernels in Triton's interpreter: float32 rows and float16 tiles. bfloat16 needs a GPU: scripts/check_gpu.py."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import equipoise as eq
from equipoise.kernels._recipe import PROJECT, LowRank, Preference, preference
from tests.helpers.common import component, exact, make_space, rows_at, unit

torch = component("torch")
if torch.cuda.is_available():
    pytest.skip("there is a GPU: run scripts/check_gpu.py", allow_module_level=True)
component("triton")
from equipoise.kernels import _triton  # noqa: E402 - it needs triton


@pytest.fixture(autouse=True)
def _quiet_interpreter():
    with warnings.catch_warnings():  # it divides by zero in numpy where the GPU would in silence
        warnings.simplefilter("ignore")
        yield


def run(e, low_rank, wanted=None, norm="unit", dtype=torch.float32):
    x = torch.as_tensor(e, dtype=dtype)
    out = torch.full_like(x, float("nan"))
    bad = _triton.debias(x, out, low_rank, wanted or Preference("kappa", 1.0), norm)
    return out, bad


@pytest.mark.parametrize(
    "options",
    [{}, {"kappa": 0.2}, {"kappa": np.inf}, {"kappa": "printed"}, {"weights": (0.1, 0.9)}],
    ids=str,
)
@pytest.mark.parametrize(("dim", "rank"), [(64, 1), (100, 3), (192, 7)])
def test_float32_rows(rng, dim, rank, options):
    space = make_space(rng, dim, rank + 1)
    e = np.float32(rows_at(rng, space, np.array([1e-3, 0.1, 0.3, 0.45, 0.55, 0.9, 0.99])))
    wanted = preference(
        options.get("kappa", None if "weights" in options else 1.0), options.get("weights")
    )
    for norm in ("unit", "keep"):
        u, bad = run(3 * e, space.low_rank, wanted, norm)
        want = eq.debias(3 * e.astype(np.float64), space, norm=norm, **options)
        assert (
            np.abs(u.numpy() - want).max() < 1e-6 * np.abs(want).max()
        )  # eight units; p = 0.99 divides by o = 0.14
        assert not bad.any()


def test_float32_shrink_on_rows():
    p = np.geomspace(1e-7, 0.9999, 500).astype(np.float32)
    e = np.zeros((500, 64), np.float32)
    e[:, 0], e[:, 50] = p, np.sqrt(1 - p.astype(np.float64) ** 2)
    u, _ = run(e, LowRank.projection(np.eye(64)[:, :1]))
    stored = unit(e.astype(np.float64))
    want = eq.geometry.half_angle(stored[:, 0] ** 2, stored[:, 50], 1.0, np.sqrt)[0]
    assert np.abs(u.double().numpy()[:, 0] / stored[:, 0] / want - 1).max() <= 4e-7


def test_rows_that_do_not_follow_the_formula(rng):
    space = make_space(rng, 64, 3)
    e = unit(rng.standard_normal((8, 64))).astype(np.float32)
    e[1], e[2, 5], e[3, 0] = 0, np.nan, np.inf
    e[4] = space.basis[:, 0]
    e[5], e[6] = e[5] * np.float32(1e-30), e[6] * np.float32(1e30)
    u, bad = run(e, space.low_rank)
    assert bad.tolist() == [False, True, True, True, False, False, False, False]
    assert np.array_equal(u.numpy()[1:4].view(np.uint32), e[1:4].view(np.uint32))
    assert np.abs(u.numpy()[4] - e[4]).max() < 2e-7
    for i in (0, 5, 6, 7):
        assert np.abs(u.numpy()[i] - exact(e[i : i + 1], space.basis)[0]).max() < 2e-7
    kappa = Preference("kappa", torch.tensor([0.0, 1, 1, 1, 1, 1, 1, 0]))
    u, _ = run(e, space.low_rank, kappa)
    assert np.array_equal(u.numpy()[[0, 7]], e[[0, 7]])


@pytest.mark.parametrize("rank", [4, 7, 15])
def test_float16_tiles(rng, rank):
    """The matrix-unit kernel: an ordinary tile, one that holds unusual rows, and a last one that is not full."""
    space = make_space(rng, 128, rank + 1)
    assert _triton.uses_tiles(space.low_rank, torch.float16)
    e = rows_at(rng, space, rng.uniform(0.01, 0.6, 150)).astype(np.float16)
    e[70], e[71, 3], e[72] = 0, np.nan, space.basis[:, 0]
    e[73] = rows_at(rng, space, np.array([0.97]))[0] * 50
    u, bad = run(e, space.low_rank, dtype=torch.float16)
    assert bad.nonzero().ravel().tolist() == [70, 71]
    assert np.array_equal(u.numpy()[70:72].view(np.uint16), e[70:72].view(np.uint16))
    good = np.delete(np.arange(150), [70, 71])
    want = eq.debias(e[good], space)
    assert (u.numpy()[good] == want).mean() > 0.99
    assert np.abs(u.numpy()[good].astype(float) - want.astype(float)).max() < 2.0**-10


@pytest.mark.parametrize("rank", [1, 3])
def test_float16_rows(rng, rank):
    """Low ranks fold the two terms into one; rows beyond p^2 = 3/4 must not."""
    space = make_space(rng, 100, rank + 1)
    assert not _triton.uses_tiles(space.low_rank, torch.float16)
    e = rows_at(
        rng,
        space,
        np.concatenate([rng.uniform(0.01, 0.6, 40), rng.uniform(0.8, 0.86, 60), np.full(9, 0.95)]),
    ).astype(np.float16)
    e[7] = 0
    u, bad = run(e, space.low_rank, dtype=torch.float16)
    assert bad.nonzero().ravel().tolist() == [7]
    good = np.delete(np.arange(len(e)), 7)
    want = exact(e[good].astype(np.float64), space.basis).astype(np.float16)
    assert (u.numpy()[good] == want).mean() > 0.995


def test_extreme_lengths_are_kept(rng):
    space = make_space(rng, 64, 3)
    e = unit(rng.standard_normal((4, 64)))
    lengths = np.array([[1e-30], [1e-14], [1e14], [1e30]])
    u, bad = run(np.float32(e * lengths), space.low_rank, norm="keep")
    assert not bad.any()
    assert np.abs(u.numpy() / lengths - eq.debias(e, space)).max() < 1e-6


def test_affine_map(rng):
    low_rank = LowRank(
        rng.standard_normal((64, 3)) / 8,
        rng.standard_normal((64, 3)) / 8,
        rng.standard_normal(64) / 9,
    )
    x = rng.standard_normal((9, 64))
    e = unit(x)
    rest = e - (e @ low_rank.right @ low_rank.left.T + low_rank.bias)
    for norm, want in (("raw", rest), ("unit", unit(rest))):
        u, _ = run(x, low_rank, PROJECT, norm)
        assert np.abs(u.numpy() - want).max() < 1e-6
