"""The k best images of each query in a torch tensor: a half-width product, then exact scores.

The product of half-width rows gives rough scores. How far a rough score may be from its exact value
has a bound: by how much rounding to half width moved the rows, which is measured, and what a sum in
float32 may lose. Only images whose rough score is within twice that bound of the k-th best one can
be among the k best. These are scored again in float64, and rounded to float32.

On a GPU with Triton, ``_triton_best`` does it without a matrix of scores. What follows is for other
devices, and for the queries that it leaves.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch

from equipoise.kernels._torch import has_triton

TILE = 4096  # queries at a time
SPARE = 256  # candidates held beyond k, or k if that is more, at first
SCORES = 1 << 28  # rough scores at a time: 1 GiB
WIDE = 1 << 25  # numbers of float64 at a time: 256 MiB
ROUGH = torch.float16
ROUNDING = 2.0**-22  # of a term of a sum: matrix units drop the bits that float32 would round
TIE = 2.0**-22  # exact scores this near may be equal once they are rounded to float32
SCALES = -126, 120  # exponents of powers of two that float32 holds, and can multiply by


def top_k(texts: torch.Tensor, images: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return ``(indices, scores)`` (queries, k), int64 and float32, best first.

    texts (queries, d): finite in float32, on the device of images (n, d). Of equal scores the lower
    index comes first. Images that are not finite in float32 are never found: where fewer than k are
    left, there are fewer columns.
    """
    if images.is_cuda and len(images) and has_triton():
        return _fused(texts, images, k)
    return _by_product(texts, images, k)


