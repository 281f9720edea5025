"""``eq.debias``: the theorems on arrays, and the contract of every argument."""

from __future__ import annotations

import itertools
import multiprocessing

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import equipoise as eq
from equipoise.errors import EquipoiseError, InputError, InvalidRowsError
from tests.helpers.common import exact, make_space, rows_at, unit

seeds = st.integers(0, 2**32 - 1)
kappas = st.one_of(st.floats(0, 1e6), st.sampled_from([0.0, 1.0, np.inf]))
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


@given(seeds, st.integers(2, 9), kappas, st.integers(1, 40))
def test_theorems_on_random_rows(seed, groups, kappa, dim_over_rank):
    """Unit norm, leakage and loss equal to their formulas, the same arc, and equality of normalised losses at kappa = 1."""
    rng = np.random.default_rng(seed)
    space = make_space(rng, groups + dim_over_rank, groups)
    e = rng.standard_normal((20, space.dim)) * rng.uniform(0.1, 10, (20, 1))
    u = eq.debias(e, space, kappa=kappa)
    e = unit(e)
    p, o = eq.geometry.split(e, space.basis)
    leakage, loss = eq.geometry.leakage_and_loss(p, o, kappa)
    assert np.allclose(np.linalg.norm(u, axis=1), 1, atol=1e-14)
    assert np.allclose(np.linalg.norm(u @ space.basis, axis=1), leakage, atol=1e-14)
    assert np.allclose(((u - e) ** 2).sum(1) / 2, loss, atol=1e-14)
    inside = e @ space.basis  # the attribute part keeps its direction
    assert np.allclose(u @ space.basis * p[:, None], inside * leakage[:, None], atol=1e-14)


@given(seeds, kappas)
def test_orthogonal_invariance(seed, kappa):
    rng = np.random.default_rng(seed)
    prototypes, e = rng.standard_normal((3, 16)), rng.standard_normal((10, 16))
    turn = np.linalg.qr(rng.standard_normal((16, 16)))[0]
    plain, turned = (
        eq.debias(
            x, eq.AttributeSpace.from_prototypes(dict(zip("abc", p, strict=True))), kappa=kappa
        )
        for x, p in ((e, prototypes), (e @ turn, prototypes @ turn))
    )
    assert np.allclose(plain @ turn, turned, atol=1e-13)


def test_group_order_and_naming_do_not_matter(rng):
    prototypes = dict(zip("abcd", rng.standard_normal((4, 32)), strict=True))
    e = rng.standard_normal((50, 32))
    results = [
        eq.debias(e, eq.AttributeSpace.from_prototypes({g: prototypes[g] for g in order}))
        for order in itertools.permutations("abcd")
    ]
    assert max(np.abs(r - results[0]).max() for r in results) < 1e-14


def test_groups_become_equally_similar(rng):
    """At kappa = infinity exactly, and within the bound at any kappa, with intersections of attributes of different scale."""
    base, gender, age = rng.standard_normal((3, 64))
    prototypes = {f"{a}{b}": base + a * gender + 0.01 * b * age for a in (-1, 1) for b in (-1, 1)}
    space = eq.AttributeSpace.from_prototypes(prototypes)
    e = rng.standard_normal((100, 64))
    groups = unit(np.stack(list(prototypes.values())))
    scores = eq.debias(e, space, kappa=np.inf) @ groups.T
    assert np.ptp(scores, axis=1).max() < 1e-13
    u = eq.debias(e, space)
    leakage = np.linalg.norm(u @ space.basis, axis=1)
    assert (np.ptp(u @ groups.T, axis=1) <= space.group_gap_bound(leakage) + 1e-14).all()


def test_kappa_zero_is_exactly_the_identity(rng):
    space = make_space(rng)
    for dtype in ("float64", "float32", "float16", BFLOAT16):
        e = unit(rng.standard_normal((300, 64))).astype(dtype)
        assert np.array_equal(eq.debias(e, space, kappa=0), e)
        assert np.array_equal(eq.debias(e * 7, space, kappa=0, norm="keep"), e * 7)
        mixed = eq.debias(e, space, kappa=np.resize([0.0, 2.0], 300))
        assert np.array_equal(mixed[::2], e[::2])
        assert np.array_equal(mixed[1::2], eq.debias(e, space, kappa=2.0)[1::2])
    # as far from unit as float16 leaves it
    from_half = unit(rng.standard_normal((300, 64))).astype(np.float16).astype(np.float32)
    assert np.array_equal(eq.debias(from_half, space, kappa=0), from_half)
    e = rng.standard_normal((9, 64))  # not unit: the promise of unit rows stands
    assert np.allclose(eq.debias(e, space, kappa=0), unit(e), atol=1e-15)


