"""Rough scores from 16-bit integers: a search rules pairs out twice as fast as in float32.

Texts and images are scaled to a length just under 2**15 and rounded. Their products are then whole
numbers below 2**30, so that no sum overflows and none is rounded: all that is lost was lost when
the operands were rounded, which ``rounding`` bounds. Pairs that stay under their text's bound are
compared in registers and leave no trace; the others are held as ``_numba_best`` holds them.
"""

from __future__ import annotations

import math

import numpy as np
from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from equipoise.kernels._numba import FAST, compiler
from equipoise.kernels._numba_best import bound_of, hold

LARGEST = 32_767  # of int16
TEXTS, VECTORS, LANES = 6, 4, 16  # 6 x 4 vectors of sums, which are 24 of 32 registers
IMAGES = VECTORS * LANES
# Rounding to a whole number moves an entry by half, and its product with a float32 scale by 0.002.
MOVED = 0.51

_I32 = ir.IntType(32)
_ROW = ir.VectorType(_I32, LANES)
_PAIRS = ir.VectorType(ir.IntType(16), 2 * LANES)
_jit = compiler(nogil=True, fastmath=FAST)


def available() -> bool:
    """Return whether the processor multiplies and adds pairs of int16 in one instruction."""
    return bool(binding.get_host_cpu_features().get("avx512vnni"))


def length_in_integers(dim: int) -> float:
    """Return the length that rows are scaled to; rounded, they have LARGEST at most."""
    return LARGEST - MOVED * math.sqrt(dim) - 1


def rounding(dim: int) -> float:
    """Return how far a product of two rounded unit rows may be from that of the rows.

    By Cauchy and Schwarz, ``<t, x> - <t', x'> = <t - t', x'> + <t, x - x'>`` is at most ``m (1 + m)
    + m``, where m bounds the length of what rounding moved.
    """
    moved = MOVED * math.sqrt(dim) / length_in_integers(dim)
    return moved * (2 + moved)


def _offset(builder, address, count):
    return builder.add(address, ir.Constant(address.type, count))


def _load_images(builder, address):
    """Return four vectors of 16 images, two entries of each."""
    columns = []
    for v in range(VECTORS):
        at = builder.inttoptr(_offset(builder, address, 64 * v), _ROW.as_pointer())
        columns.append(builder.bitcast(builder.load(at, align=64), _PAIRS))
    return columns


def _load_text(builder, address):
    """Return two entries of a text, in every lane."""
    word = builder.load(builder.inttoptr(address, _I32.as_pointer()), align=4)
    nowhere, first = ir.Constant(_ROW, ir.Undefined), ir.Constant(_ROW, [0] * LANES)
    alone = builder.insert_element(nowhere, word, ir.Constant(_I32, 0))
    return builder.bitcast(builder.shuffle_vector(alone, nowhere, first), _PAIRS)


def _add_products(builder, sums, text_address, image_address):
    """Return the sums with the products of two entries more of each text and image.

    LLVM makes one instruction of the product of pairs and the sum.
    """
    kind = ir.FunctionType(_ROW, [_PAIRS, _PAIRS])
    name = "llvm.x86.avx512.pmaddw.d.512"
    multiply = cgutils.get_or_insert_function(builder.module, kind, name)
    columns = _load_images(builder, image_address)
    added = []
    for t in range(TEXTS):
        text = _load_text(builder, _offset(builder, text_address, 4 * t))
        for v in range(VECTORS):
            product = builder.call(multiply, [columns[v], text])
            added.append(builder.add(sums[t * VECTORS + v], product))
    return added


@intrinsic
def _products(typingctx, texts, images, pairs, sums):  # pyright: ignore[reportUnusedParameter]
    """Write the products of 6 texts with 64 images.

    Addresses of texts (pairs, 6, 2) and images (pairs, 64, 2), int16, and of sums (6, 64), int32.
    All sums stay in registers until the last pair.
    """

    def code(context, builder, signature, args):
        text, image, count, out = args
        zero = ir.Constant(_ROW, [0] * LANES)
        before = builder.block
        loop, after = builder.append_basic_block("pairs"), builder.append_basic_block("after")
        builder.branch(loop)
        builder.position_at_end(loop)
        k, sums = builder.phi(count.type), [builder.phi(_ROW) for _ in range(TEXTS * VECTORS)]
        text_address = builder.add(text, builder.mul(k, ir.Constant(k.type, 4 * TEXTS)))
        image_address = builder.add(image, builder.mul(k, ir.Constant(k.type, 4 * IMAGES)))
        added = _add_products(builder, sums, text_address, image_address)
        following = _offset(builder, k, 1)
        k.add_incoming(ir.Constant(k.type, 0), before)
        k.add_incoming(following, loop)
        for phi, value in zip(sums, added, strict=True):
            phi.add_incoming(zero, before)
            phi.add_incoming(value, loop)
        builder.cbranch(builder.icmp_signed("<", following, count), loop, after)
        builder.position_at_end(after)
        for i, value in enumerate(added):
            at = builder.inttoptr(_offset(builder, out, 64 * i), _ROW.as_pointer())
            builder.store(value, at, align=64)
        return context.get_dummy_value()

    return types.void(types.intp, types.intp, types.intp, types.intp), code


