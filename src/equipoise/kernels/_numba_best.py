"""The compiled half of ``best``: find the rough scores that may matter, score those pairs exactly, keep the best."""

from __future__ import annotations

import math

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from equipoise.kernels._numba import FAST, compiler

NEAR = 512  # images that stay in the second-level cache while all queries look at them
STEP = 128  # rough scores that are compared before any of them is looked at alone

_jit = compiler(nogil=True, fastmath=FAST)


@intrinsic
def _bits(typingctx, score):  # pyright: ignore[reportUnusedParameter]
    """The bits of a float32."""

    def code(context, builder, signature, args):
        return builder.bitcast(args[0], ir.IntType(32))

    return types.uint32(types.float32), code


@intrinsic
def _from_bits(typingctx, bits):  # pyright: ignore[reportUnusedParameter]
    """The float32 of these bits."""

    def code(context, builder, signature, args):
        return builder.bitcast(args[0], ir.FloatType())

    return types.float32(types.uint32), code


@_jit
def _key(score, image):
    bits = np.uint64(_bits(np.float32(score) + np.float32(0)))
    ordered = bits ^ np.uint64(0xFFFFFFFF if bits >> np.uint64(31) else 0x80000000)
    return (ordered << np.uint64(32)) | (np.uint64(0xFFFFFFFF) - np.uint64(image))


@_jit
def _bound(floor, margin):
    if floor == 0:
        return np.float32(-math.inf)
    ordered = floor >> np.uint64(32)
    bits = ordered ^ np.uint64(0x80000000 if ordered >> np.uint64(31) else 0xFFFFFFFF)
    return np.float32(_from_bits(np.uint32(bits)) - margin)


@_jit
def _none_above(rough, bound):
    hits = np.int32(0)
    for j in range(rough.size):
        hits += np.int32(not rough[j] < bound)  # NaN, where a sum overflowed, may matter
    return hits == 0


@_jit
def _find(rough, bound, offset, found, hits):
    """Add the places that may matter to ``found``, without a branch; returns how many it holds."""
    for j in range(rough.size):
        found[hits] = offset + j
        hits += not rough[j] < bound
    return hits


@_jit
def _exact(texts, q, images, places, at, scores):
    """Scores of four places; always four together, so that every pair is summed in one order."""
    a, b, c, d = places[at], places[at + 1], places[at + 2], places[at + 3]
    score_a = score_b = score_c = score_d = 0.0
    for i in range(texts.shape[1]):
        t = texts[q, i]
        score_a += t * np.float64(images[a, i])
        score_b += t * np.float64(images[b, i])
        score_c += t * np.float64(images[c, i])
        score_d += t * np.float64(images[d, i])
    scores[0], scores[1], scores[2], scores[3] = score_a, score_b, score_c, score_d


@_jit
def offer(rough, texts, images, usable, first, k, margins, held, counts, floors):
    """As ``best.offer``."""
    room = held.shape[1]
    found, scores = np.empty(NEAR + 4, np.int64), np.empty(4)
    for near in range(0, rough.shape[1], NEAR):
        far = min(near + NEAR, rough.shape[1])
        for q in range(len(rough)):
            n, floor = counts[q], floors[q]
            bound = _bound(floor, margins[q])
            hits = 0
            for offset in range(near, far, STEP):
                part = rough[q, offset : min(offset + STEP, far)]
                if not _none_above(part, bound):
                    hits = _find(part, bound, offset, found, hits)
            if hits:
                found[hits : hits + 3] = found[hits - 1]
            for h in range(hits):
                if h % 4 == 0:
                    _exact(texts, q, images, found, h, scores)
                j = found[h]
                if not usable[j]:
                    continue
                key = _key(scores[h % 4], first + j)
                if key > floor and n == room:
                    best = np.partition(held[q], room - k)[room - k :]
                    held[q, :k] = best
                    n, floor = k, best[0]
                if key > floor:
                    held[q, n] = key
                    n += 1
            counts[q], floors[q] = n, floor