def test_kappa_infinity_is_exactly_the_projection(rng):
    space = make_space(rng)
    e = unit(rng.standard_normal((300, 64)))
    u = eq.debias(e, space, kappa=np.inf)
    assert np.abs(u @ space.basis).max() < 1e-15
    assert np.allclose(u, unit(e - e @ space.basis @ space.basis.T), atol=1e-15)
    assert np.array_equal(u, eq.debias(e, space, weights=(1, 0)))


def test_idempotence_at_infinity_and_rows_without_attribute(rng):
    space = make_space(rng)
    neutral = eq.debias(rng.standard_normal((50, 64)), space, kappa=np.inf)
    assert np.allclose(eq.debias(neutral, space), neutral, atol=1e-15)  # case A


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", BFLOAT16])
def test_pure_attribute_rows_stay(rng, dtype):
    space = make_space(rng, groups=4)
    pure = unit(rng.standard_normal((200, space.rank)) @ space.basis.T).astype(dtype)
    u = eq.debias(pure, space, kappa=5.0).astype(np.float64)
    assert np.abs(u - unit(pure.astype(np.float64))).max() <= np.finfo(
        np.float64 if dtype == "float64" else np.float32
    ).eps + _unit_roundoff(dtype)


def _unit_roundoff(dtype) -> float:
    return float(ml_dtypes.finfo(dtype).eps) / 2


@pytest.mark.parametrize("kappa", [0.1, 1.0, 30.0, np.inf])
def test_float64_to_the_last_bits(rng, kappa):
    space = make_space(rng, 256, 5)
    e = rows_at(rng, space, rng.uniform(0.001, 0.95, 500))
    want = exact(e, space.basis, kappa).astype(np.float64)
    assert np.abs(eq.debias(e, space, kappa=kappa) - want).max() < 1e-15


@pytest.mark.parametrize("dtype", ["float16", BFLOAT16])
@pytest.mark.parametrize("kappa", [1.0, np.inf])
def test_half_width_is_correctly_rounded(rng, dtype, kappa):
    space = make_space(rng, 512, 4)
    e = rows_at(rng, space, rng.uniform(0.01, 0.9, 2000)).astype(dtype)
    u = eq.debias(e, space, kappa=kappa)
    want = exact(e.astype(np.float64), space.basis, kappa)
    rounded = want.astype(np.float64).astype(dtype)
    assert (u == rounded).mean() >= 0.995
    bits, wanted = (x.view(np.int16).astype(int) for x in (u, rounded))
    assert np.abs(bits - wanted)[bits != wanted].max(initial=0) <= 1  # one unit in the last place
    drift = np.linalg.norm(u.astype(np.float64), axis=1) - 1
    assert abs(drift.mean()) < 5 * drift.std() / np.sqrt(len(drift)) + 1e-7  # unbiased


def test_float32_shrink_on_rows(rng):
    """The factor on the attribute part, from p = 1e-7 to 0.9999, on an axis where float32 holds p exactly."""
    p = np.geomspace(1e-7, 0.9999, 5000).astype(np.float32)
    e = np.zeros((5000, 96), np.float32)
    e[:, 0], e[:, 50] = p, np.sqrt(1 - p.astype(np.float64) ** 2)
    axes = np.eye(96)
    space = eq.AttributeSpace.from_prototypes({"a": axes[1] + axes[0], "b": axes[1] - axes[0]})
    u = eq.debias(e, space).astype(np.float64)
    stored = unit(e.astype(np.float64))
    want = eq.geometry.half_angle(stored[:, 0] ** 2, stored[:, 50], 1.0, np.sqrt)[0]
    assert np.abs(u[:, 0] / stored[:, 0] / want - 1).max() <= 4e-7


@pytest.mark.parametrize(
    ("dtype", "lengths"),
    [
        ("float32", [1e-30, 1e30]),
        ("float64", [1e-200, 1e200]),
        (BFLOAT16, [1e-30, 1e30]),
        ("float16", [1e-4, 1e3]),
    ],
)
def test_rows_of_extreme_length(rng, dtype, lengths):
    space = make_space(rng, 128)
    e = unit(rng.standard_normal((200, 128)))
    for length in lengths:
        stored = (e * length).astype(dtype)
        u = eq.debias(stored, space).astype(np.float64)
        assert np.isfinite(u).all()
        assert np.abs(u - exact(stored, space.basis)).max() < 2 * _unit_roundoff(dtype)
        kept = eq.debias(stored, space, norm="keep").astype(np.float64)
        assert np.allclose(
            kept / length, u, rtol=4 * _unit_roundoff(dtype), atol=4 * _unit_roundoff(dtype)
        )


