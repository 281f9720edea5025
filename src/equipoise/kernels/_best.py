"""The k best images of each query, from windows of images that are seen once, in order.

A float32 product of some queries with a block of a window gives rough scores. Its rounding has a
bound, so a pair whose rough score is further than that below the k-th best so far is out. The few
others are held. What is still held at the end of its window, while its row is at hand, is scored
again in float64, always in the same order of summation, and rounded to float32. So neither the size
of the blocks nor the library behind the product has a say in the result. Where there are many
queries and the processor can, whole numbers take the place of float32 (``_numba_integers``).

A candidate is one unsigned number: its score's bits, made to sort like the score, above its image's
index counted down. The larger number is the better candidate, and of equal scores the lower index
wins. 0 is no candidate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import ThreadpoolController

from equipoise.kernels import _host as host

MOST_IMAGES = 1 << 32
TILE = 1024  # queries in one product
SPARE = 256  # candidates held beyond k, or k if that is more, before the worst are dropped
FEWEST = 64  # texts per thread that pay for packing the images as integers
SCALED = 1e15  # lengths beyond this, or under its inverse, are not scaled to integers
_LOW = np.uint64(0xFFFFFFFF)
_SIGN = np.uint64(0x80000000)
_HALF = np.uint64(32)


class Adjustment(NamedTuple):
    """A second ranking of the same images: by ``s - lam . a``, where image i has memberships a_i.

    It needs no product of its own. texts (queries, d): the inner product with them is the exact
    adjusted score. lams (queries, r). slack (queries,): how far ``s - lam . a`` may be from that
    score, beside the rounding of s. k: how many images to find.
    """

    texts: np.ndarray
    lams: np.ndarray
    slack: np.ndarray
    k: int


@dataclass
class WindowRows:
    """What is known of the rows (n, d) of a window, for later searches of the same rows.

    usable (n,): which rows are finite; None until they were looked at. reach: no such row is
    longer.
    """

    usable: np.ndarray | None = None
    reach: float = 0.0


@dataclass
class WindowScores:
    """The rough scores (1, n) of one text with a window, for more rankings; None until then."""

    rows: WindowRows
    scores: np.ndarray | None = None


class Best:
    """The k best images of each text (queries, d), float64 and finite in float32, and of each
    adjustment.

    ``offer`` windows in order, then read ``result``.
    """

    def __init__(self, texts: np.ndarray, k: int, adjustments: Sequence[Adjustment] = ()):
        self.rough_texts = texts.astype(np.float32)
        self.lengths = np.linalg.norm(texts, axis=1)
        self.plain = HeldCandidates(texts, k)
        self.adjusted = [HeldCandidates(one.texts, one.k) for one in adjustments]
        self.adjustments = adjustments
        self.rough_lams = [one.lams.astype(np.float32) for one in adjustments]
        self.scratch: dict[tuple[int, str], np.ndarray] = {}
        self.seen = self.usable = 0
        # Each thread runs products of its own: the BLAS's threads spin for a while after theirs,
        # and would take the time of ours.
        self.blas = ThreadpoolController()

    def offer(
        self,
        images: np.ndarray,
        block: int,
        memberships: np.ndarray | None = None,
        kept: WindowScores | None = None,
    ) -> None:
        """Take the next window (n, d), and multiply it block by block.

        Rows that are not finite in float32 are passed over. memberships (n, r): finite, float32,
        for the adjustments. kept: of one text alone; takes its scores with this window, or saves
        the product where it has them.
        """
        with np.errstate(over="ignore"):
            rough_images = np.ascontiguousarray(images, np.float32)
        exact_images = _fixed(
            np.ascontiguousarray(images, np.float64)
            if images.dtype.name == "float64"
            else rough_images
        )
        usable, reach = _measured(rough_images, None if kept is None else kept.rows)
        known = kept is not None and kept.scores is not None
        scores = None
        if kept is not None:
            scores = kept.scores if known else np.empty((1, len(images)), np.float32)
        margins = _margins(self.lengths * reach, images.shape[1])
        integers = None if kept is not None else self._integers(reach)
        if integers is not None:
            margins += self.lengths * reach * integers.rounding(images.shape[1])
        for ranking in (self.plain, *self.adjusted):
            ranking.make_room(len(images))
        look, settle = _kernels()

        def work(start: int, stop: int) -> None:
            for first in range(start, stop, TILE):
                tile = slice(first, min(first + TILE, stop))
                shown = exact_images, usable, self.seen
                plain = self.plain.window(tile, *shown, margins)
                if integers is not None:
                    length = integers.length_in_integers(images.shape[1])
                    scaled = rough_images, reach, self.lengths[tile], length
                    integers.look_through(*scaled, *plain)
                    settle(*plain)
                    continue
                adjusted = [
                    ranking.window(tile, *shown, margins + one.slack)
                    for ranking, one in zip(self.adjusted, self.adjustments, strict=True)
                ]
                for at in range(0, len(images), block):
                    columns = rough_images[at : at + block]
                    if scores is None:
                        rough = self._scratch(start, "scores", (tile.stop - first, len(columns)))
                    else:
                        rough = scores[:, at : at + len(columns)]
                    with np.errstate(over="ignore", invalid="ignore"):
                        if not known:
                            np.matmul(self.rough_texts[tile], columns.T, out=rough)
                        look(rough, at, *plain)
                    for lams, window in zip(self.rough_lams, adjusted, strict=True):
                        assert memberships is not None
                        moved = self._scratch(start, "adjusted", rough.shape)
                        near = memberships[at : at + block]
                        np.matmul(lams[tile], near.T, out=moved)
                        np.subtract(rough, moved, out=moved)
                        look(moved, at, *window)
                for window in (plain, *adjusted):
                    settle(*window)

        texts = len(self.rough_texts)
        with self.blas.limit(limits=1, user_api="blas"):
            host.spread(work, texts, 4 * texts * len(images), pieces=1)
        if kept is not None:
            kept.scores = scores
        self.seen += len(images)
        self.usable += int(usable.sum())

    def _integers(self, longest: float) -> Any:
        """Return the module that looks through a window in integers, where that is quicker.

        It takes an instruction of the processor, texts enough to pay for the packing of images, and
        lengths that can be scaled.
        """
        few = len(self.lengths) < FEWEST * host.threads()
        if few or self.adjustments or host.kernel_name("float32") == "numpy":
            return None
        directed = self.lengths[self.lengths > 0]
        shortest = min(longest, directed.min(initial=1))
        if shortest < 1 / SCALED or max(longest, directed.max(initial=1)) > SCALED:
            return None
        from equipoise.kernels import _numba_integers

        return _numba_integers if _numba_integers.available() else None

    def result(self) -> tuple[np.ndarray, np.ndarray]:
        """Return ``(indices, scores)``, (queries, k) int64 and float32, best first; fewer than k
        columns where fewer rows were usable.
        """
        return self.plain.result(self.usable)

    def adjusted_results(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return what ``result`` does for each adjustment."""
        return [ranking.result(self.usable) for ranking in self.adjusted]

    def _scratch(self, piece: int, name: str, shape: tuple[int, int]) -> np.ndarray:
        """Return memory for rough scores, one piece per thread. It is used again: fresh pages cost
        time.
        """
        size = shape[0] * shape[1]
        if self.scratch.get((piece, name), np.empty(0)).size < size:
            self.scratch[piece, name] = np.empty(size, np.float32)
        return self.scratch[piece, name][:size].reshape(shape)


