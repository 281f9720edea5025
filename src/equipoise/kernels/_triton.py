"""The fused CUDA kernels: one read and one write of device memory.

``_rows_kernel`` holds whole rows in registers and does every map, rank and dtype. A warp takes
several short rows at once, a few threads to each, so that reductions are short and little
arithmetic is repeated; long rows get a warp each. Its cost beyond the copy is reading r axes out of
the first-level cache for every row, which float32 hides behind memory. Half-width rows leave half
the time, so from rank 4 up they go to ``_tiles_kernel``, which lets the matrix units take the inner
products: 64 rows at a time, the basis split into two half-width terms (``high + low``, 16 bits of
it or more), sums in float32. It reads a tile a second time, out of the second-level cache.

Both store ordinary rows only. ``_any_rows``, with every case in it, stores the others. A row's own
numbers decide which it is, so that no bit of it depends on its neighbours. Rows without a direction
are counted there, and only there: ordinary rows have one.
"""

from __future__ import annotations

import math
import threading
from typing import Any

import torch
import triton
import triton.language as tl
from triton.compiler import CompiledKernel
from triton.runtime import driver

from equipoise import geometry
from equipoise.kernels._held import HeldTensors
from equipoise.kernels._recipe import LowRank, Norm, Preference, launch_key

_KIND = {"kappa": 0, "printed": 1, "weights": 2}
_NORM = {"unit": 0, "keep": 1, "raw": 2}
FLOAT32_MAX = 3e38
SCALE = {
    torch.bfloat16: 1.0,
    torch.float16: 256.0,
}  # of basis and weights in a tile: float16 would hold their low terms as subnormals
TILE_RANK = 16  # the matrix units take 16 columns at a time
# half-width rows: up to here reading the axes twice costs less than the matrix units' second read
# of the rows
FOLD_RANK = 3
NEAR2 = tl.constexpr(geometry.NEAR**2)  # to the right of a tensor: Triton 3.7 asks for it
# What Triton compiles apart was read in 3.6 and 3.7. For AMD that is more: the size of an array.
_VERSION = tuple(map(int, triton.__version__.split(".")[:2]))
KEEPS_COMPILED = _VERSION >= (3, 6) and torch.version.cuda is not None
# Held while Triton launches: it gives a kernel that one thread is still loading to others.
LAUNCHING = threading.RLock()


@triton.jit
def _coefficients(n2, o2, c2, parameter, KIND: tl.constexpr, NORM: tl.constexpr):
    """Return geometry.half_angle for rows of any length, n2 = o2 + c2: u = k1 * rest + k2 * taken.

    Divisions and roots are correctly rounded.
    """
    n = tl.sqrt_rn(n2)
    o = tl.sqrt_rn(o2)
    t2 = tl.div_rn(c2, (n + o) * (n + o))
    if KIND == 0:
        kappa = parameter
    else:
        unit_o = tl.div_rn(o, n)
        p = tl.sqrt_rn(tl.div_rn(c2, n2) + 1e-30)
        if KIND == 1:
            kappa = tl.div_rn(1 + unit_o, p)
        else:
            s = tl.maximum(p - parameter, 0.0) + 1e-20
            h = tl.sqrt_rn(s * s + unit_o * unit_o)
            kappa = tl.div_rn(
                parameter * parameter * unit_o * unit_o * (1 + unit_o),
                p * s * (h + unit_o * unit_o + p * s),
            )
    k = kappa * (1 + t2)
    g = tl.div_rn(2.0, 2 + k + tl.sqrt_rn(k) * tl.sqrt_rn(4 + k))
    x2 = t2 * g * g
    # The one division that both factors share.
    inverse = tl.div_rn(1.0, (1 + x2) * o * (1.0 if NORM == 1 else n))
    k1 = tl.div_rn(1.0, n) if NORM == 2 else (1 - x2) * n * inverse
    return k1, g * (1 + t2) * o * inverse