@given(seeds)
def test_never_nan_from_finite_rows(seed):
    rng = np.random.default_rng(seed)
    space = make_space(rng, 16)
    bits = rng.integers(0, 2**32, (200, 16), dtype=np.uint32).view(np.float32)
    rows = bits[np.isfinite(bits).all(1) & (bits != 0).any(1)]
    for kappa in (0.5, np.inf, "printed"):
        assert np.isfinite(eq.debias(rows, space, kappa=kappa)).all()


@pytest.mark.parametrize("shape", [(64,), (1, 64), (0, 64), (3, 4, 64), (2, 0, 64), (2, 3, 4, 64)])
def test_any_leading_shape(rng, shape):
    space = make_space(rng)
    e = rng.standard_normal(shape)
    u = eq.debias(e, space)
    assert u.shape == shape and u.dtype == e.dtype
    assert np.array_equal(u.reshape(-1, 64), eq.debias(e.reshape(-1, 64), space))


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", BFLOAT16])
def test_strides_byte_order_and_read_only(rng, dtype):
    space = make_space(rng)
    wide = rng.standard_normal((40, 128)).astype(dtype)
    for view in (
        wide[:, ::2],
        wide[::3, :64],
        wide[::-1, 64:],
        np.asfortranarray(wide[:, :64]),
        wide.reshape(5, 8, 128)[::2, :, ::2],
        wide[:, ::2][:, ::-1],
    ):
        before = view.copy()
        assert np.array_equal(eq.debias(view, space), eq.debias(np.ascontiguousarray(view), space))
        assert np.array_equal(view, before)
    fixed = wide[:, :64].copy()
    fixed.flags.writeable = False
    assert np.array_equal(eq.debias(fixed, space), eq.debias(fixed.copy(), space))
    if dtype != BFLOAT16:
        swapped = fixed.astype(fixed.dtype.newbyteorder())
        assert np.array_equal(eq.debias(swapped, space), eq.debias(fixed, space))
        assert eq.debias(swapped, space).dtype == swapped.dtype


def test_out_in_place_and_strided_out(rng):
    space = make_space(rng)
    e = rng.standard_normal((50, 64)).astype(np.float32)
    want = eq.debias(e, space)
    out = np.full((50, 64), np.nan, np.float32)
    assert eq.debias(e, space, out=out) is out
    assert np.array_equal(out, want)
    strided = np.full((50, 128), np.nan, np.float32)[:, ::2]
    assert np.array_equal(eq.debias(e, space, out=strided), want)
    deep = np.full((5, 10, 128), np.nan, np.float32)[:, :, ::2]
    assert np.array_equal(eq.debias(e.reshape(5, 10, 64), space, out=deep), want.reshape(5, 10, 64))
    work = e.copy()
    assert eq.debias(work, space, out=work) is work
    assert np.array_equal(work, want)


def test_memory_map_in_and_out(rng, tmp_path):
    space = make_space(rng)
    e = rng.standard_normal((5000, 64)).astype(np.float16)
    np.save(tmp_path / "in.npy", e)
    source = np.load(tmp_path / "in.npy", mmap_mode="r")
    target = np.lib.format.open_memmap(tmp_path / "out.npy", "w+", e.dtype, e.shape)
    assert eq.debias(source, space, out=target) is target
    target.flush()
    assert np.array_equal(np.load(tmp_path / "out.npy"), eq.debias(e, space))
    assert np.array_equal(np.load(tmp_path / "in.npy"), e)


def test_large_arrays_are_threaded_and_agree_with_their_rows(rng, monkeypatch):
    space = make_space(rng, 256)
    e = rng.standard_normal((5003, 256), dtype=np.float32)
    want = np.concatenate([eq.debias(e[i : i + 7], space) for i in range(0, len(e), 7)])
    for threads in ("1", "2", "5"):
        monkeypatch.setenv("EQUIPOISE_THREADS", threads)
        assert np.array_equal(eq.debias(e, space), want)
    monkeypatch.setenv("EQUIPOISE_THREADS", "many")
    with pytest.raises(InputError, match="EQUIPOISE_THREADS"):
        eq.debias(e, space)


