"""The fused CUDA kernels: one read and one write of device memory.

``_rows_kernel`` holds whole rows in registers, one warp to a row (or two short ones), and does every map, rank and dtype. Its cost beyond
the copy is r reductions a row, which float32 hides behind memory. Half-width rows leave half the time, so from rank 3 up they go
to ``_tiles_kernel``, which lets the matrix units take the inner products: 64 rows at a time, the basis split into two half-width terms
(``high + low``, 16 bits of it or more), sums in float32. It reads a tile a second time, out of the second-level cache.
"""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl

from equipoise import geometry
from equipoise.kernels.recipe import LowRank, Norm, Preference

_KIND = {"kappa": 0, "printed": 1, "weights": 2}
_NORM = {"unit": 0, "keep": 1, "raw": 2}
FLOAT32_MAX = 3e38
TILE_RANK = 16  # the matrix units take 16 columns at a time
FLOAT16_TILE_DIM = 768  # beyond, basis entries are so small that their low terms are subnormal: under 99.5 % correctly rounded


@triton.jit
def _coefficients(p2, o, parameter, KIND: tl.constexpr, NORM: tl.constexpr):
    """geometry.half_angle, in Triton's words, with correctly rounded division and roots."""
    if KIND == 0:
        kappa = parameter
    elif KIND == 1:
        kappa = tl.div_rn(1 + o, tl.sqrt_rn(p2 + 1e-30))
    else:
        p = tl.sqrt_rn(p2 + 1e-30)
        s = tl.maximum(p - parameter, 0.0) + 1e-20
        h = tl.sqrt_rn(s * s + o * o)
        kappa = tl.div_rn(parameter * parameter * o * o * (1 + o), p * s * (h + o * o + p * s))
    t2 = tl.div_rn(p2, (1 + o) * (1 + o))
    k = kappa * (1 + t2)
    g = tl.div_rn(2.0, 2 + k + tl.sqrt_rn(k) * tl.sqrt_rn(4 + k))
    x2 = t2 * g * g
    shrink = tl.div_rn(g * (1 + t2), 1 + x2)
    beta = tl.div_rn(1 - x2, 1 + x2)
    if NORM == 2:
        beta = o
    return shrink, beta


@triton.jit
def _scale_of(n2, small, large, up):
    return tl.where(n2 < small, up, tl.where(n2 > large, 1 / up, 1.0))


@triton.jit
def _divisor(n, scale, NORM: tl.constexpr):
    """What the scaled row is divided by to have the length that it shall have."""
    if NORM == 1:
        return scale
    else:
        return n


@triton.jit
def _unusual(n2, o, scale, parameter, live, pure, unit, KIND: tl.constexpr, NORM: tl.constexpr):
    """Rows that do not follow the formula: without a direction; only brought to length; returned as they were."""
    lost = live & ~((n2 > 0) & (n2 < float("inf")))
    plain = live & ~lost & (o <= pure)
    same = lost
    if KIND == 0:
        identity = live & ~lost & (parameter == 0)
        plain = plain | identity
        if NORM == 1:
            same = same | identity
        else:
            same = same | (identity & (tl.abs(tl.div_rn(n2, scale * scale) - 1) <= unit))
    return lost, plain, same


