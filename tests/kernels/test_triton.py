"""The CUDA kernels in Triton's interpreter: float32 rows and float16 tiles. bfloat16 needs a GPU: scripts/check_gpu.py."""

from __future__ import annotations

import contextlib
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest

import equipoise as eq
from equipoise.errors import InputError, InvalidRowsError
from equipoise.kernels import without_direction
from equipoise.kernels._recipe import PROJECT, LowRank, Preference, launch_key, preference
from tests.helpers.common import component, exact, make_space, rows_at, unit

torch = component("torch")
if torch.cuda.is_available():
    pytest.skip("there is a GPU: run scripts/check_gpu.py", allow_module_level=True)
triton = component("triton")
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402 - they need torch and triton
from torch.autograd import forward_ad  # noqa: E402

from equipoise.kernels import _torch, _triton, _triton_best  # noqa: E402


@pytest.fixture(autouse=True)
def _quiet_interpreter():
    with warnings.catch_warnings():  # it divides by zero in numpy where the GPU would in silence
        warnings.simplefilter("ignore")
        yield


def run(e, low_rank, wanted=None, norm="unit", dtype=torch.float32):
    x = torch.as_tensor(e, dtype=dtype)
    out = torch.full_like(x, float("nan"))
    invalid = torch.zeros(1, dtype=torch.int32)
    _triton.debias(x, out, low_rank, wanted or Preference("kappa", 1.0), norm, invalid)
    return out, int(invalid)


def same_bits(a, b):
    return a.numpy().tobytes() == b.numpy().tobytes()


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
        u, invalid = run(3 * e, space.low_rank, wanted, norm)
        want = eq.debias(3 * e.astype(np.float64), space, norm=norm, **options)
        assert (
            np.abs(u.numpy() - want).max() < 1e-6 * np.abs(want).max()
        )  # eight units; p = 0.99 divides by o = 0.14
        assert invalid == 0


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
    u, invalid = run(e, space.low_rank)
    assert invalid == 3
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
    u, invalid = run(e, space.low_rank, dtype=torch.float16)
    assert invalid == 2
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
    u, invalid = run(e, space.low_rank, dtype=torch.float16)
    assert invalid == 1
    good = np.delete(np.arange(len(e)), 7)
    want = exact(e[good].astype(np.float64), space.basis).astype(np.float16)
    assert (u.numpy()[good] == want).mean() > 0.995


def test_extreme_lengths_are_kept(rng):
    space = make_space(rng, 64, 3)
    e = unit(rng.standard_normal((4, 64)))
    lengths = np.array([[1e-30], [1e-14], [1e14], [1e30]])
    u, invalid = run(np.float32(e * lengths), space.low_rank, norm="keep")
    assert invalid == 0
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


WANTED = [
    (Preference("kappa", 1.0), "unit"),
    (Preference("kappa", 0.3), "keep"),
    (Preference("kappa", 0.0), "unit"),
    (PROJECT, "raw"),
    (Preference("printed"), "unit"),
    (Preference("weights", 0.3), "unit"),
]
SHARES = [0, 0.2, 0.49, 0.51, 0.7, 0.72, 0.86, 0.88, 0.96, 0.975, 0.9999, 1]  # about every bound
ROWS_OF_TILES = 67  # more than one tile, and no whole number of them
ROWS = 23


def every_kind_of_row(rng, space, dtype, count):
    """Rows about every bound of both kernels, and at last three that have no direction."""
    e = rows_at(rng, space, np.resize(SHARES, count)) * np.resize([1, 0.5, 3], (count, 1))
    if dtype == torch.float32:
        e *= np.resize([1, 1, 1, 1e-30, 1e30], (count, 1))
    tensor = torch.as_tensor(e).to(dtype)
    tensor[-3], tensor[-2, 3], tensor[-1, 0] = 0, np.nan, np.inf
    return tensor


@pytest.fixture
def matrix_unit(monkeypatch):
    """Add up in one order, as a matrix unit does. The interpreter's product is that of numpy, in
    which the last bit of a row depends on where it stands.
    """
    from triton.runtime import interpreter

    def product(_, a, b, d, *__):
        terms = a.data.astype(np.float32)[:, :, None] * b.data.astype(np.float32)[None]
        return interpreter.TensorHandle(d.data + terms.sum(1), d.dtype.scalar)

    monkeypatch.setattr(interpreter.InterpreterBuilder, "create_dot", product)