def _fused(texts: torch.Tensor, images: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return what ``top_k`` does, by Triton wherever it settles a query."""
    from equipoise.kernels import _triton_best as fused

    if len(images) > fused.MOST_IMAGES:
        return _by_product(texts, images, k)
    indices, scores, left = fused.top_k(texts, images, k)
    if len(left) == len(texts):
        return _by_product(texts, images, k)
    if len(left):
        indices[left], scores[left] = _by_product(texts[left], images, k)
    return indices, scores


def _by_product(
    texts: torch.Tensor, images: torch.Tensor, k: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return what ``top_k`` does, by products of torch."""
    index = ShortIndex(images)
    width = min(k, index.usable)
    tiles = [_best_of_tile(some, index, width) for some in texts.double().split(TILE)]
    indices, scores = zip(*tiles, strict=True)
    return torch.cat(indices), torch.cat(scores)


class ShortIndex:
    """Images as half-width rows of length one or less, made block by block.

    usable: how many are finite in float32. moved: by how much rounding moved the row that it moved
    most. reach: no shortened row is longer.
    """

    def __init__(self, images: torch.Tensor):
        self.images = images
        self.usable, longest = 0, 0.0
        for block in self.blocks(WIDE // images.shape[1]):
            lengths = torch.linalg.vector_norm(block[_finite(block)], dim=1, dtype=torch.float64)
            self.usable += len(lengths)
            longest = max(longest, _largest(lengths))
        exponent = -math.ceil(math.log2(longest)) if longest else 0
        # a power of two, so that numbers of half width are still what they were
        self.scale = 2.0 ** min(max(exponent, SCALES[0]), SCALES[1])
        self.reach = max(1.0, longest * self.scale)
        self.moved = max(map(self._moved, self.blocks(WIDE // images.shape[1])), default=0.0)

    def blocks(self, size: int) -> Iterator[torch.Tensor]:
        """Yield the images as they are, at most ``size`` at a time."""
        yield from self.images.split(max(1, size))

    def short(self, block: torch.Tensor) -> torch.Tensor:
        """Return some images in half width; NaN where one is not finite."""
        rows = (block * self.scale).to(ROUGH)
        return rows.masked_fill(~_finite(block)[:, None], torch.nan)

    def _moved(self, block: torch.Tensor) -> float:
        exact = block.double() * self.scale
        moved = torch.linalg.vector_norm(exact - self.short(block).double(), dim=1)
        return _largest(moved.nan_to_num(0.0))


def _finite(rows: torch.Tensor) -> torch.Tensor:
    return torch.isfinite(rows.float()).all(1)


def _largest(values: torch.Tensor) -> float:
    return float(values.max()) if len(values) else 0.0


def _best_of_tile(
    texts: torch.Tensor, index: ShortIndex, width: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return what ``top_k`` does; hold more candidates where too many are near the k-th."""
    lengths = torch.linalg.vector_norm(texts, dim=1, keepdim=True)
    directions = texts / torch.where(lengths > 0, lengths, 1.0)
    short = directions.to(ROUGH)
    margins = _margins(directions, short, index)
    indices = texts.new_empty((len(texts), width), dtype=torch.int64)
    scores = texts.new_empty((len(texts), width), dtype=torch.float32)
    left = torch.arange(len(texts), device=texts.device)
    held = width + max(width, SPARE)
    while width and len(left):
        held = min(held, index.usable)
        rough, found = _roughly(short[left], index, held)
        lowest = rough[:, width - 1] - 2 * margins[left]
        candidates = (rough >= lowest[:, None]).sum(1)
        settled = (candidates < held) | (held == index.usable)
        if settled.any():
            done, most = left[settled], int(candidates[settled].max())
            best = _exactly(texts[done], index.images, found[settled, :most], width)
            indices[done], scores[done] = best
        left = left[~settled]
        held *= 2
    return indices, scores


def _margins(directions: torch.Tensor, short: torch.Tensor, index: ShortIndex) -> torch.Tensor:
    """Return how far a rough score may be from <direction, shortened image>, for each text.

    By Cauchy and Schwarz, what moved a row moves a score by no more than the other row's length.
    """
    moved = torch.linalg.vector_norm(directions - short.double(), dim=1)
    summed = (directions.shape[1] + 2) * ROUNDING + TIE
    longer = 1 + moved  # than the direction, which has length one
    return 1.01 * (moved * index.reach + longer * (index.moved + summed * index.reach))


def _roughly(
    texts: torch.Tensor, index: ShortIndex, held: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the best rough scores and their images (texts, held), best first."""
    scores = texts.new_empty((len(texts), 0), dtype=torch.float32)
    images = texts.new_empty((len(texts), 0), dtype=torch.int64)
    start = 0
    for block in index.blocks(SCORES // len(texts)):
        rough = _product(texts, index.short(block)).nan_to_num_(nan=-torch.inf)
        some, places = rough.topk(min(held, len(block)), dim=1)
        scores, images = torch.cat([scores, some], 1), torch.cat([images, places + start], 1)
        scores, order = scores.topk(min(held, scores.shape[1]), dim=1)
        images = images.gather(1, order)
        start += len(block)
    return scores, images


def _product(texts: torch.Tensor, images: torch.Tensor) -> torch.Tensor:
    """Return inner products of half-width rows, summed in float32 and left there."""
    if texts.is_cuda and hasattr(torch.ops.aten.mm, "dtype"):  # from torch 2.8
        return torch.mm(texts, images.T, out_dtype=torch.float32)  # pyright: ignore
    return texts.float() @ images.float().T  # TF32, where it is on, holds these numbers too


def _exactly(
    texts: torch.Tensor, images: torch.Tensor, candidates: torch.Tensor, width: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the best of candidates (texts, m), in any order, by their exact scores."""
    candidates = candidates.sort(dim=1).values  # so that a stable sort puts lower indices first
    scores = torch.empty(candidates.shape, dtype=torch.float32, device=texts.device)
    columns = max(1, WIDE // images.shape[1])
    rows = max(1, columns // candidates.shape[1])
    for first in range(0, len(texts), rows):
        some = slice(first, first + rows)
        for start in range(0, candidates.shape[1], columns):
            near = slice(start, start + columns)
            wide = images[candidates[some, near]].double()
            exact = torch.bmm(wide, texts[some, :, None])[:, :, 0]
            scores[some, near] = exact.float() + 0.0  # -0 becomes 0
    scores, order = scores.sort(dim=1, descending=True, stable=True)
    return candidates.gather(1, order)[:, :width], scores[:, :width]
