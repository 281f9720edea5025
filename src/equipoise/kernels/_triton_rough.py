"""Triton kernels for rough scores, and for the images that they do not rule out.

A text becomes a direction: a half-width row of length one. An image becomes a half-width row too,
times a power of two where it is not stored in half width. Each image has a slack: for no text is
its rough score further than that from its exact score. So an image is ruled out where rough score
plus slack are below a threshold that k images reach. The slack of a row that is not finite is NaN;
no comparison with NaN is true, so such a row is never found.
"""

from __future__ import annotations

import math

import triton
import triton.language as tl

TERM = 2.0**-22  # of a term of a sum: matrix units drop the bits that float32 would round
TIE = 2.0**-22  # exact scores this near may be equal once they are rounded to float32
HALF_MAX = tl.constexpr(65504.0)
EXPONENTS = tl.constexpr((-126, 100))  # of a scale; beyond, float32 holds no digits of the rows
LARGEST = tl.constexpr(4)  # exponent of the largest number of the usual row, once it is scaled
SPREAD = tl.constexpr(2654435769)  # 2^32 over the golden ratio: its multiples are spread evenly


def slack_terms(dim: int) -> dict[str, float]:
    """Return what the slack of a row of ``dim`` numbers is made of.

    LONG: times its length. By Cauchy and Schwarz, what moved a row moves a score by no more than
    the other row's length, and rounding moves a direction by half a unit of each number at most.
    MOVED: times by how much rounding moved the row. LEAST: for numbers so small that float32 does
    not hold their squares.
    """
    moved = 2.0**-11 + math.sqrt(dim) * 2.0**-25
    summed = 1.1 * (dim + 2) * TERM + TIE
    spare = 1.01 + dim * 2.0**-23  # lengths are sums in float32 themselves
    return {
        "LONG": spare * (moved + (1 + moved) * summed),
        "MOVED": spare * (1 + moved),
        "LEAST": spare * math.sqrt(dim) * 2.0**-48,
    }


@triton.jit
def direction_kernel(texts, directions, lengths, D: tl.constexpr, D2: tl.constexpr):
    """Write the direction of a text, and its length, which is 1 for a text of zeros."""
    text = tl.program_id(0)
    cols = tl.arange(0, D2)
    t = tl.load(texts + text * D + cols, cols < D, other=0).to(tl.float64)
    length = tl.sqrt(tl.sum(t * t, 0))
    length = tl.where(length > 0, length, 1.0)
    tl.store(directions + text * D + cols, (t / length).to(tl.float16), cols < D)
    tl.store(lengths + text, length)