@triton.jit
def _parameter(value, rows, live, PER_ROW: tl.constexpr):
    if PER_ROW:
        return tl.load(value + rows, live, other=1)
    else:
        return value + tl.zeros(rows.shape, tl.float32)


@triton.jit
def _cells(
    first, n_rows, D: tl.constexpr, D2: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr
):
    """Return rows from `first` on as (ROWS, D2 / WIDTH, WIDTH), which the compiler lays out with
    WIDTH / 4 neighbouring threads per row.
    """
    rows = first + tl.arange(0, ROWS)
    cols = (
        tl.arange(0, D2 // WIDTH)[None, :, None] * WIDTH
        + tl.max_contiguous(tl.arange(0, WIDTH), 4)[None, None, :]
    )
    # Once per row, so that the axes are loaded by the threads that need them.
    cols = cols + tl.zeros([ROWS, 1, 1], tl.int32)
    inside = cols < D
    return rows, cols, inside, inside & (rows < n_rows)[:, None, None]


@triton.jit
def _sum(v):
    return tl.sum(tl.sum(v, 1), 1)


@triton.jit
def _wide(v):
    return v[:, None, None]


@triton.jit
def _outside2(e, taken, n2, c2):
    """Return the squared lengths of e - taken: by Pythagoras, where it does not cancel."""
    o2 = n2 - c2
    cancels = c2 > 0.25 * n2
    if tl.max(tl.where(cancels, 1, 0), 0) > 0:
        rest = e - taken
        o2 = tl.where(cancels, _sum(rest * rest), o2)
    return o2


@triton.jit
def _short_rests(rest, o2, n2, right, cols, inside, D: tl.constexpr, R: tl.constexpr):
    """Take short rests twice, as geometry.outside does; return all, and their squared lengths.

    Half-width rows are pure attribute long before float32 is short of digits.
    """
    short = o2 < n2 * NEAR2
    if tl.max(tl.where(short, 1, 0), 0) > 0:
        twice = rest
        for j in range(R):
            column = tl.load(right + j * D + cols, inside, other=0)
            twice -= _wide(_sum(rest * column)) * column
        rest = tl.where(_wide(short), twice, rest)
        o2 = tl.where(short, _sum(rest * rest), o2)
    return rest, o2


@triton.jit
def _add_rows(number, which):
    """Add to ``number`` how many rows are meant; no memory is touched where there are none."""
    many = tl.sum(tl.where(which, 1, 0), 0)
    if many > 0:
        tl.atomic_add(number, many)


@triton.jit
def _any_rows(
    x, out, right, left, bias, value, invalid, wanted, first, n_rows, x_stride, out_stride, small,
    large, up, pure, unit,
    D: tl.constexpr, D2: tl.constexpr, R: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr,
    KIND: tl.constexpr, PER_ROW: tl.constexpr,
    NORM: tl.constexpr, PROJECTION: tl.constexpr, BIAS: tl.constexpr,
):  # fmt: skip
    """Debias those of ROWS rows that are ``wanted``, of any kind: extreme lengths, pure attribute,
    kappa 0, no direction at all; and by maps that are no projection.
    """
    rows, cols, inside, mask = _cells(first, n_rows, D, D2, ROWS, WIDTH)
    mask = mask & _wide(wanted)
    source = x + _wide(rows) * x_stride + cols
    e = tl.load(source, mask, other=0).to(tl.float32)
    n2 = _sum(e * e)
    scale = tl.where(n2 < small, up, tl.where(n2 > large, 1 / up, 1.0))
    e = e * _wide(scale)
    n2 = _sum(e * e)
    n = tl.sqrt_rn(n2)
    if BIAS:
        taken = _wide(n) * tl.load(bias + cols, inside, other=0)
    else:
        taken = tl.zeros_like(e)
    c2 = tl.zeros_like(n2)
    for j in range(R):
        column = tl.load(right + j * D + cols, inside, other=0)
        c = _sum(e * column)
        c2 += c * c
        if not PROJECTION:
            column = tl.load(left + j * D + cols, inside, other=0)
        taken += _wide(c) * column
    rest = e - taken
    o2 = _sum(rest * rest)
    if PROJECTION and x.dtype.element_ty == tl.float32:
        rest, o2 = _short_rests(rest, o2, n2, right, cols, inside, D, R)
    parameter = _parameter(value, rows, wanted, PER_ROW)
    k1, k2 = _coefficients(n2, o2, c2, parameter, KIND, NORM)
    length = tl.div_rn(1.0, scale if NORM == 1 else n)
    if NORM == 1:
        k1 *= length
        k2 *= length
    u = _wide(k1) * rest + _wide(k2) * taken
    lost = ~((n2 > 0) & (n2 < float("inf")))
    plain = tl.sqrt_rn(o2) <= pure * n
    same = lost
    if KIND == 0:
        identity = parameter == 0
        plain = plain | identity
        if NORM == 1:
            same = same | identity
        else:
            same = same | (identity & (tl.abs(tl.div_rn(n2, scale * scale) - 1) <= unit))
    u = tl.where(_wide(plain), e * _wide(length), u).to(out.dtype.element_ty)
    u = tl.where(
        _wide(same), tl.load(source, mask, other=0, cache_modifier=".cg"), u
    )  # .cg: read again, not kept in registers till here
    tl.store(out + _wide(rows) * out_stride + cols, u, mask)
    if invalid is not None:
        _add_rows(invalid, lost & wanted)


@triton.jit(do_not_specialize=["n_rows"])
def _rows_kernel(
    x, out, right, left, bias, value, invalid, n_rows, x_stride, out_stride, small, large, up, pure,
    unit,
    D: tl.constexpr, D2: tl.constexpr, R: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr,
    KIND: tl.constexpr, PER_ROW: tl.constexpr,
    NORM: tl.constexpr, PROJECTION: tl.constexpr, BIAS: tl.constexpr, FOLD: tl.constexpr,
):  # fmt: skip
    first = tl.program_id(0).to(tl.int64) * ROWS
    rows, cols, inside, mask = _cells(first, n_rows, D, D2, ROWS, WIDTH)
    live = rows < n_rows
    if PROJECTION:
        e = tl.load(x + _wide(rows) * x_stride + cols, mask, other=0).to(tl.float32)
        n2 = _sum(e * e)
        c2 = tl.zeros_like(n2)
        inner = ()
        taken = tl.zeros_like(e)
        for j in tl.static_range(R):
            column = tl.load(right + j * D + cols, inside, other=0)
            c = _sum(e * column)
            c2 += c * c
            if FOLD:
                inner = inner + (c,)  # noqa: RUF005, Triton does not unpack
            else:
                taken += _wide(c) * column
        if FOLD:
            o2 = n2 - c2
            usual = c2 <= 0.75 * n2
        else:
            o2 = _outside2(e, taken, n2, c2)
            usual = o2 >= n2 * NEAR2
        parameter = _parameter(value, rows, live, PER_ROW)
        usual = usual & (n2 >= small) & (n2 <= large) & ((parameter != 0) | (KIND != 0))
        usual = usual & live
        many = tl.sum(tl.where(usual, 1, 0), 0)
        if many > 0:
            k1, k2 = _coefficients(n2, o2, c2, parameter, KIND, NORM)
            if FOLD:  # no digit that half width could hold is lost below p^2 = 3/4
                u = _wide(k1) * e
                for j in tl.static_range(R):
                    u += _wide((k2 - k1) * inner[j]) * tl.load(
                        right + j * D + cols, inside, other=0
                    )
            else:
                u = _wide(k1) * (e - taken) + _wide(k2) * taken
            target = out + _wide(rows) * out_stride + cols
            tl.store(target, u.to(out.dtype.element_ty), mask & _wide(usual))
        if many < tl.minimum(n_rows - first, ROWS):
            _any_rows(
                x, out, right, left, bias, value, invalid, live & ~usual, first, n_rows, x_stride,
                out_stride, small, large, up, pure, unit,
                D, D2, R, ROWS, WIDTH, KIND, PER_ROW, NORM, PROJECTION, BIAS,
            )  # fmt: skip
    else:
        _any_rows(
            x, out, right, left, bias, value, invalid, live, first, n_rows, x_stride, out_stride,
            small, large, up, pure, unit,
            D, D2, R, ROWS, WIDTH, KIND, PER_ROW, NORM, PROJECTION, BIAS,
        )  # fmt: skip


@triton.jit(do_not_specialize=["n_rows"])
def _tiles_kernel(
    x, out, high, low, right, value, invalid, n_rows, x_stride, out_stride, small, large, up, pure,
    unit,
    D: tl.constexpr, D2: tl.constexpr, R: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr,
    TILE: tl.constexpr, CHUNK: tl.constexpr,
    STAGES: tl.constexpr, SCALE: tl.constexpr, KIND: tl.constexpr, PER_ROW: tl.constexpr, NORM:
    tl.constexpr,
):  # fmt: skip
    # high, low: (16, D), the basis as rows times SCALE in two half-width terms; zero rows beyond
    # the rank.
    first = tl.program_id(0).to(tl.int64) * TILE
    rows = first + tl.arange(0, TILE)
    cols = tl.arange(0, CHUNK)
    axes = tl.arange(0, 16)
    live = rows < n_rows
    source = x + rows[:, None] * x_stride
    target = out + rows[:, None] * out_stride
    half = x.dtype.element_ty
    parameter = _parameter(value, rows, live, PER_ROW)

    c = tl.zeros([TILE, 16], tl.float32)
    squares = tl.zeros([TILE, CHUNK], tl.float32)
    for k in tl.range(0, D, CHUNK, num_stages=STAGES):
        e = tl.load(source + (k + cols)[None, :], live[:, None], other=0)
        part = tl.dot(e, tl.load(high + axes[None, :] * D + (k + cols)[:, None]))
        part = tl.dot(e, tl.load(low + axes[None, :] * D + (k + cols)[:, None]), part)
        # added here, not in the matrix units: else the last product still reads e while the next
        # chunk is copied over it
        c += part
        wide = e.to(tl.float32)
        squares += wide * wide
    c *= 1 / SCALE
    n2 = tl.sum(squares, 1)
    c2 = tl.sum(c * c, 1)
    usual = (n2 >= small) & (n2 <= large) & (c2 <= 0.5 * n2) & ((parameter != 0) | (KIND != 0))
    usual = usual & live
    many = tl.sum(tl.where(usual, 1, 0), 0)
    if many > 0:
        k1, k2 = _coefficients(n2, n2 - c2, c2, parameter, KIND, NORM)
        weight = ((k2 - k1) * SCALE)[
            :, None
        ] * c  # folded: no digit that half width could hold is lost below p^2 = 1/2
        weight_high = weight.to(half)
        weight_low = (weight - weight_high.to(tl.float32)).to(half)
        for back in tl.range(0, D, CHUNK, num_stages=STAGES):
            # backwards: what was read last is the likeliest to be still in the cache
            k = D - CHUNK - back
            e = tl.load(source + (k + cols)[None, :], live[:, None], other=0)
            basis_high = tl.load(high + axes[:, None] * D + (k + cols)[None, :])
            u = tl.dot(weight_high, basis_high)
            u = tl.dot(weight_high, tl.load(low + axes[:, None] * D + (k + cols)[None, :]), u)
            u = tl.dot(weight_low, basis_high, u)
            u = u * (1 / (SCALE * SCALE)) + k1[:, None] * e.to(tl.float32)
            tl.store(target + (k + cols)[None, :], u.to(half), usual[:, None])
    if many < tl.minimum(n_rows - first, TILE):
        others = tl.where(live & ~usual, 1, 0)
        for row in range(0, TILE, ROWS):
            here = (row + tl.arange(0, ROWS))[:, None] == tl.arange(0, TILE)[None, :]
            wanted = tl.sum(tl.where(here, others[None, :], 0), 1)
            if tl.max(wanted, 0) > 0:
                _any_rows(
                    x, out, right, right, right, value, invalid, wanted > 0, first + row, n_rows,
                    x_stride, out_stride, small, large, up, pure, unit,
                    D, D2, R, ROWS, WIDTH, KIND, PER_ROW, NORM, True, False,
                )  # fmt: skip


class Launch:
    """What a launch takes beside the rows themselves.

    It is made once for each map, dtype, device, kind of preference and norm. It also keeps what
    Triton compiled: Triton looks at every argument to find it, which takes longer than to launch.
    """

    def __init__(
        self,
        kernel: Any,
        rows: int,
        factors: tuple[torch.Tensor, ...],
        limits: tuple[float, ...],
        options: dict[str, Any],
    ):
        self._kernel = kernel
        self._rows = rows  # of one program
        self._factors = factors
        self._limits = limits
        self._options = options
        constants = [options[name] for name in kernel.arg_names if name in options]
        self._addresses = [factor.data_ptr() for factor in factors]
        self._last = (*limits, *constants)
        self._held = HeldTensors(factors)
        self._device = factors[0].get_device()  # -1: the host, for Triton's interpreter
        self._compiled: dict[tuple[int, int, bool], CompiledKernel] = {}

    def is_here(self) -> bool:
        """Return whether its device is the current one, where Triton launches."""
        return self._device < 0 or self._device == torch.cuda.current_device()

    def run(
        self,
        x: torch.Tensor,
        out: torch.Tensor,
        strides: tuple[int, int],
        n_rows: int,
        value: float | torch.Tensor,
        invalid: torch.Tensor | None,
    ) -> None:
        """Debias n_rows of x into out. strides: how far rows are apart in x, and in out."""
        number = isinstance(value, float)
        if number and value != math.inf:
            value = min(value, FLOAT32_MAX)
        programs = -(-n_rows // self._rows)
        source, target = x.data_ptr(), out.data_ptr()
        # All that Triton compiles apart: no other argument changes its kind from call to call.
        key = (*strides, invalid is None)
        if self._device >= 0:
            self._held.before(driver.active.get_current_stream(self._device))
        keeps = number and n_rows < 1 << 31 and not (source | target) % 16
        compiled = self._compiled.get(key) if keeps else None
        if compiled is not None:
            compiled[programs, 1, 1](
                source, target, *self._addresses, value, invalid, n_rows, *strides, *self._last,
                stream=driver.active.get_current_stream(self._device),
            )  # fmt: skip
            return
        with LAUNCHING:
            compiled = self._kernel[(programs,)](
                x, out, *self._factors, value, invalid, n_rows, *strides, *self._limits,
                **self._options,
            )  # fmt: skip
        if keeps and KEEPS_COMPILED and isinstance(compiled, CompiledKernel):
            self._compiled[key] = compiled


def debias(
    x: torch.Tensor,
    out: torch.Tensor,
    low_rank: LowRank,
    preference: Preference,
    norm: Norm,
    invalid: torch.Tensor | None = None,
) -> None:
    """Debias x (n, d) into out (n, d), both with unit stride in a row, on the current device.

    The number of rows without a direction, which come back as they were, is added to ``invalid``
    (one int32 at a multiple of 16 bytes), unless it is None.
    """
    if len(x) == 0:
        return
    value = preference.value
    per_row = isinstance(value, torch.Tensor)
    value = value.to(torch.float32).contiguous() if per_row else float(value)
    launch = low_rank.cached(
        launch_key(x, preference.kind, norm, per_row),
        lambda: _launch(low_rank, x.dtype, x.device, preference.kind, norm, per_row),
    )
    launch.run(x, out, (x.stride(0), out.stride(0)), len(x), value, invalid)


def _launch(
    low_rank: LowRank,
    dtype: torch.dtype,
    device: torch.device,
    kind: str,
    norm: Norm,
    per_row: bool,
) -> Launch:
    wide, low = geometry.limits("float32"), geometry.limits(str(dtype).removeprefix("torch."))
    limits = (wide.small, wide.large, wide.up, low.pure, low.unit)
    shape = {"D": low_rank.dim, "R": low_rank.rank}
    shared = {"KIND": _KIND[kind], "PER_ROW": per_row, "NORM": _NORM[norm]}
    if uses_tiles(low_rank, dtype, norm):
        factors = low_rank.cached(("tiles", dtype, device), lambda: _split(low_rank, dtype, device))
        options = shape | _tile_options(low_rank.dim, dtype) | shared
        return Launch(_tiles_kernel, options["TILE"], factors, limits, options)
    factors = low_rank.cached(("rows", device), lambda: _columns(low_rank, device))
    options = shape | _row_options(low_rank, dtype) | shared
    return Launch(_rows_kernel, options["ROWS"], factors, limits, options)


def _tile_options(dim: int, dtype: torch.dtype) -> dict[str, Any]:
    chunk = 128 if dim % 128 == 0 and dim >= 512 else 64
    options: dict[str, Any] = {
        "D2": max(triton.next_power_of_2(dim), 128),
        "ROWS": 4,
        "WIDTH": 128,
        "TILE": 64,
        "CHUNK": chunk,
        "STAGES": 3,
        "SCALE": SCALE[dtype],
        "num_warps": 4,
    }
    # as many tiles in flight as when it was measured: four at 64 columns, two at 128
    return options | _registers(128 if chunk == 64 else 192)


def _row_options(low_rank: LowRank, dtype: torch.dtype) -> dict[str, Any]:
    width = triton.next_power_of_2(low_rank.dim)
    fold = dtype != torch.float32 and low_rank.rank <= FOLD_RANK
    warps = 1 if width <= 2048 else 4
    # to a row: measured on an H200, docs/benchmarks.md, as are the registers
    threads = min(max(width // 32, 8), 32) * warps
    cells = max(width // threads, 32)  # of a row, in each of its threads
    registers = 16 + 2 * cells if fold else 32 + 3 * cells
    return {
        "D2": max(width, 4 * threads),
        "ROWS": 32 * warps // threads,
        "WIDTH": 4 * threads,
        "PROJECTION": low_rank.is_projection,
        "BIAS": low_rank.bias is not None,
        "FOLD": fold,
        "num_warps": warps,
    } | _registers(registers)


def _registers(most: int) -> dict[str, Any]:
    """Return the option that limits the registers of a thread; only CUDA has it."""
    return {"maxnreg": min(most, 255)} if torch.version.cuda else {}


def uses_tiles(low_rank: LowRank, dtype: torch.dtype, norm: Norm = "unit") -> bool:
    """Return whether rows are half-width and of rank 4 to 16.

    float16 only where the weights of the axes are sure to be in its range.
    """
    fits = (
        low_rank.is_projection and FOLD_RANK < low_rank.rank <= TILE_RANK and low_rank.dim % 64 == 0
    )
    return fits and (dtype == torch.bfloat16 or (dtype == torch.float16 and norm == "unit"))


def _columns(
    low_rank: LowRank, device: torch.device
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    right, left = (
        torch.tensor(m.T.copy(), dtype=torch.float32, device=device)
        for m in (low_rank.right, low_rank.left)
    )
    given = low_rank.bias
    bias = torch.tensor([0.0] if given is None else given, dtype=torch.float32, device=device)
    return right, left, bias


def _split(
    low_rank: LowRank, dtype: torch.dtype, device: torch.device
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    # on the host, whatever the default device: what is copied from there has arrived, on every
    # stream, when the copy returns
    full = torch.zeros(TILE_RANK, low_rank.dim, dtype=torch.float64, device="cpu")
    full[: low_rank.rank] = torch.tensor(low_rank.right.T.copy(), device="cpu")
    high = (full * SCALE[dtype]).to(dtype)
    low = (full * SCALE[dtype] - high.double()).to(dtype)
    return high.to(device), low.to(device), full.to(device=device, dtype=torch.float32)
