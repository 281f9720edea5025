"""The fused CPU kernel: each row is read once, worked on in the first-level cache and written once.

Compiled once per dtype, for any rank. float16 and bfloat16 arrive as int16 and uint16 bit patterns,
because numba has no half type; two intrinsics let LLVM load and store them, which it vectorises.
The kernel releases the GIL and is run by plain threads (see ``host``), so it neither needs nor
disturbs a threading layer, and survives a fork.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from equipoise import geometry

# rows that are debiased before they are measured; with what is written of them they stay in the
# second-level cache
TOGETHER = 128
# share of the space in a row's squared length above which its rest is taken from the row itself,
# twice and in float64
HALF = 0.5
FAST = {
    "reassoc",
    "contract",
}  # reorder sums, fuse multiply and add; NaN and infinity keep their meaning


def compiler(**options: Any) -> Callable:
    """Return numba's decorator, with what was compiled kept on disk where there is a place to keep
    it.
    """

    def compile_(function: Callable) -> Callable:
        try:
            return njit(cache=True, error_model="numpy", **options)(function)
        except RuntimeError:  # no folder that can be written to
            return njit(error_model="numpy", **options)(function)

    return compile_


_jit = compiler(nogil=True, fastmath=FAST)
_half_angle, _printed_kappa, _weighted_kappa = map(
    compiler(inline="always"),
    (geometry.half_angle, geometry.printed_kappa, geometry.weighted_kappa),
)

_F16, _F32, _I16, _I32 = ir.HalfType(), ir.FloatType(), ir.IntType(16), ir.IntType(32)


@intrinsic
def _widen(typingctx, bits):  # pyright: ignore[reportUnusedParameter]
    """Return a stored number as a compute number: float16 (int16 bits) and bfloat16 (uint16 bits)
    as float32, others unchanged.
    """

    def half(context, builder, signature, args):
        return builder.fpext(builder.bitcast(args[0], _F16), _F32)

    def brain(context, builder, signature, args):
        return builder.bitcast(
            builder.shl(builder.zext(args[0], _I32), ir.Constant(_I32, 16)), _F32
        )

    def same(context, builder, signature, args):
        return args[0]

    code = {types.int16: half, types.uint16: brain}.get(bits, same)
    return (bits if code is same else types.float32)(bits), code


@intrinsic
def _narrow(typingctx, value, like):  # pyright: ignore[reportUnusedParameter]
    """Compute number to stored number of ``like``'s type, rounded to nearest, ties to even."""

    def single(builder, value):
        return value if value.type == _F32 else builder.fptrunc(value, _F32)

    def half(context, builder, signature, args):
        return builder.bitcast(builder.fptrunc(single(builder, args[0]), _F16), _I16)

    def brain(context, builder, signature, args):
        bits = builder.bitcast(single(builder, args[0]), _I32)
        odd = builder.and_(builder.lshr(bits, ir.Constant(_I32, 16)), ir.Constant(_I32, 1))
        rounded = builder.add(bits, builder.add(odd, ir.Constant(_I32, 0x7FFF)))
        return builder.trunc(builder.lshr(rounded, ir.Constant(_I32, 16)), _I16)

    def same(context, builder, signature, args):
        return args[0]

    code = {types.int16: half, types.uint16: brain}.get(like, same)
    return like(value, like), code


@intrinsic
def _prefetch(typingctx, address):  # pyright: ignore[reportUnusedParameter]
    """Ask for the cache line at ``address``: the next row arrives while this one is worked on."""

    def code(context, builder, signature, args):
        i8 = ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [i8, _I32, _I32, _I32])
        call = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(
            call, [builder.inttoptr(args[0], i8), *(ir.Constant(_I32, v) for v in (0, 3, 1))]
        )
        return context.get_dummy_value()

    return types.void(types.uintp), code


@intrinsic
def _stream_line(typingctx, target, source):  # pyright: ignore[reportUnusedParameter]
    """Copy 64 bytes past the caches: a row that is written once need not be read into them first.

    16-byte aligned.
    """

    def code(context, builder, signature, args):
        vector = ir.VectorType(_I32, 4).as_pointer()
        hint = builder.module.add_metadata([ir.Constant(_I32, 1)])
        for part in range(4):
            offset = ir.Constant(args[0].type, 16 * part)
            value = builder.load(builder.inttoptr(builder.add(args[1], offset), vector), align=16)
            store = builder.store(
                value, builder.inttoptr(builder.add(args[0], offset), vector), align=16
            )
            store.set_metadata("nontemporal", hint)
        return context.get_dummy_value()

    return types.void(types.uintp, types.uintp), code


