"""Rows almost inside the space: every kernel holds the guarantees down to the rounding of the row itself.

The reference is the exact answer for the very row that is stored, in extended precision. What a
row of a dtype can say about its rest is limited by eps / o of that dtype; what is promised of
the answer, its length and its leakage, is not.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import equipoise as eq
from equipoise import geometry
from equipoise.kernels._recipe import Preference
from tests.helpers.common import component, make_space, rows_at
from tests.helpers.kernels import with_jax, with_numba, with_numpy, with_torch

KAPPAS = (0.0, 0.1, 1.0, 10.0, np.inf)
LEAST, MOST = -8.0, 0.0  # of log10(o)
# how many eps a length or a leakage may be off by: the answer is rounded, and a length is a sum.
# In float64 the basis, too, is orthonormal to a few eps only
FEW = {"float16": 4, "float32": 4, "float64": 16}


def with_triton(e, space, **options):
    torch = component("torch")
    component("triton")
    if torch.cuda.is_available():
        pytest.skip("there is a GPU: run scripts/check_gpu.py")
    from equipoise.kernels import _triton

    x = torch.tensor(e)
    out = torch.full_like(x, float("nan"))
    with (
        warnings.catch_warnings()
    ):  # the interpreter divides by zero where the GPU would in silence
        warnings.simplefilter("ignore")
        _triton.debias(x, out, space.low_rank, Preference("kappa", options["kappa"]), "unit")
    return out.numpy()


# widths and ranks are few, because jax and Triton compile for each
WIDTHS = {with_jax: (8, 1024), with_triton: (8, 1024)}
FLOAT32_ONLY = (with_jax, with_triton)
CASES = [
    *((kernel, "float32") for kernel in (with_numpy, with_numba, with_torch, *FLOAT32_ONLY)),
    *((kernel, "float64") for kernel in (with_numpy, with_numba, with_torch, with_jax)),
    *((kernel, "float16") for kernel in (with_numpy, with_numba, with_torch, *FLOAT32_ONLY)),
]
EVERY = pytest.mark.parametrize(
    ("kernel", "dtype"), CASES, ids=lambda v: getattr(v, "__name__", v).removeprefix("with_")
)


def parts(rows, basis):
    """(inside, outside): the two parts of each unit row, in extended precision."""
    e = rows.astype(np.longdouble)
    e = e / size(e)[:, None]
    q = basis.astype(np.longdouble)
    rest = geometry.outside(e, e @ q, q)
    return e - rest, rest


def size(rows):
    return np.sqrt((rows.astype(np.longdouble) ** 2).sum(-1))


def exactly(rows, basis, kappa):
    """The closed form in extended precision; in half angles, since o reaches 1, where the paper's expression cancels."""
    inside, outside = parts(rows, basis)
    p, o = size(inside)[:, None], size(outside)[:, None]
    if np.isinf(kappa):
        return outside / o
    shrink, beta = geometry.half_angle(p * p, o, np.longdouble(kappa), np.sqrt)
    return beta / o * outside + shrink * inside


@EVERY
def test_no_answer_is_lost_on_the_way_inside(rng, kernel, dtype):
    space = make_space(rng, 64, 4)
    e = rows_of(rng, space, np.geomspace(1, 10.0**LEAST, 32)).astype(dtype)
    for kappa in KAPPAS:
        u = kernel(e, space, kappa=kappa)
        check(u, e, space, kappa, wide=kernel not in FLOAT32_ONLY)


SLOW = [pytest.param(*case, marks=pytest.mark.slow) for case in CASES if case[0] in FLOAT32_ONLY]


@pytest.mark.parametrize(
    ("kernel", "dtype"),
    [*(case for case in CASES if case[0] not in FLOAT32_ONLY), *SLOW],
    ids=lambda v: getattr(v, "__name__", v).removeprefix("with_"),
)
@settings(max_examples=24)
@given(st.data())
def test_lengths_and_leakages_hold(kernel, dtype, data):
    seed = data.draw(st.integers(0, 2**32 - 1))
    dim = data.draw(st.sampled_from(WIDTHS.get(kernel, (8, 16, 100, 512, 1024))))
    rank = data.draw(st.sampled_from((1, 3, 7)))
    kappa = data.draw(st.sampled_from(KAPPAS))
    o = 10.0 ** np.array(data.draw(st.lists(st.floats(LEAST, MOST), min_size=8, max_size=8)))
    rng = np.random.default_rng(seed)
    space = make_space(rng, dim, rank + 1)
    e = rows_of(rng, space, o).astype(dtype)
    check(kernel(e, space, kappa=kappa), e, space, kappa, wide=kernel not in FLOAT32_ONLY)


def rows_of(rng, space, o):
    """Unit rows whose part outside the space has the lengths o."""
    inside = rows_at(rng, space, np.ones(len(o)))
    outside = rows_at(rng, space, np.zeros(len(o)))
    return np.sqrt(1 - o * o)[:, None] * inside + o[:, None] * outside


def check(u, e, space, kappa, wide):
    """``wide``: the kernel takes short rests in float64."""
    limits = geometry.limits(e.dtype.name)
    eps, pure = limits.eps, limits.pure
    few = FEW[e.dtype.name] * eps
    p, o = (size(part) for part in parts(e, space.basis))
    # of the rest that is computed from the row's own precision: the row made unit, the axes
    # rounded, and a product subtracted for each
    noise = 0.0 if wide and e.dtype != np.float64 else (2 + space.rank) * eps
    assert (np.abs(size(u) - 1) <= few).all()
    leakage = size(u.astype(np.longdouble) @ space.basis)
    theory = geometry.leakage_and_loss(p.astype(np.float64), o.astype(np.float64), kappa)[0]
    # rounding the answer moves its leakage by eps / 2, and o, on which it depends, by a few eps
    follows, stays = np.abs(leakage - theory) <= few, np.abs(leakage - p) <= few
    assert follows[o > pure + noise].all()
    assert stays[o <= pure - noise].all()
    assert (follows | stays).all()
    away = size(u - exactly(e, space.basis, kappa))
    assert (away <= few + noise / o)[o > pure + noise].all()


@EVERY
def test_the_certificate_counts_rows_of_nothing_but_attribute(rng, kernel, dtype):
    """Also around the limit, where rounding decides: no row is called wrong that is not."""
    space = make_space(rng, 64, 4)
    limits = geometry.limits(dtype)
    o = limits.pure * np.concatenate([np.linspace(0.3, 3, 60), [0, 0, 0]])
    e = rows_of(rng, space, o).astype(dtype)
    u = kernel(e, space, kappa=np.inf)
    certificate = eq.certify(e, space, u=u, kappa=np.inf)
    few = FEW[dtype] * limits.eps
    assert certificate.totals.leakage_error <= few
    assert certificate.totals.length_error <= few
    stayed = int((certificate.leakage > 0.5).sum())
    assert certificate.summary()["pure_attribute"] == stayed
    o = size(parts(e, space.basis)[1])
    assert (o <= limits.pure / 2).sum() <= stayed <= (o <= limits.pure * 1.5).sum()
    assert (certificate + certificate).totals.pure_attribute == 2 * stayed
    ordinary = rows_at(rng, space, np.full(9, 0.3)).astype(dtype)
    assert eq.certify(ordinary, space).summary()["pure_attribute"] == 0