@_jit
def _aligned(words):
    """Return int32 zeros that start with a cache line."""
    flat = np.zeros(words + 16, np.int32)
    skip = -flat.ctypes.data % 64 // 4
    return flat[skip : skip + words]


@_jit
def _pack_texts(texts, scales):
    """Return texts (n, d), each times its scale, as integers: (groups, pairs, 6, 2) int16."""
    n, d = texts.shape
    groups, pairs = -(-n // TEXTS), -(-d // 2)
    packed = np.zeros((groups, pairs, TEXTS, 2), np.int16)
    for q in range(n):
        for i in range(d):
            whole = np.int16(np.rint(texts[q, i] * scales[q]))
            packed[q // TEXTS, i // 2, q % TEXTS, i % 2] = whole
    return packed


@_jit
def _pack_images(images, usable, start, count, scale, row, packed):
    """Write ``count`` images from ``start`` on as integers into packed (pairs, 64, 2), int16.

    Rows that are not usable are zero. ``row`` is memory for one of them.
    """
    d = images.shape[1]
    for j in range(IMAGES):
        if j < count and usable[start + j]:
            for i in range(d):
                row[i] = np.int16(np.rint(images[start + j, i] * scale))
        else:
            row[:] = 0
        words = row.view(np.int32)
        for p in range(words.size):
            packed[p, j] = words[p]


@_jit
def _any_above(sums, bound):
    hits = np.int32(0)
    for j in range(sums.size):
        hits += np.int32(sums[j] >= bound)
    return hits > 0


@_jit
def _whole_bound(bound, unit):
    """Return the whole number under which no sum times its unit reaches the bound."""
    if not bound > -math.inf or unit == 0:
        return np.int32(-(1 << 30) - 1)
    whole = math.floor(bound / unit) - 1
    return np.int32(max(min(whole, float(1 << 30)), -float(1 << 30) - 1))


@_jit
def look_through(
    rough_images,
    longest,
    lengths,
    length,
    texts,
    images,
    usable,
    first,
    k,
    margins,
    held,
    counts,
    floors,
):
    """Hold the pairs of some texts and a window of images that may matter.

    longest: no usable image is longer. lengths: of the texts. length: what both are scaled to, as
    integers. The others are as in ``_numba_best.look``, and the margins know of the rounding.
    """
    scales, units = np.zeros(len(texts)), np.zeros(len(texts))
    bounds = np.empty(len(texts), np.int32)
    for q in range(len(texts)):
        if lengths[q] > 0:
            scales[q], units[q] = length / lengths[q], lengths[q] * longest / (length * length)
        bounds[q] = _whole_bound(bound_of(floors[q], margins[q]), units[q])
    packed_texts = _pack_texts(texts, scales)
    groups, pairs = packed_texts.shape[0], packed_texts.shape[1]
    packed = _aligned(pairs * IMAGES).reshape(pairs, IMAGES)
    sums = _aligned(TEXTS * IMAGES).reshape(TEXTS, IMAGES)
    row = np.zeros(2 * pairs, np.int16)
    scale = np.float32(length / longest)
    for start in range(0, len(images), IMAGES):
        count = min(IMAGES, len(images) - start)
        _pack_images(rough_images, usable, start, count, scale, row, packed)
        for g in range(groups):
            _products(packed_texts[g].ctypes.data, packed.ctypes.data, pairs, sums.ctypes.data)
            for t in range(min(TEXTS, len(texts) - g * TEXTS)):
                q = g * TEXTS + t
                if not _any_above(sums[t], bounds[q]):
                    continue
                for j in range(count):
                    if sums[t, j] < bounds[q] or not usable[start + j]:
                        continue
                    score = np.float32(sums[t, j] * units[q])
                    pair = score, start + j, q
                    if hold(*pair, texts, images, first, k, margins, held, counts, floors):
                        bound = bound_of(floors[q], margins[q])
                        bounds[q] = _whole_bound(bound, units[q])