class HeldCandidates:
    """The candidates that are held for the k best images of each text (queries, d)."""

    def __init__(self, texts: np.ndarray, k: int):
        self.texts, self.k = _fixed(texts), k
        self.held = np.zeros((len(texts), 0), np.uint64)
        self.counts = np.zeros(len(texts), np.int64)
        # k candidates or more are above its floor, or are its floor
        self.floors = np.zeros(len(texts), np.uint64)

    def window(
        self, tile: slice, images: np.ndarray, usable: np.ndarray, seen: int, margins: np.ndarray
    ) -> tuple:
        """Return what ``look`` and ``settle`` need to know of a window, for some of the texts."""
        shown = self.texts[tile], images, usable, seen, self.k
        return *shown, margins[tile], self.held[tile], self.counts[tile], self.floors[tile]

    def make_room(self, more: int) -> None:
        """Make room for more candidates. Their number grows with the images that were seen, because
        k may be far more than there are.
        """
        most = self.k + max(self.k, SPARE)
        needed = min(most, int(self.counts.max()) + more)
        if needed > self.held.shape[1]:
            grown = np.zeros(
                (len(self.held), min(most, max(needed, 2 * self.held.shape[1]))), np.uint64
            )
            grown[:, : self.held.shape[1]] = self.held
            self.held = grown

    def result(self, usable: int) -> tuple[np.ndarray, np.ndarray]:
        width = min(self.k, usable)
        indices, scores = (
            np.empty((len(self.texts), width), np.int64),
            np.empty((len(self.texts), width), np.float32),
        )
        for q, n in enumerate(self.counts):
            keys = np.sort(self.held[q, :n])[::-1][:width]
            indices[q], scores[q] = _LOW - (keys & _LOW), _scores(keys)
        return indices, scores


