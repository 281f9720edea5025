"""Every kernel gives the same answer to the dtype's precision, for the closed form and for any low-rank affine map."""

from __future__ import annotations

import numpy as np
import pytest

import equipoise as eq
from equipoise.errors import InputError
from equipoise.kernels import _host as host
from equipoise.kernels._recipe import PROJECT, LowRank, Preference
from tests.helpers.common import component, make_space, rows_at, unit
from tests.helpers.kernels import in_float64, with_jax, with_numba, with_numpy, with_torch

EPS = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10}
OPTIONS = [
    {},
    {"kappa": 0.2},
    {"kappa": np.inf},
    {"kappa": 0.0},
    {"kappa": "printed"},
    {"weights": (0.1, 0.9)},
    {"norm": "keep", "kappa": 4.0},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("dtype", EPS)
@pytest.mark.parametrize("kernel", [with_numpy, with_torch, with_jax])
def test_agrees_with_numba(rng, kernel, dtype, options):
    space = make_space(rng, 192, 5)
    rows = rows_at(
        rng, space, np.concatenate([rng.uniform(1e-4, 0.95, 300), [0, 0]])
    ) * rng.uniform(0.5, 2, (302, 1))
    rows[-1] = space.basis[:, 1]  # pure attribute
    e = rows.astype(dtype)
    ours, theirs = (k(e, space, **options) for k in (with_numba, kernel))
    assert theirs.dtype == e.dtype and theirs.shape == e.shape
    size = np.linalg.norm(ours.astype(np.float64), axis=1, keepdims=True)
    assert (
        np.abs(ours.astype(np.float64) - theirs.astype(np.float64)) <= 8 * EPS[dtype] * size
    ).all()


@pytest.mark.parametrize("rank", [1, 2, 3, 4, 5, 8, 15])
@pytest.mark.parametrize("dim", [16, 17, 100, 256])
def test_every_rank_and_width(rng, rank, dim):
    space = make_space(rng, dim, rank + 1)
    e = rows_at(rng, space, rng.uniform(0.1, 0.8, 11)).astype(np.float32)
    assert np.abs(with_numba(e, space) - with_numpy(e, space)).max() < 4 * EPS["float32"]


def affine(e, m: LowRank):
    e = unit(e)
    return e - (e @ m.right @ m.left.T + (0 if m.bias is None else m.bias))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("framework", ["numba", "numpy", "torch", "jax"])
def test_any_low_rank_affine_map(rng, monkeypatch, dtype, bias, framework):
    """An oblique map, as LEACE's: right and left differ, and a constant is added."""
    low_rank = LowRank(
        rng.standard_normal((64, 3)) / 8,
        rng.standard_normal((64, 3)) / 8,
        rng.standard_normal(64) / 9 if bias else None,
    )
    x = (rng.standard_normal((50, 64)) * rng.uniform(0.1, 10, (50, 1))).astype(dtype)
    rest = affine(x.astype(np.float64), low_rank)
    monkeypatch.setenv("EQUIPOISE_NO_NUMBA", "" if framework == "numba" else "1")
    jax = component("jax")
    for norm, want in (
        ("raw", rest),
        ("unit", unit(rest)),
        ("keep", unit(rest) * np.linalg.norm(x.astype(np.float64), axis=1, keepdims=True)),
    ):
        with in_float64(dtype == "float64"):
            array = {"torch": component("torch").tensor, "jax": jax.numpy.asarray}.get(
                framework, np.asarray
            )(x)
            u, invalid = eq.kernels.debias_and_count(array, low_rank, PROJECT, norm)
        assert int(invalid.count()) == 0 and not np.asarray(invalid.mask()).any()
        assert np.abs(np.asarray(u) - want).max() < 16 * EPS[dtype] * np.abs(want).max()


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_measurements_agree(rng, monkeypatch, dtype, rank):
    """The fused measurement and the one in blocks, rows of every kind and of other lengths among them."""
    space = make_space(rng, 100, rank + 1)
    e = rows_at(rng, space, rng.uniform(0, 1, 301)).astype(dtype)
    e[100:200] *= rng.uniform(0.5, 2, (100, 1)).astype(dtype)
    e[3], e[4, 7], e[5] = 0, np.nan, e[5] * e.dtype.type(1e4)
    if dtype != "float16":
        tiny, huge = (1e-160, 1e160) if dtype == "float64" else (1e-30, 1e30)
        e[6], e[7] = e[6] * e.dtype.type(tiny), e[7] * e.dtype.type(huge)
    u = eq.debias(e, space, on_invalid="keep")
    fused = eq.kernels.measure(e, u, space.low_rank)
    monkeypatch.setenv("EQUIPOISE_NO_NUMBA", "1")
    blocks = eq.kernels.measure(e, u, space.low_rank)
    for mine, theirs in zip(fused, blocks, strict=True):
        assert np.allclose(mine, theirs, rtol=1e-14, atol=1e-15, equal_nan=True)
    assert np.isnan(fused[0][[3, 4]]).all() and np.isfinite(np.delete(fused[0], [3, 4])).all()


@pytest.mark.parametrize("groups", [2, 3, 4])
@pytest.mark.parametrize("dtype", EPS)
def test_debiased_and_measured_in_one_pass(rng, dtype, groups):
    """Is debiased, then measured; also where the last rows are fewer than are taken together, and some have no direction."""
    space, wanted = make_space(rng, 72, groups), Preference("kappa", 1.0)
    e = rows_at(rng, space, rng.uniform(0, 0.9, 131)).astype(dtype)
    e[3], e[70, 7] = 0, np.nan
    u, apart = np.empty_like(e), np.empty_like(e)
    bad, columns = host.debias_and_measure(e, u, space.low_rank, wanted, "unit", dtype)
    assert np.array_equal(
        bad, host.debias(e, apart, space.low_rank, wanted, "unit")
    ) and np.flatnonzero(bad).tolist() == [3, 70]
    assert u.tobytes() == apart.tobytes()
    assert np.array_equal(columns, host.measure(e, u, space.low_rank), equal_nan=True)


@pytest.mark.parametrize("dtype", EPS)
def test_rows_written_past_the_caches_are_the_same(rng, dtype):
    """Large outputs take another way to memory than small ones."""
    space = make_space(rng, 64)
    rows = host.FAR_BYTES // (64 * np.dtype(dtype).itemsize) + 5
    e = rng.standard_normal((rows, 64)).astype(dtype)
    parts = [eq.debias(part, space) for part in np.array_split(e, 3)]
    assert all(part.nbytes < host.FAR_BYTES for part in parts)
    assert np.array_equal(eq.debias(e, space), np.concatenate(parts))


def test_one_line_tells_the_kernel(rng):
    assert eq.kernels.which(np.ones(3)) == "numba"
    with pytest.raises(InputError, match="DataFrame"):
        eq.kernels.which(component("pandas").DataFrame([[1.0]]))


def test_float16_without_hardware_support_falls_back(monkeypatch):
    monkeypatch.setattr(host, "_half_in_hardware", lambda: False)
    assert eq.kernels.which(np.ones(3, np.float16)) == "numpy"
    assert eq.kernels.which(np.ones(3, np.float32)) == "numba"


def test_factors_are_made_once(rng):
    space = make_space(rng)
    e = rng.standard_normal((3, 64))
    eq.debias(e, space)
    made = space.low_rank.cached(("numba", "float64"), lambda: pytest.fail("made again"))
    eq.debias(e, space)
    assert space.low_rank.cached(("numba", "float64"), lambda: None) is made


def test_preference_is_read_from_the_arguments():
    assert Preference("kappa", 2.0).constant == 2.0
    assert Preference("printed").constant is None
