"""Triton kernels for the exact scores of candidates, as keys: the larger key is the better image.

A key is the float32 score's bits, made to sort like the score, above the image's index counted
down. So of equal scores the lower index has the larger key, and no two keys are equal.
"""

from __future__ import annotations

import triton
import triton.language as tl

NOTHING = tl.constexpr(-(1 << 63))  # less than every key
LOW = tl.constexpr(0xFFFFFFFF)
UNSIGNED = tl.constexpr(0x7FFFFFFF)


@triton.jit(do_not_specialize=["capacity"])
def key_kernel(
    texts, images, counts, candidates, capacity, row_stride, col_stride,
    D: tl.constexpr, BD: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """Write the key of each candidate in its place; a score is a sum in float64, then rounded."""
    blocks = tl.cdiv(capacity, BN)
    text = tl.program_id(0) // blocks
    places = tl.program_id(0) % blocks * BN + tl.arange(0, BN)
    cells = candidates + text.to(tl.int64) * capacity + places
    live = places < tl.minimum(tl.load(counts + text), capacity)
    rows = tl.load(cells, live, other=0)
    keys = tl.full([BN], NOTHING, tl.int64)
    if tl.max(tl.where(live, 1, 0), 0) > 0:
        score = _exact(texts + text * D, images, rows, live, row_stride, col_stride, D, BD, BN)
        keys = tl.where(live, _key(score, rows), keys)
    tl.store(cells, keys, places < capacity)


@triton.jit
def _exact(
    text, images, rows, live, row_stride, col_stride,
    D: tl.constexpr, BD: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    score = tl.zeros([BN], tl.float64)
    for first in range(0, D, BD):
        cols = first + tl.arange(0, BD)
        inside = cols < D
        t = tl.load(text + cols, inside, other=0).to(tl.float64)
        cells = rows[:, None] * row_stride + cols[None, :].to(tl.int64) * col_stride
        x = tl.load(images + cells, live[:, None] & inside[None, :], other=0).to(tl.float64)
        score += tl.sum(x * t[None, :], 1)
    score = score.to(tl.float32)
    return tl.where(score == 0, 0.0, score)  # -0 becomes 0


@triton.jit
def _key(score, rows):
    bits = score.to(tl.int32, bitcast=True)
    return (_sortable(bits).to(tl.int64) << 32) | (rows ^ LOW)


@triton.jit
def _score(key):
    return _sortable((key >> 32).to(tl.int32)).to(tl.float32, bitcast=True)


@triton.jit
def _sortable(bits):
    """Return the bits of floats as integers that sort alike, and such integers as bits."""
    return bits ^ ((bits >> 31) & UNSIGNED)


@triton.jit(do_not_specialize=["capacity", "k"])
def answer_kernel(
    keys, counts, thresholds, lengths, scale, indices, scores, settled, capacity, k,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Write the index and score of each key (texts, k), and whether no other image can be there.

    That is settled where there was room for all candidates, and the k-th best of them scores more
    than any image that the threshold ruled out.
    """
    block, text = tl.program_id(0), tl.program_id(1).to(tl.int64)
    places = block * BLOCK + tl.arange(0, BLOCK)
    key = tl.load(keys + text * k + places, places < k, other=0)
    tl.store(indices + text * k + places, (key & LOW) ^ LOW, places < k)
    tl.store(scores + text * k + places, _score(key), places < k)
    if block == 0:
        worst = _score(tl.load(keys + text * k + k - 1))
        most = tl.load(thresholds + text).to(tl.float64) * tl.load(lengths + text)
        if scale is not None:
            most /= tl.load(scale)
        room = tl.load(counts + text) <= capacity
        tl.store(settled + text, room & (worst > most.to(tl.float32)))