@intrinsic
def _fence(typingctx):  # pyright: ignore[reportUnusedParameter]
    """Make streamed lines reach memory before anything that comes after."""

    def code(context, builder, signature, args):
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), code


# Bytes. Where a store lies up to 256 bytes behind a load, the compiled loop goes number by number
# instead of in vectors, and sums round otherwise. Rows of 64 numbers keep that distance by
# themselves; shorter ones at the end of an array did not, and depended on where they lay.
APART = 512


@_jit
def _buffer(count, d, like):
    """Return (count, d) zeros of ``like``'s type that start with a cache line: a vector across two
    of them takes twice as long to load. They lie APART from whatever the memory holds before them.
    """
    flat = np.zeros(count * d + (APART + 64) // like.itemsize, like.dtype)
    skip = (APART + -flat.ctypes.data % 64) // like.itemsize
    return flat[skip : skip + count * d].reshape(count, d)


@_jit
def _room(right, left, out):
    """Return what a kernel works in: four rows, what is taken of them, their products with the
    axes, four numbers per row, a row of out, and a short rest.
    """
    rows, taken = _buffer(4, right.shape[1], right), _buffer(4, right.shape[1], right)
    numbers = np.ones((4, 4))
    return (
        rows,
        taken,
        np.zeros((4, left.shape[0]), right.dtype),
        numbers,
        _buffer(1, right.shape[1], out)[0],
        _buffer(1, right.shape[1], numbers)[0],
    )


@_jit
def _load(x, i, rows, b):
    """Load row i of x into row b; return its squared length."""
    n2 = rows.dtype.type(0)
    for k in range(rows.shape[1]):
        v = rows.dtype.type(_widen(x[i, k]))
        rows[b, k] = v
        n2 += v * v
    return n2


@_jit
def _load_pair(e, u, i, rows, b):
    """Load rows i of e and u into rows b and b + 1; return their squared lengths, and that of their
    difference.
    """
    number = rows.dtype.type
    e2 = u2 = gap2 = number(0)
    for k in range(rows.shape[1]):
        v, w = number(_widen(e[i, k])), number(_widen(u[i, k]))
        rows[b, k], rows[b + 1, k] = v, w
        e2 += v * v
        u2 += w * w
        gap2 += (w - v) * (w - v)
    return e2, u2, gap2


@_jit
def _rescale(rows, b, scale):
    n2 = rows.dtype.type(0)
    for k in range(rows.shape[1]):
        v = rows[b, k] * scale
        rows[b, k] = v
        n2 += v * v
    return n2


@_jit
def _dots(rows, right, c):
    """Compute ``c = rows @ right.T`` for four rows, two axes at a time: eight sums for six loads.

    c may have a column more, which stays.
    """
    zero = rows.dtype.type(0)
    rank = right.shape[0]
    for j in range(0, rank - 1, 2):
        a0 = a1 = b0 = b1 = c0 = c1 = d0 = d1 = zero
        for k in range(right.shape[1]):
            q0, q1 = right[j, k], right[j + 1, k]
            v = rows[0, k]
            a0 += v * q0
            a1 += v * q1
            v = rows[1, k]
            b0 += v * q0
            b1 += v * q1
            v = rows[2, k]
            c0 += v * q0
            c1 += v * q1
            v = rows[3, k]
            d0 += v * q0
            d1 += v * q1
        c[0, j], c[0, j + 1], c[1, j], c[1, j + 1] = a0, a1, b0, b1
        c[2, j], c[2, j + 1], c[3, j], c[3, j + 1] = c0, c1, d0, d1
    if rank % 2:
        a0 = b0 = c0 = d0 = zero
        for k in range(right.shape[1]):
            q0 = right[rank - 1, k]
            a0 += rows[0, k] * q0
            b0 += rows[1, k] * q0
            c0 += rows[2, k] * q0
            d0 += rows[3, k] * q0
        c[0, rank - 1], c[1, rank - 1], c[2, rank - 1], c[3, rank - 1] = a0, b0, c0, d0


@_jit
def _combine(c, left, taken, j):
    """Compute ``taken += c[:, j : j + 4] @ left[j : j + 4]``, or from j on, for four rows."""
    if j + 4 <= left.shape[0]:
        for b in range(0, 4, 2):
            e0, e1, e2, e3 = c[b, j], c[b, j + 1], c[b, j + 2], c[b, j + 3]
            f0, f1, f2, f3 = c[b + 1, j], c[b + 1, j + 1], c[b + 1, j + 2], c[b + 1, j + 3]
            for k in range(left.shape[1]):
                q0, q1, q2, q3 = left[j, k], left[j + 1, k], left[j + 2, k], left[j + 3, k]
                taken[b, k] += (e0 * q0 + e1 * q1) + (e2 * q2 + e3 * q3)
                taken[b + 1, k] += (f0 * q0 + f1 * q1) + (f2 * q2 + f3 * q3)
    else:
        for b in range(4):
            e0, e1 = c[b, j], c[b, j + 1]
            for k in range(left.shape[1]):
                taken[b, k] += e0 * left[j, k] + e1 * left[j + 1, k]


@_jit
def _rest2(rows, taken, b):
    o2 = rows.dtype.type(0)
    for k in range(rows.shape[1]):
        v = rows[b, k] - taken[b, k]
        o2 += v * v
    return o2


@_jit
def _outside(rows, b, axes, rest):
    """Write ``geometry.outside`` of row b into rest, in float64 and along the axes (r, d) as they
    were given; return the squared lengths of the row and of the rest.
    """
    n2 = o2 = 0.0
    for k in range(rest.size):
        rest[k] = rows[b, k]
        n2 += rest[k] * rest[k]
    for _ in range(2):
        for j in range(axes.shape[0]):
            c = 0.0
            for k in range(rest.size):
                c += rest[k] * axes[j, k]
            for k in range(rest.size):
                rest[k] -= c * axes[j, k]
    for k in range(rest.size):
        o2 += rest[k] * rest[k]
    return n2, o2


@_jit
def _weigh_short(rows, b, rest, k1, k2, line):
    """Do as ``_weigh`` does, with a rest that ``_outside`` took."""
    number = rows.dtype.type
    for k in range(line.size):
        line[k] = _narrow(number(k1 * rest[k] + k2 * (rows[b, k] - rest[k])), line[k])


@_jit
def _weigh(rows, taken, b, k1, k2, line):
    for k in range(line.size):
        line[k] = _narrow(k1 * (rows[b, k] - taken[b, k]) + k2 * taken[b, k], line[k])


@_jit
def _weigh_two(rows, b, k1, left, w0, w1, line):
    """Do as ``_weigh`` does, with what is taken along two axes, which need not be written down
    first.
    """
    for k in range(line.size):
        line[k] = _narrow(k1 * rows[b, k] + (w0 * left[0, k] + w1 * left[1, k]), line[k])


@_jit
def _scale(rows, b, factor, line):
    for k in range(line.size):
        line[k] = _narrow(rows[b, k] * factor, line[k])


@_jit
def _stream(source, target, size):
    for offset in range(0, size, 64):
        _stream_line(target + offset, source + offset)


@_jit
def _weights(p2, o, kind, parameter, norm):
    """Return ``(beta / o, shrink)``, by which the rest and the taken part of a unit row are
    multiplied.
    """
    kappa = parameter
    if kind == 1:
        kappa = _printed_kappa(p2, o, math.sqrt)
    elif kind == 2:
        kappa = _weighted_kappa(p2, o, parameter, math.sqrt)
    shrink, beta = _half_angle(p2, o, kappa, math.sqrt)
    return (1.0 if norm == 2 else beta / o), shrink


@_jit
def debias_rows(x, out, start, stop, right, left, *options):
    """Debias rows start to stop of x into out; see ``_debias`` for the rest."""
    _debias(x, out, start, stop, _room(right, left, out), right, left, *options)
    _fence()


@_jit
def _debias(
    x,
    out,
    start,
    stop,
    room,
    right,
    left,
    bias,
    orthogonal,
    axes,
    kind,
    value,
    norm,
    small,
    large,
    up,
    pure,
    unit,
    bad,
    far,
):
    """Debias rows, and set ``bad`` for rows that are left as they were. right: (r, d); left: (r + r
    % 2, d); ``value``: (1,), or one per row.

    orthogonal: right is left, of orthonormal rows, and there is no bias; ``axes`` is right in
    float64.
    far: past the caches, which is quicker for an array that is larger than they are, and slower for
    one that is read next.
    """
    rows, taken, c, numbers, line, rest = room
    n2, p2, scale = numbers[0], numbers[1], numbers[2]
    rank, number = right.shape[0], right.dtype.type
    size = line.size * line.itemsize
    x_address, out_address, line_address = x.ctypes.data, out.ctypes.data, line.ctypes.data
    stream = far and size % 64 == 0 and out_address % 16 == 0
    for first in range(start, stop, 4):
        count = min(4, stop - first)
        for b in range(count):
            n2[b] = _load(x, first + b, rows, b)
            scale[b] = 1.0
            if not small <= n2[b] <= large:
                scale[b] = up if n2[b] < small else 1 / up
                n2[b] = _rescale(rows, b, number(scale[b]))
        for offset in range(0, min(4, x.shape[0] - first - 4) * size, 64):
            _prefetch(x_address + (first + 4) * size + offset)
        _dots(rows, right, c)
        for b in range(count):
            p2[b] = 0.0
            for j in range(rank):
                p2[b] += np.float64(c[b, j]) * np.float64(c[b, j])
        if rank > 2 or not orthogonal:
            taken[:] = 0
            if bias.size:
                for b in range(count):
                    taken[b] = number(math.sqrt(n2[b])) * bias
            for j in range(0, left.shape[0], 4):
                _combine(c, left, taken, j)
        for b in range(count):
            i = first + b
            if not 0 < n2[b] < math.inf:
                bad[i] = True
                out[i] = x[i]
                continue
            n = math.sqrt(n2[b])
            parameter = value[i if value.size > 1 else 0]
            factor = 1 / scale[b] if norm == 1 else 1 / n  # to the length that the row shall have
            identity = kind == 0 and parameter == 0
            if identity and (norm == 1 or abs(n2[b] / (scale[b] * scale[b]) - 1) <= unit):
                out[i] = x[i]
                continue
            share = p2[b] / n2[b]
            short = orthogonal and share > HALF
            if short:
                whole, o2 = _outside(rows, b, axes, rest)
                share, o = 1 - o2 / whole, math.sqrt(o2 / whole)
            elif orthogonal:
                o = math.sqrt(1 - share)  # Pythagoras, which loses nothing here
            else:
                o = math.sqrt(_rest2(rows, taken, b) / n2[b])
            target = line if stream else out[i]
            if identity or o <= pure:  # Proposition 2, case B
                _scale(rows, b, number(factor), target)
            else:
                k1, k2 = _weights(share, o, kind, parameter, norm)
                k1, k2 = k1 * factor, k2 * factor
                if short:
                    _weigh_short(rows, b, rest, k1, k2, target)
                elif orthogonal and rank <= 2:
                    _weigh_two(
                        rows,
                        b,
                        number(k1),
                        left,
                        number((k2 - k1) * c[b, 0]),
                        number((k2 - k1) * c[b, 1]),
                        target,
                    )
                else:
                    _weigh(rows, taken, b, number(k1), number(k2), target)
            if stream:
                _stream(line_address, out_address + i * size, size)


@_jit
def _kept2(rows, keep):
    total = rows.dtype.type(0)
    for k in range(keep.size):
        v = rows[0, k] * keep[k]
        total += v * v
    return total


@_jit
def _replace(rows, keep, value, k1, k2, line):
    for k in range(line.size):
        line[k] = _narrow(k1 * (rows[0, k] * keep[k]) + k2 * value[k], line[k])


@_jit
def overwrite_rows(x, out, start, stop, keep, value, unit, small, large, up, pure, far):
    """Write rows start to stop of x into out: unit length, ``value`` where ``keep`` is 0, unit
    length again where asked for; both (d,).
    """
    rows, line = np.empty((1, keep.size), keep.dtype), np.empty(keep.size, out.dtype)
    number = keep.dtype.type
    size = line.size * line.itemsize
    x_address, out_address, line_address = x.ctypes.data, out.ctypes.data, line.ctypes.data
    stream = far and size % 64 == 0 and out_address % 16 == 0 and line_address % 16 == 0
    v2 = float((value * value).sum())
    for i in range(start, stop):
        n2 = float(_load(x, i, rows, 0))
        if not small <= n2 <= large:
            n2 = float(_rescale(rows, 0, number(up if n2 < small else 1 / up)))
        if i + 4 < stop:
            for offset in range(0, size, 64):
                _prefetch(x_address + (i + 4) * size + offset)
        if not 0 < n2 < math.inf:
            out[i] = x[i]
            continue
        n = math.sqrt(n2)
        length = math.sqrt(float(_kept2(rows, keep)) / n2 + v2)
        if length <= pure:  # nothing is left of it: it stays
            _scale(rows, 0, number(1 / n), line)
        else:
            k = 1 / length if unit else 1.0
            _replace(rows, keep, value, number(k / n), number(k), line)
        if stream:
            _stream(line_address, out_address + i * size, size)
        else:
            out[i] = line
    _fence()


@_jit
def _gap2(rows, a, scale_a, b, scale_b):
    """Return the squared distance of two rows, each times its scale."""
    total = rows.dtype.type(0)
    for k in range(rows.shape[1]):
        v = rows[a, k] * scale_a - rows[b, k] * scale_b
        total += v * v
    return total


@_jit
def _chord(rows, b, n, m, gap2, scaled):
    """Distance of the unit rows of b and b + 1, whose lengths are n and m, and whose own squared
    distance is gap2 where not ``scaled``.

    ``|u / m - e / n|^2 = (|u - e|^2 - (m - n)^2) / (m n)``, which loses nothing as long as the
    lengths differ by less than the directions.
    """
    turned = gap2 - (m - n) * (m - n)
    if not scaled and turned >= gap2 / 2:
        return math.sqrt(turned / (m * n))
    return math.sqrt(_gap2(rows, b, 1 / n, b + 1, 1 / m))


@_jit
def measure_rows(e, u, start, stop, basis, left, *options):
    """Measure rows start to stop of e and u; see ``_measure`` for the rest."""
    _measure(e, u, start, stop, _room(basis, left, basis), basis, left, *options)


@_jit
def _measure(
    e, u, start, stop, room, basis, _left, _bias, _orthogonal, axes, small, large, up, out
):
    """Write p, o, leakage, |u - e|, |e| and |u|, in float64, into out (6, n).

    basis (r, d); axes, which is the same.
    """
    rows, _, c, numbers, _, rest = room
    n, n2, scale, gap2 = numbers[0], numbers[1], numbers[2], numbers[3]
    rank = basis.shape[0]
    for first in range(start, stop, 2):
        count = 2 * min(2, stop - first)
        for b in range(0, count, 2):  # e, u, e, u
            n2[b], n2[b + 1], gap2[b] = _load_pair(e, u, first + b // 2, rows, b)
        for b in range(count):
            scale[b] = 1.0
            if not small <= n2[b] <= large:
                scale[b] = up if n2[b] < small else 1 / up
                n2[b] = _rescale(rows, b, scale[b])
            n[b] = math.sqrt(n2[b]) if 0 < n2[b] < math.inf else math.nan
        _dots(rows, basis, c)
        for b in range(0, count, 2):
            i = first + b // 2
            inside, leaked = 0.0, 0.0
            for j in range(rank):
                inside += c[b, j] * c[b, j]
                leaked += c[b + 1, j] * c[b + 1, j]
            out[0, i] = math.sqrt(inside) / n[b]
            out[2, i] = math.sqrt(leaked) / n[b + 1]
            out[3, i] = _chord(rows, b, n[b], n[b + 1], gap2[b], scale[b] != 1 or scale[b + 1] != 1)
            out[4, i] = n[b] / scale[b]
            out[5, i] = n[b + 1] / scale[b + 1]
            share = inside / (n[b] * n[b])
            if share <= HALF:  # Pythagoras, which loses nothing here
                out[1, i] = math.sqrt(1 - share)
            else:
                out[1, i] = math.sqrt(_outside(rows, b, axes, rest)[1]) / n[b]


@_jit
def debias_and_measure_rows(x, out, written, start, stop, debiasing, measuring):
    """Debias and measure a few rows at a time: they are measured while they are in the cache.

    ``written`` is ``out``, to read.
    """
    one, other = (
        _room(debiasing[0], debiasing[1], out),
        _room(measuring[0], measuring[1], measuring[0]),
    )
    for first in range(start, stop, TOGETHER):
        last = min(first + TOGETHER, stop)
        _debias(x, out, first, last, one, *debiasing)
        _measure(x, written, first, last, other, *measuring)
    _fence()
