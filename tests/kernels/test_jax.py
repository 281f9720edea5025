"""jax arrays: inside jit, grad and vmap."""

from __future__ import annotations

import numpy as np
import pytest

import equipoise as eq
from equipoise.errors import InputError, InvalidRowsError
from tests.helpers.common import component, make_space
from tests.helpers.kernels import in_float64

jax = component("jax")
jnp = jax.numpy


@pytest.fixture
def space(rng):
    return make_space(rng, 24, 4)


def test_jit_compiles_once_for_changing_content(rng, space):
    traces = []

    @jax.jit
    def run(x):
        traces.append(x.shape)
        return eq.debias(x, space, on_invalid="unchecked")

    for _ in range(4):
        e = rng.standard_normal((7, 24)).astype(np.float32)
        assert np.allclose(run(jnp.asarray(e)), eq.debias(e, space), atol=3e-7)
    assert traces == [(7, 24)]
    assert run._cache_size() == 1


@pytest.mark.parametrize("kappa", [0.0, 0.4, 1.0, float("inf"), "printed"])
def test_gradients_agree_with_differences(rng, space, kappa):
    from jax.test_util import check_grads

    with in_float64(True):
        e = jnp.asarray(rng.standard_normal((3, 24)))
        check_grads(
            lambda x: eq.debias(x, space, kappa=kappa, on_invalid="unchecked"), (e,), order=1
        )


def test_vmap_and_traced_kappa(rng, space):
    e = jnp.asarray(rng.standard_normal((5, 3, 24)), jnp.float32)
    run = lambda x, k: eq.debias(x, space, kappa=k, on_invalid="unchecked")  # noqa: E731
    kappa = jnp.linspace(0.0, 4.0, 5)
    mapped = jax.jit(jax.vmap(run))(e, jnp.broadcast_to(kappa[:, None], (5, 3)))
    for i in range(5):
        assert np.allclose(mapped[i], run(e[i], float(kappa[i])), atol=1e-6)


def test_one_kappa_for_all_rows_may_be_traced(rng, space):
    e = jnp.asarray(rng.standard_normal((3, 24)), jnp.float32)
    run = lambda k: eq.debias(e, space, kappa=k, on_invalid="unchecked")  # noqa: E731
    assert np.allclose(jax.jit(run)(2.0), run(2.0), atol=1e-6)
    for kappa in (2.0, jnp.full(3, 2.0)):
        kept = jax.jit(lambda k: eq.debias(e, space, kappa=k, on_invalid="keep"))(
            kappa
        )  # cannot look at kappa's sign either
        assert np.allclose(kept, run(2.0), atol=1e-6)
    slope = jax.grad(lambda k: run(k)[0, 0])(0.8)
    assert np.isclose(slope, (run(0.81)[0, 0] - run(0.79)[0, 0]) / 0.02, rtol=1e-2)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_dtypes(rng, space, dtype):
    e = jnp.asarray(rng.standard_normal((50, 24)), dtype)
    u = eq.debias(e, space)
    assert u.dtype == e.dtype and isinstance(u, jax.Array)
    want = eq.debias(np.asarray(e, np.float64), space)
    assert np.abs(np.asarray(u, np.float64) - want).max() <= float(jnp.finfo(dtype).eps)


def test_invalid_rows(rng, space):
    e = rng.standard_normal((6, 24)).astype(np.float32)
    e[2], e[4, 0] = 0, np.nan
    with pytest.raises(InvalidRowsError, match="2 of 6 rows"):
        eq.debias(jnp.asarray(e), space)
    for run in (
        eq.debias,
        jax.jit(
            lambda x, _, on_invalid: eq.debias(x, space, on_invalid=on_invalid),
            static_argnames=("on_invalid", "_"),
        ),
    ):
        kept = run(jnp.asarray(e), space, on_invalid="keep")
        assert (
            np.array_equal(kept[2], e[2])
            and np.isnan(kept[4, 0])
            and np.isfinite(np.delete(kept, 4, 0)).all()
        )


def test_gradients_with_weights_and_around_bad_rows(rng, space):
    e = rng.standard_normal((6, 24)).astype(np.float32)
    e[2], e[4, 0] = 0, np.nan
    for options in ({"weights": (1, 1)}, {"weights": (0.2, 0.8)}, {}):
        gradient = jax.grad(
            lambda x, o=options: eq.debias(x, space, on_invalid="keep", **o)[
                jnp.array([0, 1, 3, 5])
            ].sum()
        )(jnp.asarray(e))
        assert jnp.isfinite(gradient).all()


def test_errors(rng, space):
    e = jnp.ones((2, 24))
    with pytest.raises(InputError, match="unchecked"):
        jax.jit(lambda x: eq.debias(x, space))(e)
    with pytest.raises(InputError, match="out="):
        eq.debias(e, space, out=e)