def look(rough, at, texts, images, usable, first, k, margins, held, counts, floors) -> None:
    """Look through rough scores (queries, n) of the window's images from ``at`` on; changes
    ``held``, ``counts`` and ``floors``.

    first: the index of the window's first image. Without a compiler, where candidates are scored
    exactly at once.
    """
    room, near = held.shape[1], usable[at : at + rough.shape[1]]
    for q in range(len(rough)):
        bound = (
            -np.inf if floors[q] == 0 else np.float32(_scores(floors[q : q + 1])[0] - margins[q])
        )
        places = np.flatnonzero(~(rough[q] < bound) & near)
        if len(places) > k and np.isfinite(margins[q]):
            scores = rough[q, places]
            places = places[
                scores >= np.partition(scores, len(scores) - k)[len(scores) - k] - 2 * margins[q]
            ]
        keys = _keys(
            np.vecdot(images[at + places].astype(np.float64), texts[q]), first + at + places
        )
        pool = np.concatenate([held[q, : counts[q]], keys[keys > floors[q]]])
        if len(pool) > room:
            pool = np.partition(pool, len(pool) - k)[len(pool) - k :]
            floors[q] = pool[0]
        held[q, : len(pool)] = pool
        counts[q] = len(pool)


def settle(texts, images, usable, first, k, margins, held, counts, floors) -> None:
    """Score exactly what the window left with rough scores: nothing, here."""


def _kernels():
    if host.kernel_name("float32") == "numpy":
        return look, settle
    from equipoise.kernels import _numba_best

    return _numba_best.look, _numba_best.settle


def _margins(reach: np.ndarray, dim: int) -> np.ndarray:
    """Return how far from its exact value a rough score may lie, where reach is the product of the
    lengths: d products and sums, both operands and the bound itself rounded. Infinite where a sum
    may overflow float32.
    """
    roundings = (dim + 6) * 2.0**-24
    margin = roundings / (1 - roundings) * reach + dim * float(np.finfo(np.float32).tiny)
    return np.where(reach < 1e38, margin, np.inf)


def _measured(images: np.ndarray, rows: WindowRows | None) -> tuple[np.ndarray, float]:
    """Return which rows are finite, and a length that none of those exceeds; looks once."""
    if rows is not None and rows.usable is not None:
        return rows.usable, rows.reach
    lengths = _lengths(images)
    usable = np.isfinite(lengths)
    reach = float(lengths[usable].max(initial=0))
    if rows is not None:
        rows.usable, rows.reach = usable, reach
    return usable, reach


def _lengths(rows: np.ndarray) -> np.ndarray:
    """Return at least each row's length; not finite where the row is not."""
    squares = np.empty(len(rows))

    def work(start: int, stop: int) -> None:
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            squares[start:stop] = np.vecdot(rows[start:stop], rows[start:stop])

    host.spread(work, len(rows), rows.nbytes)
    large = np.flatnonzero(~np.isfinite(squares))
    wide = rows[large].astype(np.float64)
    squares[large] = np.vecdot(wide, wide)
    lost = np.sqrt(rows.shape[1]) * 2.0**-63  # numbers whose squares vanish in float32
    return np.sqrt(squares) * (1 + rows.shape[1] * 2.0**-24) + lost


def _keys(scores: np.ndarray, images: np.ndarray) -> np.ndarray:
    # -0 becomes 0
    bits = (scores.astype(np.float32) + np.float32(0)).view(np.uint32).astype(np.uint64)
    ordered = bits ^ np.where(bits & _SIGN, _LOW, _SIGN)
    return (ordered << _HALF) | (_LOW - images.astype(np.uint64))


def _scores(keys: np.ndarray) -> np.ndarray:
    ordered = keys >> _HALF
    return (ordered ^ np.where(ordered & _SIGN, _SIGN, _LOW)).astype(np.uint32).view(np.float32)


def _fixed(x: np.ndarray) -> np.ndarray:
    """Return a read-only array, so that one compiled version serves all."""
    view = x.view(np.ndarray)[:]
    view.flags.writeable = False
    return view