@triton.jit
def _picks(places, sampled, n):
    """Return which rows stand for all n: one from each of ``sampled`` parts, at no fixed place."""
    start = places * n // sampled
    within = (places * SPREAD % 4294967296) * (n // sampled) // 4294967296
    return start + within


@triton.jit
def _exponent(x):
    """Return the exponent of positive floats; -127 for 0 and what is nearly 0."""
    return (x.to(tl.int32, bitcast=True) >> 23) - 127


@triton.jit(do_not_specialize=["n"])
def scale_kernel(
    images, scale, n, row_stride, col_stride,
    D: tl.constexpr, D2: tl.constexpr, PICKED: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Write the power of two that brings a few rows into the range of half width."""
    cols = tl.arange(0, D2)
    largest = tl.zeros([ROWS], tl.float32)
    for first in range(0, PICKED, ROWS):
        rows = _picks(first + tl.arange(0, ROWS).to(tl.int64), PICKED, n)
        cells = rows[:, None] * row_stride + cols[None, :].to(tl.int64) * col_stride
        x = tl.abs(tl.load(images + cells, (cols < D)[None, :], other=0).to(tl.float32))
        x = tl.where(x < float("inf"), x, 0.0)
        largest = tl.maximum(largest, tl.max(x, 1))
    exponent = -_exponent(tl.max(largest, 0)) + LARGEST
    exponent = tl.minimum(tl.maximum(exponent, EXPONENTS[0]), EXPONENTS[1])
    tl.store(scale, ((exponent + 127) << 23).to(tl.float32, bitcast=True))


@triton.jit
def _factor(scale):
    """Return what rows are multiplied by; rows of half width stay as they are."""
    if scale is None:
        return 1.0
    else:
        return tl.load(scale)


@triton.jit
def _shortened(x, scale):
    """Return rows in half width; and the sums of squares of what they were, and of what rounding
    took away; and 0, or NaN for a row that is not finite.
    """
    wide = x.to(tl.float32)
    if x.dtype == tl.float16:
        length2 = tl.sum(wide * wide, 1)  # beyond float32 only where a number is
        return x, length2, length2 * 0, length2 * 0
    else:
        lost = tl.sum(wide * 0, 1)
        wide = wide * scale
        short = tl.minimum(tl.maximum(wide, -HALF_MAX), HALF_MAX).to(tl.float16)
        gone = wide - short.to(tl.float32)
        return short, tl.sum(wide * wide, 1), tl.sum(gone * gone, 1), lost


@triton.jit
def _slack(length2, moved2, lost, LONG: tl.constexpr, MOVED: tl.constexpr, LEAST: tl.constexpr):
    return tl.sqrt(length2) * LONG + tl.sqrt(moved2) * MOVED + LEAST + lost


@triton.jit
def _rough(
    directions, images, scale, asked, rows, row_stride, col_stride,
    LONG: tl.constexpr, MOVED: tl.constexpr, LEAST: tl.constexpr, MEASURE: tl.constexpr,
    D: tl.constexpr, BN: tl.constexpr, BQ: tl.constexpr, BD: tl.constexpr,
):  # fmt: skip
    """Return rough scores (rows, asked), and slacks where they are to be measured.

    One read of the rows gives both. Rows that are not measured are in half width.
    """
    scores = tl.zeros([BN, BQ], tl.float32)
    length2 = tl.zeros([BN], tl.float32)
    moved2 = tl.zeros([BN], tl.float32)
    lost = tl.zeros([BN], tl.float32)
    factor = _factor(scale)
    for first in range(0, D, BD):
        cols = first + tl.arange(0, BD)
        inside = cols < D
        cells = rows[:, None] * row_stride + cols[None, :].to(tl.int64) * col_stride
        x = tl.load(images + cells, inside[None, :], other=0)
        t = tl.load(directions + asked[None, :] * D + cols[:, None], inside[:, None], other=0)
        if MEASURE:
            short, more_length2, more_moved2, more_lost = _shortened(x, factor)
            length2 += more_length2
            moved2 += more_moved2
            lost += more_lost
            # subtracted, which the matrix units cannot, so that it is awaited: Triton 3.6 gives x,
            # which has two readers, one buffer too few for a product in flight (docs/benchmarks.md)
            scores -= tl.dot(short, t)
        else:
            scores = tl.dot(x, t, scores)
    if MEASURE:
        scores = -scores
    return scores, _slack(length2, moved2, lost, LONG, MOVED, LEAST)


@triton.jit(do_not_specialize=["texts", "n", "sampled"])
def sample_kernel(
    directions, images, scale, best, texts, n, sampled, row_stride, col_stride,
    LONG: tl.constexpr, MOVED: tl.constexpr, LEAST: tl.constexpr,
    D: tl.constexpr, BN: tl.constexpr, BQ: tl.constexpr, BD: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """Write what the best row of each group of a sample has at least (texts, groups).

    The rows of a group lie far apart, so that alike neighbours do not share one.
    """
    queries = tl.program_id(0) * BQ + tl.arange(0, BQ)
    asked = tl.minimum(queries, texts - 1)
    groups = sampled // GROUP
    places = tl.program_id(1).to(tl.int64) * BN + tl.arange(0, BN)
    rows = _picks(places % GROUP * groups + places // GROUP, sampled, n)
    scores, slack = _rough(
        directions, images, scale, asked, rows, row_stride, col_stride,
        LONG, MOVED, LEAST, True, D, BN, BQ, BD,
    )  # fmt: skip
    least = scores - slack[:, None]
    least = tl.where(least == least, least, float("-inf"))  # noqa: PLR0124, NaN differs from itself
    top = tl.max(tl.reshape(least, [BN // GROUP, GROUP, BQ]), 1)
    group = tl.program_id(1) * (BN // GROUP) + tl.arange(0, BN // GROUP)
    tl.store(best + queries[None, :] * groups + group[:, None], top, (queries < texts)[None, :])


@triton.jit(do_not_specialize=["n"])
def shorten_kernel(
    images, scale, short, slack, n, row_stride, col_stride,
    LONG: tl.constexpr, MOVED: tl.constexpr, LEAST: tl.constexpr,
    D: tl.constexpr, BN: tl.constexpr, BD: tl.constexpr,
):  # fmt: skip
    """Write the slacks of rows, and the rows in half width unless ``short`` is None."""
    rows = tl.program_id(0).to(tl.int64) * BN + tl.arange(0, BN)
    length2 = tl.zeros([BN], tl.float32)
    moved2 = tl.zeros([BN], tl.float32)
    lost = tl.zeros([BN], tl.float32)
    factor = _factor(scale)
    for first in range(0, D, BD):
        cols = first + tl.arange(0, BD)
        inside = (rows < n)[:, None] & (cols < D)[None, :]
        cells = rows[:, None] * row_stride + cols[None, :].to(tl.int64) * col_stride
        some, more_length2, more_moved2, more_lost = _shortened(
            tl.load(images + cells, inside, other=0), factor
        )
        length2 += more_length2
        moved2 += more_moved2
        lost += more_lost
        if short is not None:
            tl.store(short + rows[:, None] * D + cols[None, :], some, inside)
    tl.store(slack + rows, _slack(length2, moved2, lost, LONG, MOVED, LEAST), rows < n)


@triton.jit(do_not_specialize=["texts", "n", "words"])
def filter_kernel(
    directions, images, scale, slack, thresholds, flags, texts, n, row_stride, col_stride, words,
    LONG: tl.constexpr, MOVED: tl.constexpr, LEAST: tl.constexpr,
    D: tl.constexpr, BN: tl.constexpr, BQ: tl.constexpr, BD: tl.constexpr, WORD: tl.constexpr,
):  # fmt: skip
    """Write one bit per image and text, WORD texts to a word: whether the image may be found.

    Slacks are measured here where they are None. Programs that share images run side by side.
    """
    tiles = tl.cdiv(texts, BQ)
    tile = tl.program_id(0) % tiles
    rows = (tl.program_id(0) // tiles).to(tl.int64) * BN + tl.arange(0, BN)
    queries = tile * BQ + tl.arange(0, BQ)
    scores, slacks = _rough(
        directions, images, scale, tl.minimum(queries, texts - 1), tl.minimum(rows, n - 1),
        row_stride, col_stride, LONG, MOVED, LEAST, slack is None, D, BN, BQ, BD,
    )  # fmt: skip
    if slack is not None:
        slacks = tl.load(slack + rows, rows < n, other=0)
    threshold = tl.load(thresholds + queries, queries < texts, other=float("nan"))
    bits = (1 << (tl.arange(0, BQ) % WORD))[None, :]
    bits = tl.where(scores + slacks[:, None] >= threshold[None, :], bits, 0)
    word = tile * (BQ // WORD) + tl.arange(0, BQ // WORD)
    cells = flags + rows[:, None] * words + word[None, :]
    inside = (rows < n)[:, None] & (word < words)[None, :]
    tl.store(cells, tl.sum(tl.reshape(bits, [BN, BQ // WORD, WORD]), 2), inside)


@triton.jit(do_not_specialize=["first", "n", "words", "capacity"])
def collect_kernel(
    flags, counts, candidates, first, n, words, capacity,
    WORD: tl.constexpr, WORDS: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """Append each image to the candidates of the texts whose bits it has, in any order.

    ``counts`` goes on counting where the candidates' capacity is reached.
    """
    rows = tl.program_id(0).to(tl.int64) * BN + tl.arange(0, BN)
    word = tl.arange(0, WORDS)
    inside = (rows < n)[:, None] & (word < words)[None, :]
    left = tl.load(flags + rows[:, None] * words + word[None, :], inside, other=0)
    images = (first + rows)[:, None] + tl.zeros([BN, WORDS], tl.int64)
    while tl.max(tl.where(left != 0, 1, 0)) > 0:
        lowest = left & -left
        power = lowest.to(tl.uint32, bitcast=True).to(tl.float32)
        text = word[None, :] * WORD + _exponent(power)
        found = left != 0
        place = tl.atomic_add(counts + text, 1, found, sem="relaxed")
        cells = candidates + text.to(tl.int64) * capacity + place
        tl.store(cells, images, found & (place < capacity))
        left = left ^ lowest