@pytest.mark.parametrize("wanted", WANTED, ids=lambda w: f"{w[0].kind} {w[0].value} {w[1]}")
@pytest.mark.parametrize(
    ("dtype", "dim", "rank"),
    [
        (torch.float32, 64, 1),
        (torch.float32, 100, 3),
        (torch.float32, 256, 7),
        (torch.float16, 64, 1),
        (torch.float16, 100, 3),
        (torch.float16, 128, 4),
        (torch.float16, 192, 7),
    ],
    ids=str,
)
def test_a_row_alone_equals_the_row_among_others(rng, matrix_unit, dtype, dim, rank, wanted):
    """Bit for bit: no row takes another path because of its neighbours, or where it stands."""
    space = make_space(rng, dim, rank + 1)
    tiles = _triton.uses_tiles(space.low_rank, dtype, wanted[1])
    x = every_kind_of_row(rng, space, dtype, ROWS_OF_TILES if tiles else ROWS)
    among, invalid = run(x, space.low_rank, *wanted, dtype)
    assert invalid == 3
    order = rng.permutation(len(x))
    elsewhere, _ = run(x[order], space.low_rank, *wanted, dtype)
    assert same_bits(elsewhere, among[order])
    for i in (0, 4, 9, 10, 11, len(x) - 1):
        alone, invalid = run(x[i : i + 1], space.low_rank, *wanted, dtype)
        assert invalid == (i == len(x) - 1)
        assert same_bits(alone, among[i : i + 1])


@pytest.mark.parametrize(
    ("dtype", "rank"), [(torch.float32, 3), (torch.float16, 3), (torch.float16, 5)]
)
def test_a_row_with_its_own_kappa_does_not_follow_its_neighbours(rng, matrix_unit, dtype, rank):
    space = make_space(rng, 64, rank + 1)
    x = every_kind_of_row(rng, space, dtype, ROWS_OF_TILES)
    kappas = torch.tensor(np.resize([0.0, 1.0, np.inf, 1.0, 0.3], len(x)), dtype=torch.float32)
    among, _ = run(x, space.low_rank, Preference("kappa", kappas), "unit", dtype)
    order = rng.permutation(len(x))
    elsewhere, _ = run(x[order], space.low_rank, Preference("kappa", kappas[order]), "unit", dtype)
    assert same_bits(elsewhere, among[order])


@pytest.mark.parametrize("rank", [2, 5])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_in_place_is_the_same(rng, matrix_unit, dtype, rank):
    """Ordinary rows are written before the others are read."""
    space = make_space(rng, 64, rank + 1)
    x = every_kind_of_row(rng, space, dtype, ROWS)
    apart, _ = run(x, space.low_rank, dtype=dtype)
    _triton.debias(x, x, space.low_rank, Preference("kappa", 1.0), "unit")  # and nobody counts
    assert same_bits(x, apart)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_what_is_counted_is_what_a_second_look_finds(rng, dtype):
    """Down to the smallest number, and up to the largest, of the type."""
    space, info = make_space(rng, 64, 3), torch.finfo(dtype)
    least = info.smallest_normal * info.eps
    values = [least, -least, info.smallest_normal, info.max, info.min, 0, -0.0, np.inf, np.nan]
    x = torch.zeros(len(values), 64, dtype=dtype)
    x[:, 5] = torch.tensor(values, dtype=torch.float64).to(dtype)
    assert x[0, 5] > 0
    _, invalid = run(x, space.low_rank, dtype=dtype)
    assert invalid == int(without_direction(x).sum()) == 4


def on_triton(monkeypatch):
    """Give the CPU's tensors to the CUDA kernels, as CUDA's own are."""
    monkeypatch.setattr(_torch, "_fused_kernel", lambda x: "triton")


@pytest.mark.parametrize("shape", [(9, 64), (3, 3, 64), (64,)], ids=str)
def test_debias_names_the_rows_that_the_kernel_counted(rng, monkeypatch, shape):
    on_triton(monkeypatch)
    space = make_space(rng, 64, 3)
    x = torch.tensor(rng.standard_normal(shape), dtype=torch.float32)
    good = eq.debias(x, space)
    assert good.shape == x.shape
    x.view(-1, 64)[-1] = 0
    with pytest.raises(InvalidRowsError, match="no direction") as caught:
        eq.debias(x, space)
    assert caught.value.count == 1
    assert caught.value.rows == {1: ((),), 2: (8,), 3: ((2, 2),)}[len(shape)]
    before = x.clone()
    with pytest.raises(InvalidRowsError):
        eq.debias(x, space, out=x)
    assert torch.equal(x, before)
    kept = eq.debias(x, space, on_invalid="keep")
    assert torch.equal(kept.view(-1, 64)[:-1], good.view(-1, 64)[:-1])
    assert not kept.view(-1, 64)[-1].any()


