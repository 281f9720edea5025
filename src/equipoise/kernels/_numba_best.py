"""The compiled half of ``best``: hold the pairs whose rough scores may matter, and score exactly
what is left of them.
"""

from __future__ import annotations

import math

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from equipoise.kernels._numba import FAST, compiler

STEP = 128  # rough scores that are compared before any of them is looked at alone

_jit = compiler(nogil=True, fastmath=FAST)


@intrinsic
def _bits(typingctx, score):  # pyright: ignore[reportUnusedParameter]
    """Return the bits of a float32."""

    def code(context, builder, signature, args):
        return builder.bitcast(args[0], ir.IntType(32))

    return types.uint32(types.float32), code


@intrinsic
def _from_bits(typingctx, bits):  # pyright: ignore[reportUnusedParameter]
    """Return the float32 of these bits."""

    def code(context, builder, signature, args):
        return builder.bitcast(args[0], ir.FloatType())

    return types.float32(types.uint32), code


@_jit
def _key(score, image):
    bits = np.uint64(_bits(np.float32(score) + np.float32(0)))
    ordered = bits ^ np.uint64(0xFFFFFFFF if bits >> np.uint64(31) else 0x80000000)
    return (ordered << np.uint64(32)) | (np.uint64(0xFFFFFFFF) - np.uint64(image))


@_jit
def _score(key):
    ordered = key >> np.uint64(32)
    return _from_bits(
        np.uint32(ordered ^ np.uint64(0x80000000 if ordered >> np.uint64(31) else 0xFFFFFFFF))
    )


@_jit
def _image(key):
    return np.int64(np.uint64(0xFFFFFFFF) - (key & np.uint64(0xFFFFFFFF)))


@_jit
def bound_of(floor, margin):
    return np.float32(-math.inf) if floor == 0 else np.float32(_score(floor) - margin)


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
def _exact(text, images, places, scores):
    """Return the scores of four places; always four together, so that every pair is summed in one
    order.
    """
    a, b, c, d = places[0], places[1], places[2], places[3]
    score_a = score_b = score_c = score_d = 0.0
    for i in range(text.size):
        t = text[i]
        score_a += t * np.float64(images[a, i])
        score_b += t * np.float64(images[b, i])
        score_c += t * np.float64(images[c, i])
        score_d += t * np.float64(images[d, i])
    scores[0], scores[1], scores[2], scores[3] = score_a, score_b, score_c, score_d


@_jit
def _settle(text, images, first, held):
    """Exact scores for the candidates of this window."""
    places, which, scores = np.empty(4, np.int64), np.empty(4, np.int64), np.empty(4)
    waiting = 0
    for h in range(held.size + 1):
        if h < held.size:
            if _image(held[h]) < first:
                continue
            places[waiting], which[waiting] = _image(held[h]) - first, h
            waiting += 1
        if waiting == 4 or (h == held.size and waiting):
            places[waiting:] = places[0]
            _exact(text, images, places, scores)
            for i in range(waiting):
                held[which[i]] = _key(scores[i], first + places[i])
            waiting = 0


@_jit
def _best(held, k):
    """Return the k best: the worst of them first, the others in no order."""
    return np.partition(held, held.size - k)[held.size - k :]


@_jit
def _sift(text, images, first, k, margin, held):
    """Drop, of more than k candidates, those that cannot be among the k best; returns how many are
    left, and the floor.
    """
    if math.isfinite(margin):
        kth = np.float64(_score(_best(held, k)[0]))
        left = 0
        for h in range(held.size):
            if _score(held[h]) >= kth - 2 * margin:
                held[left] = held[h]
                left += 1
        if left <= (held.size + k) // 2:
            return left, _key(kth - margin, 0xFFFFFFFF)
        held = held[:left]
    _settle(text, images, first, held)
    held[:k] = _best(held, k)
    return k, held[0]


@_jit
def hold(score, place, q, texts, images, first, k, margins, held, counts, floors):
    """Hold an image of the window, by its place there, with its rough score for text q; return
    whether the floor of the text rose.
    """
    n, rose = counts[q], False
    if n == held.shape[1]:
        n, sifted = _sift(texts[q], images, first, k, margins[q], held[q])
        rose = sifted > floors[q]
        floors[q] = max(floors[q], sifted)
    held[q, n] = _key(score, first + place)
    counts[q] = n + 1
    return rose


@_jit
def look(rough, at, texts, images, usable, first, k, margins, held, counts, floors):
    """Do as ``best.look`` does, but let candidates keep their rough scores."""
    found = np.empty(rough.shape[1] + 1, np.int64)
    for q in range(len(rough)):
        bound = bound_of(floors[q], margins[q])
        hits = 0
        for offset in range(0, rough.shape[1], STEP):
            part = rough[q, offset : min(offset + STEP, rough.shape[1])]
            if not _none_above(part, bound):
                hits = _find(part, bound, offset, found, hits)
        for h in range(hits):
            score, j = rough[q, found[h]], at + found[h]
            if score < bound or not usable[j]:
                continue
            if math.isnan(score):
                score = np.float32(math.inf)
            if hold(score, j, q, texts, images, first, k, margins, held, counts, floors):
                bound = bound_of(floors[q], margins[q])


@_jit
def settle(texts, images, usable, first, k, margins, held, counts, floors):
    """Do as ``best.settle`` does: what cannot be among the k best goes first, then come the exact
    scores of the others.
    """
    for q in range(len(texts)):
        n = counts[q]
        if n > k:
            n, _ = _sift(texts[q], images, first, k, margins[q], held[q, :n])
        _settle(texts[q], images, first, held[q, :n])
        if n > k:
            held[q, :k] = _best(held[q, :n], k)
            n = k
        if n == k:
            floors[q] = max(floors[q], held[q, :n].min())
        counts[q] = n