@triton.jit
def _rows_kernel(
    x, out, right, left, bias, value, bad, n_rows, x_stride, out_stride, small, large, up, pure, unit,
    D: tl.constexpr, D2: tl.constexpr, R: tl.constexpr, ROWS: tl.constexpr, KIND: tl.constexpr, PER_ROW: tl.constexpr,
    NORM: tl.constexpr, PROJECTION: tl.constexpr, BIAS: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    cols = tl.arange(0, D2)
    live = rows < n_rows
    inside = cols < D
    mask = live[:, None] & inside[None, :]
    source = x + rows[:, None] * x_stride + cols[None, :]
    e = tl.load(source, mask, other=0).to(tl.float32)
    n2 = tl.sum(e * e, 1)
    scale = _scale_of(n2, small, large, up)
    if tl.max(tl.where(scale == 1, 0, 1), 0) > 0:
        e = e * scale[:, None]
        n2 = tl.sum(e * e, 1)
    n = tl.sqrt_rn(n2)
    if BIAS:
        taken = n[:, None] * tl.load(bias + cols, inside, other=0)[None, :]
    else:
        taken = tl.zeros([ROWS, D2], tl.float32)
    c2 = tl.zeros([ROWS], tl.float32)
    for j in tl.static_range(R):
        column = tl.load(right + j * D + cols, inside, other=0)
        c = tl.sum(e * column[None, :], 1)
        c2 += c * c
        if not PROJECTION:
            column = tl.load(left + j * D + cols, inside, other=0)
        taken += c[:, None] * column[None, :]
    o2 = n2 - c2  # Pythagoras, where it does not cancel
    near = tl.max(tl.where(c2 > 0.25 * n2, 1, 0), 0) > 0
    if near or not PROJECTION:
        rest = e - taken
        o2 = tl.sum(rest * rest, 1)
    o = tl.sqrt_rn(tl.div_rn(o2, n2))
    if PER_ROW:
        parameter = tl.load(value + rows, live, other=1)
    else:
        parameter = tl.load(value) + tl.zeros([ROWS], tl.float32)
    shrink, beta = _coefficients(tl.div_rn(c2, n2), o, parameter, KIND, NORM)
    divisor = _divisor(n, scale, NORM)
    k1 = tl.div_rn(beta, o * divisor)
    k2 = tl.div_rn(shrink, divisor)
    u = (k1[:, None] * (e - taken) + k2[:, None] * taken).to(out.dtype.element_ty)
    lost, plain, same = _unusual(n2, o, scale, parameter, live, pure, unit, KIND, NORM)
    if tl.max(tl.where(same | plain, 1, 0), 0) > 0:
        u = tl.where(plain[:, None], (e * tl.div_rn(1.0, divisor)[:, None]).to(out.dtype.element_ty), u)
        u = tl.where(same[:, None], tl.load(source, mask, other=0), u)
        tl.store(bad + rows, lost, live)
    tl.store(out + rows[:, None] * out_stride + cols[None, :], u, mask)


@triton.jit
def _careful_tile(
    source, target, full, parameter, bad, rows, live, n2, small, large, up, pure, unit,
    D: tl.constexpr, ROWS: tl.constexpr, CHUNK: tl.constexpr, KIND: tl.constexpr, NORM: tl.constexpr, half: tl.constexpr,
):  # fmt: skip
    """A tile that holds an unusual row: float32 throughout, o from the residual, three passes."""
    cols = tl.arange(0, CHUNK)
    axes = tl.arange(0, 16)
    scale = _scale_of(n2, small, large, up)
    c = tl.zeros([ROWS, 16], tl.float32)
    squares = tl.zeros([ROWS, CHUNK], tl.float32)
    for k in range(0, D, CHUNK):
        e = tl.load(source + (k + cols)[None, :], live[:, None], other=0).to(tl.float32) * scale[:, None]
        c = tl.dot(e, tl.load(full + axes[None, :] * D + (k + cols)[:, None]), c, input_precision="ieee")
        squares += e * e
    n2 = tl.sum(squares, 1)
    squares = tl.zeros([ROWS, CHUNK], tl.float32)
    for k in range(0, D, CHUNK):
        e = tl.load(source + (k + cols)[None, :], live[:, None], other=0).to(tl.float32) * scale[:, None]
        rest = e - tl.dot(c, tl.load(full + axes[:, None] * D + (k + cols)[None, :]), input_precision="ieee")
        squares += rest * rest
    n = tl.sqrt_rn(n2)
    o = tl.sqrt_rn(tl.div_rn(tl.sum(squares, 1), n2))
    shrink, beta = _coefficients(tl.div_rn(tl.sum(c * c, 1), n2), o, parameter, KIND, NORM)
    divisor = _divisor(n, scale, NORM)
    k1 = tl.div_rn(beta, o * divisor)
    k2 = tl.div_rn(shrink, divisor)
    lost, plain, same = _unusual(n2, o, scale, parameter, live, pure, unit, KIND, NORM)
    for k in range(0, D, CHUNK):
        stored = tl.load(source + (k + cols)[None, :], live[:, None], other=0)
        e = stored.to(tl.float32) * scale[:, None]
        taken = tl.dot(c, tl.load(full + axes[:, None] * D + (k + cols)[None, :]), input_precision="ieee")
        u = k1[:, None] * (e - taken) + k2[:, None] * taken
        u = tl.where(plain[:, None], e * tl.div_rn(1.0, divisor)[:, None], u).to(half)
        tl.store(target + (k + cols)[None, :], tl.where(same[:, None], stored, u), live[:, None])
    tl.store(bad + rows, lost, live)


@triton.jit
def _tiles_kernel(
    x, out, high, low, full, value, bad, n_rows, x_stride, out_stride, small, large, up, pure, unit,
    D: tl.constexpr, ROWS: tl.constexpr, CHUNK: tl.constexpr, STAGES: tl.constexpr, KIND: tl.constexpr, PER_ROW: tl.constexpr,
    NORM: tl.constexpr,
):  # fmt: skip
    # high, low, full: (16, D), the basis as rows in two half-width terms and in float32; zero rows beyond the rank.
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    cols = tl.arange(0, CHUNK)
    axes = tl.arange(0, 16)
    live = rows < n_rows
    source = x + rows[:, None] * x_stride
    target = out + rows[:, None] * out_stride
    half = x.dtype.element_ty
    if PER_ROW:
        parameter = tl.load(value + rows, live, other=1)
    else:
        parameter = tl.load(value) + tl.zeros([ROWS], tl.float32)

    c = tl.zeros([ROWS, 16], tl.float32)
    squares = tl.zeros([ROWS, CHUNK], tl.float32)
    for k in tl.range(0, D, CHUNK, num_stages=STAGES):
        e = tl.load(source + (k + cols)[None, :], live[:, None], other=0)
        c = tl.dot(e, tl.load(high + axes[None, :] * D + (k + cols)[:, None]), c)
        c = tl.dot(e, tl.load(low + axes[None, :] * D + (k + cols)[:, None]), c)
        wide = e.to(tl.float32)
        squares += wide * wide
    n2 = tl.sum(squares, 1)
    c2 = tl.sum(c * c, 1)
    ordinary = (n2 >= small) & (n2 <= large) & (c2 <= 0.5 * n2) & ((parameter != 0) | (KIND != 0))
    if tl.min(tl.where(ordinary | ~live, 1, 0), 0) > 0:
        n = tl.sqrt_rn(n2)
        o = tl.sqrt_rn(tl.div_rn(n2 - c2, n2))
        shrink, beta = _coefficients(tl.div_rn(c2, n2), o, parameter, KIND, NORM)
        k1 = tl.div_rn(beta, o * n)
        k2 = tl.div_rn(shrink, n)
        if NORM == 1:
            k1 *= n
            k2 *= n
        weight = (k2 - k1)[:, None] * c  # folded: no digit that half width could hold is lost below p^2 = 1/2
        weight_high = weight.to(half)
        weight_low = (weight - weight_high.to(tl.float32)).to(half)
        for back in tl.range(0, D, CHUNK, num_stages=STAGES):
            k = D - CHUNK - back  # backwards: what was read last is the likeliest to be still in the cache
            e = tl.load(source + (k + cols)[None, :], live[:, None], other=0)
            basis_high = tl.load(high + axes[:, None] * D + (k + cols)[None, :])
            u = tl.dot(weight_high, basis_high)
            u = tl.dot(weight_high, tl.load(low + axes[:, None] * D + (k + cols)[None, :]), u)
            u = tl.dot(weight_low, basis_high, u)
            u += k1[:, None] * e.to(tl.float32)
            tl.store(target + (k + cols)[None, :], u.to(half), live[:, None])
    else:
        _careful_tile(source, target, full, parameter, bad, rows, live, n2, small, large, up, pure, unit, D, ROWS, CHUNK, KIND, NORM, half)


def debias(x: torch.Tensor, out: torch.Tensor, low_rank: LowRank, preference: Preference, norm: Norm) -> torch.Tensor:
    """x (n, d) into out (n, d), both with unit stride in a row; returns the mask of rows that were left as they were."""
    name = str(x.dtype).removeprefix("torch.")
    bad = torch.zeros(len(x), dtype=torch.bool, device=x.device)
    value = _on_device(preference.value, x.device)
    wide, low = geometry.limits("float32"), geometry.limits(name)
    shared = (value, bad, len(x), x.stride(0), out.stride(0), wide.small, wide.large, wide.up, low.pure, low.unit)
    options = {"KIND": _KIND[preference.kind], "PER_ROW": value.numel() > 1, "NORM": _NORM[norm]}
    if len(x) == 0:
        return bad
    if uses_tiles(low_rank, x.dtype, norm):
        factors = low_rank.cached(("tiles", x.dtype, x.device), lambda: _split(low_rank, x.dtype, x.device))
        chunk = 128 if low_rank.dim % 128 == 0 and low_rank.dim >= 512 else 64
        grid = (triton.cdiv(len(x), 64),)
        _tiles_kernel[grid](x, out, *factors, *shared, D=low_rank.dim, ROWS=64, CHUNK=chunk, STAGES=3, num_warps=4, **options)
    else:
        factors = low_rank.cached(("rows", x.device), lambda: _columns(low_rank, x.device))
        width = triton.next_power_of_2(low_rank.dim)
        rows, warps = 2 if width <= 256 else 1, 1 if width <= 2048 else 4  # measured on an H200: docs/benchmarks.md
        _rows_kernel[(triton.cdiv(len(x), rows),)](
            x, out, *factors, *shared, D=low_rank.dim, D2=width, R=low_rank.rank, ROWS=rows, num_warps=warps,
            PROJECTION=low_rank.is_projection, BIAS=low_rank.bias is not None, **options,
        )  # fmt: skip
    return bad


def uses_tiles(low_rank: LowRank, dtype: torch.dtype, norm: Norm = "unit") -> bool:
    """Half-width rows of rank 3 to 16. float16 only where its range holds the split terms to the last digit."""
    fits = low_rank.is_projection and 3 <= low_rank.rank <= TILE_RANK and low_rank.dim % 64 == 0
    return fits and (dtype == torch.bfloat16 or (dtype == torch.float16 and norm == "unit" and low_rank.dim <= FLOAT16_TILE_DIM))


def _on_device(value: float | torch.Tensor, device: torch.device) -> torch.Tensor:
    """One number or one a row, without the synchronisation that copying a number from the host would cost."""
    if isinstance(value, torch.Tensor):
        return value.to(device=device, dtype=torch.float32).reshape(-1).contiguous()
    return torch.full((1,), value if math.isinf(value) else min(value, FLOAT32_MAX), dtype=torch.float32, device=device)


def _columns(low_rank: LowRank, device: torch.device) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    right, left = (torch.tensor(m.T.copy(), dtype=torch.float32, device=device) for m in (low_rank.right, low_rank.left))
    bias = torch.zeros(1) if low_rank.bias is None else torch.tensor(low_rank.bias)
    return right, left, bias.to(device=device, dtype=torch.float32)


def _split(low_rank: LowRank, dtype: torch.dtype, device: torch.device) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    full = torch.zeros(TILE_RANK, low_rank.dim, dtype=torch.float64)
    full[: low_rank.rank] = torch.tensor(low_rank.right.T.copy())
    high = full.to(dtype)
    low = (full - high.double()).to(dtype)
    return high.to(device), low.to(device), full.to(device=device, dtype=torch.float32)