def test_only_who_asks_has_rows_counted(rng, monkeypatch):
    """ "keep" and "unchecked" give the kernel nowhere to count, and a check reads when it is asked."""
    on_triton(monkeypatch)
    given = []
    monkeypatch.setattr(_triton, "debias", lambda *arguments: given.append(arguments[-1]))
    space, x = make_space(rng, 64, 3), torch.ones(4, 64)
    for mode in ("keep", "unchecked"):
        eq.debias(x, space, on_invalid=mode)
    assert given == [None, None]
    check = eq.RowCheck()
    eq.debias(x, space, on_invalid=check)
    given[-1] += 2  # the kernel is done only now
    with pytest.raises(InvalidRowsError, match="2 of 4 rows in one call"):
        check.raise_if_invalid()


def test_a_launch_is_prepared_once(rng):
    space = make_space(rng, 64, 3)
    x = torch.tensor(rng.standard_normal((3, 64)), dtype=torch.float32)
    run(x, space.low_rank)
    key = launch_key(x, "kappa", "unit")
    made = space.low_rank.cached(key, lambda: pytest.fail("made again"))
    run(x, space.low_rank, PROJECT)  # another number, and the same kernel
    assert space.low_rank.cached(key, lambda: None) is made


@pytest.mark.parametrize(("dtype", "rank"), [(torch.float32, 2), (torch.float16, 5)], ids=str)
def test_the_default_device_has_no_part_in_it(rng, dtype, rank):
    space, x = make_space(rng, 64, rank + 1), torch.tensor(rng.standard_normal((3, 64))).to(dtype)
    out = torch.empty_like(x)
    with torch.device("meta"):
        _triton.debias(x, out, space.low_rank, Preference("kappa", 1.0), "unit")
    assert same_bits(out, run(x, space.low_rank, dtype=dtype)[0])


def usual_answer(x, space, **options):
    """Return what the short way of eq.debias answers, or None where it leaves a call alone."""
    given = {"kind": "kappa", "value": 1.0, "norm": "unit", "out": None, "counts": True} | options
    return _torch.usual(x, space.low_rank, **given)


CALLS = [
    {},
    {"kappa": 0.3},
    {"kappa": 2},
    {"kappa": 0},
    {"kappa": np.inf},
    {"kappa": 1e300},
    {"norm": "keep"},
    {"on_invalid": "keep"},
    {"on_invalid": "unchecked"},
]


