"""The CUDA kernels in Triton's interpreter: float32 rows and float16 tiles. bfloat16 needs a GPU: scripts/check_gpu.py."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import equipoise as eq
from equipoise.errors import InvalidRowsError
from equipoise.kernels import without_direction
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
    from equipoise.kernels import _torch

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
    key = ("launch", torch.float32, x.device, "kappa", "unit", False)
    made = space.low_rank.cached(key, lambda: pytest.fail("made again"))
    run(x, space.low_rank, PROJECT)  # another number, and the same kernel
    assert space.low_rank.cached(key, lambda: None) is made
