"""Certificates: equal to their formulas, true to what was stored, mergeable; the cross bound never exceeded."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import equipoise as eq
from equipoise._certificate import Totals
from equipoise.errors import InputError
from tests.helpers.common import component, make_space, rows_at, shared_data, unit


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"kappa": 0.3},
        {"kappa": np.inf},
        {"kappa": 0},
        {"kappa": "printed"},
        {"weights": (0.1, 0.9)},
    ],
    ids=str,
)
def test_measured_on_what_was_produced(rng, dtype, options):
    space = make_space(rng, 128, 4)
    e = rows_at(rng, space, rng.uniform(0, 0.9, 200)).astype(dtype)
    u = eq.debias(e, space, **options)
    c = eq.certify(e, space, **options)
    wide, out = unit(e.astype(np.float64)), unit(u.astype(np.float64))
    assert np.allclose(c.leakage_before, np.linalg.norm(wide @ space.basis, axis=1), atol=1e-14)
    assert np.allclose(c.leakage, np.linalg.norm(out @ space.basis, axis=1), atol=1e-14)
    assert np.allclose(c.self_loss, ((out - wide) ** 2).sum(1) / 2, atol=1e-14)
    assert (c.self_loss >= 0).all()
    eps = float(np.finfo(dtype).eps)
    assert c.totals.leakage_error <= 2 * eps and c.totals.self_loss_error <= 2 * eps
    assert c.totals.length_error <= 4 * eps  # measuring rounds too
    given_u = eq.certify(e, space, u=u, **options)
    assert np.array_equal(given_u.leakage, c.leakage)
    summary = c.summary()
    json.dumps(summary)
    assert (
        summary["n"] == 200
        and summary["invalid"] == 0
        and summary["dtype"] == dtype
        and summary["kernel"] == "numba"
    )
    assert "bare array" in summary["embeddings_encoder"]
    assert np.isclose(summary["leakage"]["mean"], c.leakage.mean())
    assert c.leakage.max() == summary["leakage"]["max"]
    assert summary["leakage"]["p95"] == np.quantile(c.leakage, 0.95)
    binned = c.totals.summary()["leakage"]["p95"]
    assert np.quantile(c.leakage, 0.95) <= binned + 1e-12
    assert binned <= max(1.05 * np.quantile(c.leakage, 0.96), 1e-9)


def test_a_wrong_result_shows(rng):
    space = make_space(rng, 64)
    e = unit(rng.standard_normal((50, 64)))
    assert eq.certify(e, space, u=e).totals.leakage_error > 0.01
    with pytest.raises(InputError, match="same rows"):
        eq.certify(e, space, u=e[:-1])
    assert "u was given" in eq.certify(e, space, u=e).summary()["kernel"]


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
@pytest.mark.parametrize("kappa", [0.0, 1.0, 100.0])
def test_the_gap_of_stored_rows_is_within_its_bound(rng, dtype, kappa):
    """With two groups the bound is reached, so that a stored row a little longer than 1 must be counted in."""
    space = make_space(rng, 32, 2)
    rows = rng.standard_normal((3000, 32)).astype(dtype)
    for e in (
        rows,
        rows / np.linalg.norm(rows.astype(np.float64), axis=1, keepdims=True).astype(dtype),
    ):
        u = eq.debias(e, space, kappa=kappa)
        gap = np.ptp(u.astype(np.float64) @ space.parts[0].prototypes.T, axis=1).max()
        assert gap <= eq.certify(e, space, u=u, kappa=kappa).summary()["group_gap_bound"] + 1e-15


def test_rows_of_any_length_are_certified_without_a_warning(rng):
    space = make_space(rng, 32, 2)
    e = rng.standard_normal((4, 32)) * np.array([[1e-310], [1e-200], [1e200], [1]])
    assert eq.certify(e, space).totals.length_error < 1e-15


def test_cross_bound_wants_certificates(rng):
    space = make_space(rng, 64)
    e = rng.standard_normal((5, 64))
    with pytest.raises(InputError, match="certify"):
        eq.cross_bound(e, e)
    with pytest.raises(InputError, match="one shape"):
        eq.cross_bound(eq.certify(e, space), eq.certify(e[:3], space), paired=True)
    assert repr(eq.certify(e, space)).startswith(
        "Certificate(n=5, invalid=0, kappa=1.0, means: leakage_before 0."
    )


def test_invalid_rows_are_counted(rng):
    space = make_space(rng, 64)
    e = rng.standard_normal((50, 64))
    e[3], e[7, 0] = 0, np.nan
    c = eq.certify(e, space)
    assert c.summary()["n"] == 48 and c.summary()["invalid"] == 2
    assert np.isnan(c.leakage[[3, 7]]).all() and np.isfinite(np.delete(c.leakage, [3, 7])).all()
    assert eq.certify(np.zeros((0, 64)), space).summary()["n"] == 0


def test_shards_merge_to_the_whole(rng):
    space = make_space(rng, 64)
    e = rng.standard_normal((1000, 64)).astype(np.float32)
    e[5] = 0
    whole = eq.certify(e, space)
    shards = [eq.certify(part, space) for part in np.array_split(e, 7)]
    merged = sum(
        (Totals.from_json(json.loads(json.dumps(s.totals.to_json()))) for s in shards), Totals()
    )
    for key, value in whole.totals.summary().items():
        other = merged.summary()[key]
        assert other == (
            value if isinstance(value, str) else pytest.approx(value, rel=1e-12, abs=1e-15)
        )
    both = shards[0] + shards[1]
    assert np.allclose(both.leakage, whole.leakage[: len(both.leakage)], rtol=1e-14, equal_nan=True)
    with pytest.raises(InputError, match="kappa"):
        whole.totals + eq.certify(e, space, kappa=2.0).totals


@given(
    st.integers(0, 2**32 - 1), st.floats(0, 50), st.sampled_from(["float64", "float32", "float16"])
)
def test_cross_bound_holds_on_random_pairs(seed, kappa, dtype):
    rng = np.random.default_rng(seed)
    space = make_space(rng, 8, 3)
    check_cross_bound(
        rng.standard_normal((12, 8)).astype(dtype),
        rng.standard_normal((15, 8)).astype(dtype),
        space,
        kappa,
    )


def check_cross_bound(images, texts, space, kappa):
    c_image, c_text = (eq.certify(x, space, kappa=kappa) for x in (images, texts))
    before = unit(images.astype(np.float64)) @ unit(texts.astype(np.float64)).T
    after = (
        np.float64(eq.debias(images, space, kappa=kappa))
        @ np.float64(eq.debias(texts, space, kappa=kappa)).T
    )
    bound = eq.cross_bound(c_image, c_text)
    assert bound.shape == before.shape
    assert (np.abs(after - before) <= bound + 1e-14).all()
    looser = np.sqrt(2 * c_image.self_loss)[:, None] + np.sqrt(
        2 * c_text.self_loss
    )  # Proposition 1
    lengths = (1 + c_image.length_error)[:, None] * (1 + c_text.length_error) - 1
    assert (bound <= looser + lengths + 1e-15).all()
    n = min(bound.shape)
    paired = eq.cross_bound(
        *(eq.certify(x[:n], space, kappa=kappa) for x in (images, texts)), paired=True
    )
    assert np.allclose(paired, np.diagonal(bound), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize(
    "name", ["celeba1000_clip_vitb32.npz", "flickr8k_train1000_clip_vitb32.npz"]
)
def test_cross_bound_holds_on_real_clip_pairs(name):
    images = np.load(shared_data(f"embeddings/{name}"))["image"]
    table = np.load(shared_data("embeddings/text_clip_vitb32_objects.npz"))
    texts = dict(zip(table["prompt"].tolist(), table["text"], strict=True))
    space = eq.AttributeSpace.from_prototypes(
        {
            "male": np.stack([texts["a Man"], texts["a Boy"]]),
            "female": np.stack([texts["a Woman"], texts["a Girl"]]),
        },
        attribute="gender",
    )
    for kappa in (0.3, 1.0, np.inf):
        check_cross_bound(images, table["text"], space, kappa)
    c = eq.certify(images, space)
    assert (c.leakage < c.leakage_before / 2 + 2**-10).all()


def test_frontier_runs_from_identity_to_projection(rng):
    space = make_space(rng, 64)
    e = rng.standard_normal((100, 64))
    front = eq.frontier(e, space)
    assert front.n == 100 and front.kappa[0] == 0 and np.isinf(front.kappa[-1])
    assert (np.diff(front.leakage) < 0).all() and (np.diff(front.self_loss) > 0).all()
    c = eq.certify(e, space)
    one = eq.frontier(e, space, [1.0])
    assert np.isclose(one.leakage[0], c.leakage.mean(), rtol=1e-12) and np.isclose(
        one.self_loss[0], c.self_loss.mean(), rtol=1e-12
    )
    assert front.self_loss[0] < 1e-30 and front.leakage[-1] == 0
    with pytest.raises(InputError, match="kappas"):
        eq.frontier(e, space, [-1.0])
    with pytest.raises(InputError, match="kappas"):
        eq.frontier(e, space, ["a"])


def test_any_framework_and_shape(rng):
    space = make_space(rng, 64)
    e = rng.standard_normal((4, 5, 64)).astype(np.float32)
    want = eq.certify(e, space)
    assert want.leakage.shape == (4, 5)
    torch, jax = component("torch"), component("jax")
    for array in (torch.tensor(e), torch.tensor(e, requires_grad=True), jax.numpy.asarray(e)):
        assert np.allclose(eq.certify(array, space).leakage, want.leakage, atol=2e-7)
    single = eq.certify(e[0, 0], space)
    assert single.leakage.shape == ()
    assert eq.cross_bound(single, want).shape == (4, 5)
    assert np.isfinite(eq.certify(torch.tensor(e).bfloat16(), space).leakage).all()


def test_a_corrupted_result_is_counted(rng):
    space = make_space(rng, 64)
    e = rng.standard_normal((50, 64))
    u = eq.debias(e, space)
    u[4], u[9] = 0, np.nan
    c = eq.certify(e, space, u=u)
    assert c.summary()["invalid"] == 2 and c.summary()["n"] == 48
    assert np.isfinite(c.summary()["leakage"]["max"])


def test_certificates_of_two_spaces_do_not_merge(rng):
    e = rng.standard_normal((5, 64))
    with pytest.raises(InputError, match="space"):
        eq.certify(e, make_space(rng, 64)) + eq.certify(e, make_space(rng, 64))


def test_pure_attribute_rows_are_certified_and_drawn_as_they_are(rng):
    space = make_space(rng, 64)
    e = space.basis[:, :1].T
    assert np.allclose(eq.frontier(e, space, [1.0, np.inf]).leakage, 1)
    assert eq.certify(e, space).totals.leakage_error < 1e-14
    near = unit(e + 5e-4 * unit(rng.standard_normal((1, 64)))).astype(
        np.float32
    )  # pure for float16, not for float32
    assert (
        eq.certify(near, space, u=eq.debias(near, space).astype(np.float16)).totals.leakage_error
        < 2e-3
    )