@pytest.mark.parametrize("options", CALLS, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_the_second_call_is_shorter_and_gives_the_same_bits(rng, monkeypatch, dtype, options):
    on_triton(monkeypatch)
    wide = torch.tensor(rng.standard_normal((6, 96))).to(dtype)
    for x in (wide[:, :64], wide[:, 32:].contiguous(), wide[:4].view(2, 3, 64), wide[0, 7:71]):
        fresh = make_space(np.random.default_rng(0), 64, 3)
        assert usual_answer(x, fresh) is None
        first = eq.debias(x, fresh, **options)
        assert usual_answer(x, fresh, norm=options.get("norm", "unit")) is not None
        second = eq.debias(x, fresh, **options)
        out = torch.full_like(first, float("nan"))
        assert eq.debias(x, fresh, out=out, **options) is out
        assert same_bits(first, second) and same_bits(first, out)
        assert second.stride() == first.stride() and second.shape == x.shape


def as_subclass(x):
    class Mine(torch.Tensor):
        pass

    return x.as_subclass(Mine)


OTHERS = {
    "subclass": as_subclass,
    "parameter": torch.nn.Parameter,
    "gradient": lambda x: x.clone().requires_grad_(),
    "another dtype": lambda x: x.double(),
    "another width": lambda x: x[:, :32],
    "gaps in a row": lambda x: x.repeat_interleave(2, 1)[:, ::2],
    "three strided axes": lambda x: x.expand(2, *x.shape),
    "no axis": lambda x: x[0, 0],
    "negative view": torch._neg_view,
    "sparse": lambda x: x.to_sparse(),
    "numpy": lambda x: x.numpy(),
}


@pytest.mark.parametrize("other", OTHERS)
def test_whatever_is_not_usual_goes_the_long_way(rng, other):
    space, x = make_space(rng, 64, 3), torch.tensor(rng.standard_normal((4, 64)))
    x = x.float()
    run(x, space.low_rank)
    assert usual_answer(x, space) is not None
    assert usual_answer(OTHERS[other](x), space) is None


def test_what_a_transform_follows_goes_the_long_way(rng):
    space, x = make_space(rng, 64, 3), torch.ones(4, 64)
    run(x, space.low_rank)
    seen = []

    def look(rows):
        seen.append(usual_answer(rows, space))
        return rows

    torch.func.vmap(look)(x)
    torch.func.jvp(look, (x,), (x,))
    torch.func.grad(lambda rows: look(rows).sum())(x)
    with forward_ad.dual_level():
        look(forward_ad.make_dual(x, x))
    assert seen == [None] * 4
    assert usual_answer(x, space) is not None


@pytest.mark.parametrize("fused", ["triton", "numba", "torch"])
@pytest.mark.parametrize("transform", ["grad", "jvp", "vmap"])
def test_rows_beside_what_a_transform_follows(rng, monkeypatch, fused, transform):
    """Tensors that are made there are wrapped: no kernel writes to them, and no call keeps them."""
    if fused == "numba":
        component("numba")
    monkeypatch.setattr(_torch, "_fused_kernel", lambda x: fused)
    x, weight = torch.tensor(rng.standard_normal((2, 4, 64))).float()

    def weighted(weight):
        return (weight * eq.debias(x, space, on_invalid="keep")).sum()

    for calls_before in (0, 1):
        space = make_space(np.random.default_rng(0), 64, 3)
        for _ in range(calls_before):
            eq.debias(x, space)
        if transform == "grad":
            got = torch.func.grad(weighted)(weight)
        elif transform == "jvp":
            got = torch.func.jvp(weighted, (weight,), (weight,))[1]
        else:
            got = torch.func.vmap(weighted)(weight[None])[0]
        u = eq.debias(x, space)
        want = u if transform == "grad" else (weight * u).sum()
        assert torch.allclose(got, want, rtol=1e-5, atol=1e-5)


def test_rows_without_memory_leave_nothing_behind(rng, monkeypatch):
    on_triton(monkeypatch)
    space, x = make_space(rng, 64, 3), torch.tensor(rng.standard_normal((4, 64))).float()
    with FakeTensorMode() as mode, contextlib.suppress(RuntimeError, NotImplementedError):
        eq.debias(mode.from_tensor(x), space, on_invalid="keep")
    eq.debias(x, space)
    assert usual_answer(x, space) is not None


def test_inference_tensors_are_usual(rng, monkeypatch):
    on_triton(monkeypatch)
    space, x = make_space(rng, 64, 3), torch.tensor(rng.standard_normal((4, 64))).float()
    want = eq.debias(x, space)
    with torch.inference_mode():
        rows = x.clone()
        assert usual_answer(rows, space) is not None
        u = eq.debias(rows, space)
        assert u.is_inference() and same_bits(u.clone(), want)
    assert same_bits(eq.debias(rows, space), want)
    with pytest.raises(InputError, match="inference_mode"):
        eq.debias(x, space, out=rows)


def bad_calls(x):
    spoilt = x.clone()
    spoilt[1], spoilt[3, 5] = 0, np.nan
    strided = torch.empty(4, 128)[:, ::2]
    return [
        (x, {"kappa": -1}),
        (x, {"kappa": float("nan")}),
        (x, {"kappa": "paper"}),
        (x, {"kappa": True, "weights": (1, 1)}),
        (x, {"norm": "raw"}),
        (x, {"on_invalid": "drop"}),
        (x, {"out": x[:2]}),
        (x, {"out": x.double()}),
        (x, {"out": x.numpy()}),
        (x[:-1], {"out": x[1:]}),
        (x, {"out": torch.zeros(64).expand(4, 64)}),
        (x, {"out": torch.zeros(4, 64, requires_grad=True)}),
        (x[:, :32], {}),
        (x[0, 0], {}),
        (x.int(), {}),
        (x.to_sparse(), {}),
        (spoilt, {}),
        (spoilt, {"out": torch.empty(4, 64)}),
        (spoilt, {"out": strided}),
        (spoilt[1], {}),
        (spoilt.view(2, 2, 64), {}),
    ]


def test_errors_are_the_same_once_a_launch_is_ready(rng, monkeypatch):
    on_triton(monkeypatch)
    x = torch.tensor(rng.standard_normal((4, 64))).float()
    ready = make_space(np.random.default_rng(0), 64, 3)
    eq.debias(x, ready)
    assert usual_answer(x, ready) is not None
    for rows, options in bad_calls(x):
        fresh = make_space(np.random.default_rng(0), 64, 3)
        said = []
        for space in (fresh, ready):
            with pytest.raises(InputError) as caught:
                eq.debias(rows, space, **options)
            said.append((type(caught.value), str(caught.value)))
        assert said[0] == said[1]


def test_out_is_marked_as_written(rng, monkeypatch):
    on_triton(monkeypatch)
    space, x = make_space(rng, 64, 3), torch.tensor(rng.standard_normal((4, 64))).float()
    eq.debias(x, space)
    out = torch.ones(4, 64)
    assert usual_answer(x, space, out=out) is not None
    weight = torch.ones(4, 64, requires_grad=True)
    z = (weight * out).sum()
    eq.debias(x, space, out=out)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.backward()


def test_rows_in_place_go_the_long_way(rng):
    """They have to be looked at before they are overwritten."""
    space, x = make_space(rng, 64, 3), torch.ones(4, 64)
    run(x, space.low_rank)
    assert usual_answer(x, space, out=x) is None
    assert usual_answer(x[:2], space, out=x[1:3]) is None
    assert usual_answer(x[:2], space, out=x[2:]) is not None


def test_an_error_of_one_call_is_not_told_to_the_next(rng, monkeypatch):
    on_triton(monkeypatch)
    space = make_space(rng, 64, 3)
    good = torch.tensor(rng.standard_normal((6, 64))).float()
    bad = good.clone()
    bad[2], bad[4, 0] = 0, np.nan
    check = eq.RowCheck()
    for _ in range(3):
        for rows in (good, bad, good):
            eq.debias(rows, space, on_invalid=check)
        with pytest.raises(InvalidRowsError, match=r"2 of 6 rows .*first: 2, 4"):
            eq.debias(bad, space)
        eq.debias(good, space)
    with pytest.raises(InvalidRowsError, match=r"6 of 54 rows in 9 calls.* 2 of 6 in call 2"):
        check.raise_if_invalid()
    eq.debias(good, space)


class Interrupted:
    """A launch that Ctrl-C follows: its kernel runs later, on rows without a direction."""

    def is_here(self):
        return True

    def run(self, x, out, strides, n_rows, value, invalid):
        self.number = invalid
        raise KeyboardInterrupt


def test_a_kernel_that_was_interrupted_raises_nothing_later(rng, monkeypatch):
    on_triton(monkeypatch)
    space, x = make_space(rng, 64, 3), torch.tensor(rng.standard_normal((4, 64))).float()
    launch, key = Interrupted(), launch_key(x, "kappa", "unit")
    space.low_rank.cached(key, lambda: launch)
    with pytest.raises(KeyboardInterrupt):
        eq.debias(x, space)
    again = make_space(rng, 64, 3)
    for _ in range(10):
        launch.number += 1
        eq.debias(x[:1], again)


def specialisation(argument, specialises=True):
    """Return what Triton compiles apart for an argument, on CUDA."""
    from triton._C.libtriton import native_specialize_impl
    from triton.backends.nvidia.compiler import CUDABackend

    return native_specialize_impl(CUDABackend, argument, False, specialises, True)


def test_triton_compiles_apart_only_what_a_launch_tells_apart():
    """A launch keeps compiled kernels by strides, by None, and for rows at multiples of 16 bytes."""
    if not hasattr(triton._C.libtriton, "native_specialize_impl"):
        pytest.skip("this Triton says it elsewhere")
    memory = torch.zeros(1 << 12)
    at_16_bytes = [memory, memory[4:5], memory[64:].view(-1, 8)]
    assert len({specialisation(x) for x in at_16_bytes}) == 1
    assert specialisation(memory[1:]) != specialisation(memory)
    assert len({specialisation(value) for value in (0.0, 1.0, 0.3, 16.0, np.inf)}) == 1
    assert len({specialisation(n, False) for n in (1, 2, 16, 4096, (1 << 31) - 1)}) == 1
    assert specialisation(1 << 31, False) != specialisation(1, False)
    assert specialisation(512) == specialisation(512)


class Compiled(triton.compiler.CompiledKernel):
    """A compiled kernel that only notes what it is given."""

    def __init__(self):
        self.calls = []

    def __getitem__(self, grid):
        return lambda *arguments, stream: self.calls.append((grid, arguments, stream))


class Kernel:
    """A kernel of Triton's compiler: a launch returns what was compiled."""

    arg_names = _triton._rows_kernel.arg_names

    def __init__(self):
        self.compiled = []

    def __getitem__(self, grid):
        def launch(*arguments, **options):
            self.compiled.append(Compiled())
            return self.compiled[-1]

        return launch


class KernelOfOneThread(Kernel):
    """As Triton's are: it fails where another thread comes while it is loaded."""

    def __init__(self):
        super().__init__()
        self.loading = threading.Lock()

    def __getitem__(self, grid):
        def launch(*arguments, **options):
            assert self.loading.acquire(blocking=False), "this kernel is not yet loaded"
            time.sleep(0.01)
            self.loading.release()

        return launch


def test_threads_wait_for_each_other_where_triton_launches(compiling):
    launch, _ = compiling
    launch._kernel = KernelOfOneThread()
    x, out = torch.ones(9, 64), torch.empty(9, 64)
    with ThreadPoolExecutor(4) as pool:
        tasks = [pool.submit(launch.run, x, out, (64, 64), 9, 1.0, None) for _ in range(4)]
        tasks += [pool.submit(_triton_best._run, launch._kernel, (1,)) for _ in range(4)]
    for task in tasks:
        task.result()


STREAM = 7


@pytest.fixture
def compiling(rng, monkeypatch):
    """Return a launch whose kernel is compiled, and that kernel."""
    monkeypatch.setattr(_triton, "KEEPS_COMPILED", True)
    active = SimpleNamespace(get_current_stream=lambda device: STREAM)
    monkeypatch.setattr(_triton, "driver", SimpleNamespace(active=active))
    monkeypatch.setattr(_triton, "_rows_kernel", Kernel())
    low_rank = make_space(rng, 64, 3).low_rank
    made = _triton._launch(low_rank, torch.float32, torch.device("cpu"), "kappa", "unit", False)
    return made, _triton._rows_kernel


def test_a_compiled_kernel_is_given_each_argument_in_its_place(compiling):
    launch, kernel = compiling
    x, out, number = torch.ones(9, 64), torch.empty(9, 64), torch.zeros(1, dtype=torch.int32)
    for n_rows in (9, 5):
        launch.run(x, out, (64, 64), n_rows, 1e300, number)
    grid, arguments, stream = kernel.compiled[0].calls[0]
    given = dict(zip(kernel.arg_names, arguments, strict=True))
    assert len(kernel.compiled) == 1 and stream == STREAM
    assert (grid[0] - 1) * given["ROWS"] < 5 <= grid[0] * given["ROWS"] and grid[1:] == (1, 1)
    assert (given["x"], given["out"]) == (x.data_ptr(), out.data_ptr())
    assert given["invalid"] is number and given["n_rows"] == 5
    assert (given["value"], given["x_stride"], given["D"], given["R"]) == (3e38, 64, 64, 2)
    assert given["small"] < given["large"] and given["BIAS"] is False


def test_a_launch_holds_its_factors(compiling, monkeypatch):
    """On a GPU it says each time on which stream they are read; in the interpreter there is none."""
    launch, _ = compiling
    before = []
    monkeypatch.setattr(launch, "_held", SimpleNamespace(before=before.append))
    x, out = torch.ones(9, 64), torch.empty(9, 64)
    launch.run(x, out, (64, 64), 9, 1.0, None)
    assert before == []
    launch._device = 0
    for kappa in (1.0, 1.0, torch.ones(9)):
        launch.run(x, out, (64, 64), 9, kappa, None)
    assert before == [STREAM] * 3


def test_what_triton_compiles_apart_is_kept_apart(compiling):
    launch, kernel = compiling
    memory = torch.zeros(64 * 20)
    x, out, number = memory.view(20, 64), torch.empty(20, 64), torch.zeros(1, dtype=torch.int32)
    odd = memory[1 : 1 + 64 * 9].view(9, 64)
    for _ in range(2):
        launch.run(x, out, (64, 64), 20, 1.0, None)
        launch.run(x, out, (64, 64), 20, 1.0, number)
        launch.run(x, out, (128, 64), 10, 1.0, None)
    assert len(kernel.compiled) == 3
    for _ in range(2):
        launch.run(odd, out, (64, 64), 9, 1.0, None)
        launch.run(x, out, (64, 64), 1 << 31, 1.0, None)
    assert len(kernel.compiled) == 7
    assert [len(compiled.calls) for compiled in kernel.compiled] == [1, 1, 1, 0, 0, 0, 0]