def _in_child(space, e, queue):
    queue.put(eq.debias(e, space))


def test_works_in_a_forked_child(rng):
    """A process that has used the threads forks, as a data loader does."""
    space = make_space(rng, 256)
    e = rng.standard_normal((5000, 256), dtype=np.float32)
    want = eq.debias(e, space)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_in_child, args=(space, e, queue))
    child.start()
    assert np.array_equal(queue.get(timeout=60), want)
    child.join()


# --- Preferences ---


def test_kappa_array_and_forms(rng):
    space = make_space(rng)
    e = rng.standard_normal((6, 5, 64))
    kappa = rng.uniform(0.1, 5, (6, 5))
    u = eq.debias(e, space, kappa=kappa)
    for i, j in np.ndindex(6, 5):
        assert np.allclose(u[i, j], eq.debias(e[i, j], space, kappa=kappa[i, j]), atol=1e-15)
    assert np.array_equal(
        eq.debias(e, space, kappa=kappa[:, :1]),
        eq.debias(e, space, kappa=np.broadcast_to(kappa[:, :1], (6, 5))),
    )
    assert np.array_equal(eq.debias(e, space.with_kappa(3.0)), eq.debias(e, space, kappa=3.0))
    p, o = eq.geometry.split(e, space.basis)
    assert np.allclose(
        eq.debias(e, space, kappa="printed"), eq.debias(e, space, kappa=(1 + o) / p), atol=1e-14
    )
    w = eq.debias(e, space, weights=(0.05, 0.95))
    tangent = np.maximum(0, p - 0.05 / 0.95) / o
    assert np.allclose(
        np.linalg.norm(w @ space.basis, axis=-1), tangent / np.sqrt(1 + tangent**2), atol=1e-14
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kappa": -1}, "kappa=-1"),
        ({"kappa": float("nan")}, "kappa=nan"),
        ({"kappa": "paper"}, "printed"),
        ({"kappa": np.ones(7)}, "does not fit"),
        ({"kappa": -np.ones(5)}, "negative"),
        ({"kappa": object()}, "not legal"),
        ({"kappa": np.array(["x"] * 5)}, "not legal"),
        ({"kappa": 1j}, "not legal"),
        ({"kappa": 10**400}, "not legal"),
        ({"weights": (-1, 2)}, "weights"),
        ({"weights": (10**400, 1)}, "weights"),
        ({"weights": (np.inf, 1)}, "finite"),
        ({"weights": (0, 0)}, "weights"),
        ({"weights": 3}, "two numbers"),
        ({"weights": (1, 1), "kappa": 1.0}, "both"),
        ({"norm": "l1"}, '"unit" or "keep"'),
        ({"on_invalid": "ignore"}, '"unchecked"'),
        ({"out": np.empty((4, 64))}, "shape"),
        ({"out": np.empty((5, 64), np.float32)}, "float32"),
        ({"out": [1]}, "out is of type list"),
        ({"out": "u.npy"}, "open_memmap"),
    ],
)
def test_bad_arguments(rng, options, message):
    with pytest.raises(InputError, match=message):
        eq.debias(rng.standard_normal((5, 64)), make_space(rng), **options)


@pytest.mark.parametrize(
    ("e", "message"),
    [
        (np.ones((3, 32)), "32 wide .* 64 wide"),
        (np.float64(3), "numpy array"),
        (np.ones(()), "single number"),
        (np.ones((3, 64), int), "dtype int64"),
        (np.ones((3, 64), complex), "dtype complex128"),
        ([[1.0] * 64], "list"),
        (np.ones((64, 3)), "transpose"),
    ],
)
def test_bad_embeddings(rng, e, message):
    with pytest.raises(InputError, match=message):
        eq.debias(e, make_space(rng))


def test_bad_space(rng):
    space, e = make_space(rng), np.ones((3, 64))
    with pytest.raises(InputError, match=r"type str; .*AttributeSpace.load"):
        eq.debias(e, "gender.safetensors")
    with pytest.raises(InputError, match="embeddings come first"):
        eq.debias(space, e)


def test_read_only_and_overlapping_out(rng):
    space = make_space(rng)
    e = rng.standard_normal((6, 64))
    fixed = np.empty_like(e)
    fixed.flags.writeable = False
    with pytest.raises(InputError, match="read-only"):
        eq.debias(e, space, out=fixed)
    with pytest.raises(InputError, match="overlaps"):
        eq.debias(e[:-1], space, out=e[1:])


