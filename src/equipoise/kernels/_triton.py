"""The fused CUDA kernels: one read and one write of device memory.

``_rows_kernel`` holds whole rows in registers and does every map, rank and dtype. A warp takes
several short rows at once, a few threads to each, so that reductions are short and little
arithmetic is repeated; long rows get a warp each. Its cost beyond the copy is reading r axes out of
the first-level cache for every row, which float32 hides behind memory. Half-width rows leave half
the time, so from rank 4 up they go to ``_tiles_kernel``, which lets the matrix units take the inner
products: 64 rows at a time, the basis split into two half-width terms (``high + low``, 16 bits of
it or more), sums in float32. It reads a tile a second time, out of the second-level cache.

Both do ordinary rows only. Where one of a program's rows is not, ``_any_rows`` does them all again,
with every case in it.
"""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl

from equipoise import geometry
from equipoise.kernels._recipe import LowRank, Norm, Preference

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
    inverse = tl.div_rn(
        1.0, (1 + x2) * o * (1.0 if NORM == 1 else n)
    )  # the one division that both factors share
    k1 = tl.div_rn(1.0, n) if NORM == 2 else (1 - x2) * n * inverse
    return k1, g * (1 + t2) * o * inverse


@triton.jit
def _parameter(value, rows, live, PER_ROW: tl.constexpr):
    if PER_ROW:
        return tl.load(value + rows, live, other=1)
    else:
        return tl.load(value) + tl.zeros(rows.shape, tl.float32)


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
    cols = cols + tl.zeros(
        [ROWS, 1, 1], tl.int32
    )  # once per row: the axes are then loaded by the threads that need them
    inside = cols < D
    return rows, cols, inside, inside & (rows < n_rows)[:, None, None]


@triton.jit
def _sum(v):
    return tl.sum(tl.sum(v, 1), 1)


@triton.jit
def _wide(v):
    return v[:, None, None]


@triton.jit
def _any_rows(
    x, out, right, left, bias, value, bad, first, n_rows, x_stride, out_stride, small, large, up,
    pure, unit,
    D: tl.constexpr, D2: tl.constexpr, R: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr,
    KIND: tl.constexpr, PER_ROW: tl.constexpr,
    NORM: tl.constexpr, PROJECTION: tl.constexpr, BIAS: tl.constexpr,
):  # fmt: skip
    """Debias ROWS rows of any kind: extreme lengths, pure attribute, kappa 0, no direction at all;
    and by maps that are no projection.
    """
    rows, cols, inside, mask = _cells(first, n_rows, D, D2, ROWS, WIDTH)
    live = rows < n_rows
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
    if PROJECTION and x.dtype.element_ty == tl.float32:  # noqa: SIM102, known when compiled
        # geometry.outside: a short rest is taken twice. Half-width rows are pure attribute long
        # before float32 is short of digits
        if tl.max(tl.where(o2 < n2 * NEAR2, 1, 0), 0) > 0:
            once = rest
            for j in range(R):
                column = tl.load(right + j * D + cols, inside, other=0)
                rest -= _wide(_sum(once * column)) * column
            o2 = _sum(rest * rest)
    parameter = _parameter(value, rows, live, PER_ROW)
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
    tl.store(bad + rows, lost, live)


@triton.jit
def _rows_kernel(
    x, out, right, left, bias, value, bad, n_rows, x_stride, out_stride, small, large, up, pure,
    unit,
    D: tl.constexpr, D2: tl.constexpr, R: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr,
    KIND: tl.constexpr, PER_ROW: tl.constexpr,
    NORM: tl.constexpr, PROJECTION: tl.constexpr, BIAS: tl.constexpr, FOLD: tl.constexpr,
):  # fmt: skip
    first = tl.program_id(0).to(tl.int64) * ROWS
    ordinary = False
    if PROJECTION:
        rows, cols, inside, mask = _cells(first, n_rows, D, D2, ROWS, WIDTH)
        live = rows < n_rows
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
        o2 = n2 - c2  # Pythagoras, where it does not cancel
        if FOLD:
            usual = c2 <= 0.75 * n2
        else:
            if tl.max(tl.where(c2 > 0.25 * n2, 1, 0), 0) > 0:
                rest = e - taken
                o2 = _sum(rest * rest)
            usual = o2 >= n2 * NEAR2
        parameter = _parameter(value, rows, live, PER_ROW)
        usual = usual & (n2 >= small) & (n2 <= large) & ((parameter != 0) | (KIND != 0))
        ordinary = tl.min(tl.where(usual | ~live, 1, 0), 0) > 0
        if ordinary:
            k1, k2 = _coefficients(n2, o2, c2, parameter, KIND, NORM)
            if FOLD:  # no digit that half width could hold is lost below p^2 = 3/4
                u = _wide(k1) * e
                for j in tl.static_range(R):
                    u += _wide((k2 - k1) * inner[j]) * tl.load(
                        right + j * D + cols, inside, other=0
                    )
            else:
                u = _wide(k1) * (e - taken) + _wide(k2) * taken
            tl.store(out + _wide(rows) * out_stride + cols, u.to(out.dtype.element_ty), mask)
    if not ordinary:
        _any_rows(
            x, out, right, left, bias, value, bad, first, n_rows, x_stride, out_stride, small,
            large, up, pure, unit,
            D, D2, R, ROWS, WIDTH, KIND, PER_ROW, NORM, PROJECTION, BIAS,
        )  # fmt: skip