@pytest.mark.parametrize(
    "shared",
    [
        lambda memory: np.lib.stride_tricks.as_strided(
            memory, (6, 64), (8, 8)
        ),  # row i + 1 begins in row i
        lambda memory: np.lib.stride_tricks.as_strided(
            memory, (6, 64), (0, 8)
        ),  # one row, six times
        lambda memory: np.lib.stride_tricks.as_strided(
            memory, (6, 64), (8 * 63, 8)
        ),  # one entry shared
    ],
    ids=["sliding", "repeated", "one entry"],
)
def test_out_that_overlaps_itself_is_refused(rng, shared):
    memory = np.zeros(6 * 64)
    with pytest.raises(InputError, match="more than once"):
        eq.debias(rng.standard_normal((6, 64)), make_space(rng), out=shared(memory))
    assert not memory.any()


@pytest.mark.parametrize(
    "own",
    [
        lambda: np.zeros((6, 64)),
        lambda: np.zeros((64, 6)).T,
        lambda: np.zeros((12, 128))[::2, ::2],
        lambda: np.zeros((6, 64))[::-1, ::-1],
        lambda: np.zeros(6, [("id", "i1"), ("row", "f8", 64)])["row"],
    ],
    ids=["plain", "transposed", "every other", "backwards", "field of a record"],
)
def test_out_with_memory_of_its_own_is_taken(rng, own):
    e, space, out = rng.standard_normal((6, 64)), make_space(rng), own()
    assert eq.debias(e, space, out=out) is out
    assert np.array_equal(out, eq.debias(e, space))


def test_weights_of_any_size(rng):
    space = make_space(rng)
    e = rng.standard_normal((20, 64))
    projection = eq.debias(e, space, kappa=np.inf)
    for weights in ((1e300, 1e-300), (1e308, 1e308), (1, 1), (3, 2)):
        assert np.array_equal(eq.debias(e, space, weights=weights), projection)
    assert np.allclose(eq.debias(e, space, weights=(1e-300, 1e300)), unit(e), atol=1e-15)


def test_keep_where_only_the_length_overflows(rng):
    space = make_space(rng, 16)
    e = np.sign(rng.standard_normal((5, 16))) * 6e307
    kept = eq.debias(e, space, norm="keep")
    assert np.isfinite(kept).all()
    assert np.allclose(kept / 6e307, eq.debias(e, space) * 4, rtol=1e-14)


def test_columns_of_one_array_side_by_side(rng):
    space = make_space(rng)
    both = rng.standard_normal((30, 128))
    want = eq.debias(both[:, :64].copy(), space)
    assert np.array_equal(eq.debias(both[:, :64], space, out=both[:, 64:]), want)


def test_masked_arrays_are_refused(rng):
    with pytest.raises(InputError, match="masked"):
        eq.debias(np.ma.masked_invalid(np.ones((3, 64))), make_space(rng))


# --- Rows without a direction ---


def spoilt(rng, dtype="float32"):
    e = rng.standard_normal((1000, 64)).astype(dtype)
    e[3], e[500, 7], e[999, 0] = 0, np.nan, np.inf
    return e


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", BFLOAT16])
def test_invalid_rows_are_named_or_kept(rng, dtype):
    space, e = make_space(rng), spoilt(rng, dtype)
    with pytest.raises(InvalidRowsError, match=r"3 of 1000 rows .* 3, 500, 999.*keep") as caught:
        eq.debias(e, space)
    assert caught.value.rows == (3, 500, 999) and caught.value.count == 3
    for mode in ("keep", "unchecked"):
        u = eq.debias(e, space, on_invalid=mode)
        assert np.array_equal(u[[3, 500, 999]].view(np.uint8), e[[3, 500, 999]].view(np.uint8))
        good = np.delete(np.arange(1000), [3, 500, 999])
        assert np.array_equal(u[good], eq.debias(e[good], space))
    with pytest.raises(InvalidRowsError, match=r"\(3, 3\)"):
        eq.debias(np.resize(spoilt(rng)[:4], (4, 4, 64)), space)
    with pytest.raises(InvalidRowsError, match="the embedding has"):
        eq.debias(np.zeros(64), space)


def test_an_error_in_place_loses_nothing(rng):
    space, e = make_space(rng), spoilt(rng)
    before = e.copy()
    with pytest.raises(InvalidRowsError):
        eq.debias(e, space, out=e)
    assert np.array_equal(e.view(np.uint32), before.view(np.uint32))


def test_one_family_of_errors():
    assert issubclass(InputError, EquipoiseError) and issubclass(InputError, ValueError)