@triton.jit
def _tiles_kernel(
    x, out, high, low, right, value, bad, n_rows, x_stride, out_stride, small, large, up, pure,
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
    if tl.min(tl.where(usual | ~live, 1, 0), 0) > 0:
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
            tl.store(target + (k + cols)[None, :], u.to(half), live[:, None])
    else:
        for row in range(0, TILE, ROWS):
            _any_rows(
                x, out, right, right, right, value, bad, first + row, n_rows, x_stride, out_stride,
                small, large, up, pure, unit,
                D, D2, R, ROWS, WIDTH, KIND, PER_ROW, NORM, True, False,
            )  # fmt: skip


def debias(
    x: torch.Tensor, out: torch.Tensor, low_rank: LowRank, preference: Preference, norm: Norm
) -> torch.Tensor:
    """Debias x (n, d) into out (n, d), both with unit stride in a row; return the mask of rows that
    were left as they were.
    """
    name = str(x.dtype).removeprefix("torch.")
    bad = torch.zeros(len(x), dtype=torch.bool, device=x.device)
    value = _on_device(preference.value, x.device)
    wide, low = geometry.limits("float32"), geometry.limits(name)
    shared = (
        value,
        bad,
        len(x),
        x.stride(0),
        out.stride(0),
        wide.small,
        wide.large,
        wide.up,
        low.pure,
        low.unit,
    )
    options = {"KIND": _KIND[preference.kind], "PER_ROW": value.numel() > 1, "NORM": _NORM[norm]}
    if len(x) == 0:
        return bad
    width = triton.next_power_of_2(low_rank.dim)
    if uses_tiles(low_rank, x.dtype, norm):
        factors = low_rank.cached(
            ("tiles", x.dtype, x.device), lambda: _split(low_rank, x.dtype, x.device)
        )
        _tiles_kernel[(triton.cdiv(len(x), 64),)](
            x, out, *factors, *shared, D=low_rank.dim, D2=max(width, 128), R=low_rank.rank, ROWS=4,
            WIDTH=128, num_warps=4,
            TILE=64, CHUNK=128 if low_rank.dim % 128 == 0 and low_rank.dim >= 512 else 64, STAGES=3,
            SCALE=SCALE[x.dtype], **options,
        )  # fmt: skip
    else:
        factors = low_rank.cached(("rows", x.device), lambda: _columns(low_rank, x.device))
        fold = x.dtype != torch.float32 and low_rank.rank <= FOLD_RANK
        warps = 1 if width <= 2048 else 4
        # to a row: measured on an H200, docs/benchmarks.md, as are the registers
        threads = min(max(width // 32, 8), 32) * warps
        cells = max(width // threads, 32)  # of a row, in each of its threads
        registers = 16 + 2 * cells if fold else 32 + 3 * cells
        rows = 32 * warps // threads
        _rows_kernel[(triton.cdiv(len(x), rows),)](
            x, out, *factors, *shared, D=low_rank.dim, D2=max(width, 4 * threads), R=low_rank.rank,
            ROWS=rows, WIDTH=4 * threads,
            PROJECTION=low_rank.is_projection, BIAS=low_rank.bias is not None, FOLD=fold,
            num_warps=warps, **({"maxnreg": min(registers, 255)} if torch.version.cuda else {}),
            **options,
        )  # fmt: skip
    return bad


def uses_tiles(low_rank: LowRank, dtype: torch.dtype, norm: Norm = "unit") -> bool:
    """Return whether rows are half-width and of rank 4 to 16.

    float16 only where the weights of the axes are sure to be in its range.
    """
    fits = (
        low_rank.is_projection and FOLD_RANK < low_rank.rank <= TILE_RANK and low_rank.dim % 64 == 0
    )
    return fits and (dtype == torch.bfloat16 or (dtype == torch.float16 and norm == "unit"))


def _on_device(value: float | torch.Tensor, device: torch.device) -> torch.Tensor:
    """Return one number or one per row, without the synchronisation that copying a number from the
    host would cost.
    """
    if isinstance(value, torch.Tensor):
        return value.to(device=device, dtype=torch.float32).reshape(-1).contiguous()
    return torch.full(
        (1,),
        value if math.isinf(value) else min(value, FLOAT32_MAX),
        dtype=torch.float32,
        device=device,
    )


def _columns(
    low_rank: LowRank, device: torch.device
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    right, left = (
        torch.tensor(m.T.copy(), dtype=torch.float32, device=device)
        for m in (low_rank.right, low_rank.left)
    )
    bias = torch.zeros(1) if low_rank.bias is None else torch.tensor(low_rank.bias)
    return right, left, bias.to(device=device, dtype=torch.float32)


def _split(
    low_rank: LowRank, dtype: torch.dtype, device: torch.device
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    full = torch.zeros(TILE_RANK, low_rank.dim, dtype=torch.float64)
    full[: low_rank.rank] = torch.tensor(low_rank.right.T.copy())
    high = (full * SCALE[dtype]).to(dtype)
    low = (full * SCALE[dtype] - high.double()).to(dtype)
    return high.to(device), low.to(device), full.to(device=device, dtype=torch.float32)
