"""The k best images of each query, on a GPU: rough scores in one pass, then exact scores of few.

A sample of the images gives each query a threshold that a few more than k images reach. One pass
over the images leaves those whose rough score may reach it (``_triton_rough``); no matrix of scores
is written. They are scored in float64 (``_triton_exact``). Where the k-th best of them scores more
than the threshold, no image that was ruled out is among the k best. So a bad threshold costs time
and never a result: what is not settled is searched for again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch

from equipoise.kernels import _triton_exact as exact
from equipoise.kernels import _triton_rough as rough
from equipoise.kernels._triton import LAUNCHING

MOST_IMAGES = (1 << 31) - 256  # they are counted in int32, and there is room for a few more
SAMPLE = 1 << 15  # images that thresholds are taken from, at most
PICKED = 64  # images that a scale is taken from
GROUP = 64  # images of a sample that give one number, at most
SPARE = 768  # candidates that there is room for, beside those that are likely
MORE = 4  # times as many may reach the threshold at the second attempt; more room for each
TILE = 4096  # queries at a time
CELLS = 1 << 25  # candidates at a time: 256 MiB
BYTES = 1 << 30  # of flags and of rows in half width at a time
FEW = 128  # queries for which images are measured and scored in one read
# Of one program: images (BN), queries (BQ) and numbers of a row (BD) at a time.
MANY: dict[str, Any] = {"BN": 128, "BQ": 128, "BD": 64, "num_warps": 4, "num_stages": 3}
MEASURE: dict[str, Any] = {"BN": 16, "BD": 256}
EXACT: dict[str, Any] = {"BN": 16, "BD": 256}


class Plan(NamedTuple):
    """Where a threshold is to lie: at the ``order``-th best group of a sample; anywhere for 0.

    sampled: images in the sample. group: images in a group of it. capacity: candidates of a query
    that there is room for.
    """

    sampled: int
    group: int
    order: int
    capacity: int


def planned(images: int, k: int, allowance: int = 1) -> Plan:
    """Return a plan that fails for about one query in a million: it is a matter of chance how many
    of the k best are in the sample.
    """
    sampled = min(SAMPLE, images // 4 // GROUP * GROUP)
    among = k * sampled / max(1, images)
    order = allowance * math.ceil(among + 4.75 * math.sqrt(among) + 4)
    group = min(GROUP, 1 << max(0, (sampled // (8 * order)).bit_length() - 1))
    share = order * group / max(1, sampled)  # of groups that reach the threshold
    if share >= 1:
        return Plan(0, 1, 0, _rounded(images))
    likely = -math.log1p(-share) / group * images
    capacity = math.ceil(allowance * (likely * (1 + 4 / math.sqrt(order)) + SPARE))
    if max(k, capacity) >= images:
        return Plan(0, 1, 0, _rounded(images))
    return Plan(sampled, group, order, _rounded(max(k, capacity)))


def _rounded(capacity: int) -> int:
    return _parts(capacity, 256) * 256


def fused_sizes(texts: int, images: torch.Tensor) -> dict[str, Any]:
    """Return what MANY is, for few queries: images are measured and scored in one read."""
    width = max(16, _power_of_two(min(texts, FEW)))
    narrow = width <= 32
    return {
        "BN": 128 if narrow else 64,
        "BQ": width,
        "BD": 128 // images.element_size(),
        "num_warps": 4,
        "num_stages": 4 if narrow else 3,
    }


class FoundImages(NamedTuple):
    """Indices and scores (queries, k), best first, and the queries that were not settled."""

    indices: torch.Tensor
    scores: torch.Tensor
    left: torch.Tensor


def top_k(texts: torch.Tensor, images: torch.Tensor, k: int) -> FoundImages:
    """Return the best min(k, n) of images (n, d) for texts (queries, d).

    Scores and ties are those of ``_torch_best.top_k``. Queries that are left must be searched for
    in another way. All are left where fewer than min(k, n) images are finite.
    """
    k = min(k, len(images))
    with torch.cuda.device_of(images):
        index = RoughIndex(images)
        found = _attempt(texts, index, k, planned(len(images), k))
        if len(found.left):
            again = _attempt(texts[found.left], index, k, planned(len(images), k, MORE))
            found.indices[found.left] = again.indices
            found.scores[found.left] = again.scores
            found = found._replace(left=found.left[again.left])
    return found


class RoughIndex:
    """Images, and what brings their rows to half width.

    scale: a power of two on their device, or None where they are in half width already.
    """

    def __init__(self, images: torch.Tensor):
        self.images = images
        self.dim = images.shape[1]
        self.terms = rough.slack_terms(self.dim) | {"D": self.dim}
        self.scale = None if images.dtype == torch.float16 else self._scale()

    def _scale(self) -> torch.Tensor:
        scale = torch.empty(1, dtype=torch.float32, device=self.images.device)
        width = _power_of_two(self.dim)
        rows = max(1, min(16, 8192 // width))
        _run(
            rough.scale_kernel, (1,),
            self.images, scale, len(self.images), *self.images.stride(),
            D=self.dim, D2=width, PICKED=PICKED, ROWS=rows, num_warps=8,
        )  # fmt: skip
        return scale

    def blocks(self, words: int, copied: bool) -> Iterator[torch.Tensor]:
        """Yield the images, as many at a time as there is memory for their flags and copies."""
        copy = 2 * self.dim if copied and self.scale is not None else 0
        yield from self.images.split(max(1, BYTES // (4 * words + copy)))

    def measured(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return some images in half width, and their slacks."""
        short = None
        if self.scale is not None:
            short = torch.empty(images.shape, dtype=torch.float16, device=images.device)
        slack = torch.empty(len(images), dtype=torch.float32, device=images.device)
        _run(
            rough.shorten_kernel, (_parts(len(images), MEASURE["BN"]),),
            images, self.scale, short, slack, len(images), *images.stride(),
            **self.terms, **MEASURE,
        )  # fmt: skip
        return images if short is None else short, slack


def _attempt(texts: torch.Tensor, index: RoughIndex, k: int, plan: Plan) -> FoundImages:
    """Search once, and ask the device once whether that settled every query."""
    tile = max(1, min(TILE, CELLS // plan.capacity))
    parts = [_search(some, index, k, plan) for some in texts.split(tile)]
    indices, scores, settled = map(_joined, zip(*parts, strict=True))
    left = torch.empty(0, dtype=torch.int64, device=texts.device)
    if not bool(settled.all()):
        left = torch.nonzero(~settled)[:, 0]
    return FoundImages(indices, scores, left)


def _joined(parts: tuple[torch.Tensor, ...]) -> torch.Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def _search(
    texts: torch.Tensor, index: RoughIndex, k: int, plan: Plan
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return indices, scores and which queries are settled; nothing here waits for the device."""
    directions, lengths = _directions(texts)
    thresholds = _thresholds(directions, index, plan)
    counts, candidates = _candidates(directions, index, thresholds, plan.capacity)
    _give_keys(texts, index.images, counts, candidates)
    keys = candidates.topk(k, dim=1).values
    indices = torch.empty_like(keys)
    scores = torch.empty(keys.shape, dtype=torch.float32, device=keys.device)
    settled = torch.empty(len(keys), dtype=torch.bool, device=keys.device)
    _run(
        exact.answer_kernel, (_parts(k, 1024), len(keys)),
        keys, counts, thresholds, lengths, index.scale, indices, scores, settled, plan.capacity, k,
        BLOCK=1024,
    )  # fmt: skip
    return indices, scores, settled


def _directions(texts: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return texts in half width and of length one, and their lengths."""
    count, dim = texts.shape
    directions = torch.empty((count, dim), dtype=torch.float16, device=texts.device)
    lengths = torch.empty(count, dtype=torch.float64, device=texts.device)
    width = _power_of_two(dim)
    _run(rough.direction_kernel, (count,), texts, directions, lengths, D=dim, D2=width)
    return directions, lengths


def _thresholds(directions: torch.Tensor, index: RoughIndex, plan: Plan) -> torch.Tensor:
    """Return a rough score for each text that a few more than k images are likely to reach."""
    if plan.order == 0:
        return torch.full((len(directions),), -math.inf, device=directions.device)
    images, count = index.images, len(directions)
    groups = plan.sampled // plan.group
    best = torch.empty((count, groups), dtype=torch.float32, device=images.device)
    sizes = fused_sizes(count, images) | {"BN": 64}
    _run(
        rough.sample_kernel, (_parts(count, sizes["BQ"]), plan.sampled // sizes["BN"]),
        directions, images, index.scale, best, count, len(images), plan.sampled, *images.stride(),
        **index.terms, **sizes, GROUP=plan.group,
    )  # fmt: skip
    return best.topk(plan.order, dim=1, sorted=False).values.amin(dim=1)


def _candidates(
    directions: torch.Tensor, index: RoughIndex, thresholds: torch.Tensor, capacity: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return how many images may reach the threshold of each text, and which, in any order.

    counts: (texts,). candidates: (texts, capacity), of which the first ``counts`` are set.
    """
    count, device = len(directions), directions.device
    counts = torch.zeros(count, dtype=torch.int32, device=device)
    candidates = torch.empty((count, capacity), dtype=torch.int64, device=device)
    few = count <= FEW
    sizes = fused_sizes(count, index.images) if few else MANY
    word = min(sizes["BQ"], 32)
    words = _parts(count, word)
    first = 0
    for block in index.blocks(words, copied=not few):
        rows, slack = (block, None) if few else index.measured(block)
        flags = torch.empty((len(rows), words), dtype=torch.int32, device=device)
        _run(
            rough.filter_kernel, (_parts(len(rows), sizes["BN"]) * _parts(count, sizes["BQ"]),),
            directions, rows, index.scale if few else None, slack, thresholds, flags,
            count, len(rows), *rows.stride(), words, **index.terms, **sizes, WORD=word,
        )  # fmt: skip
        _collect(flags, counts, candidates, first, word)
        first += len(rows)
    return counts, candidates


def _collect(
    flags: torch.Tensor, counts: torch.Tensor, candidates: torch.Tensor, first: int, word: int
) -> None:
    """Append the images whose flags are set, counted from ``first``."""
    images, words = flags.shape
    wide = _power_of_two(words)
    many = max(1, 2048 // wide)
    _run(
        rough.collect_kernel, (_parts(images, many),),
        flags, counts, candidates, first, images, words, candidates.shape[1],
        WORD=word, WORDS=wide, BN=many,
    )  # fmt: skip


def _give_keys(
    texts: torch.Tensor, images: torch.Tensor, counts: torch.Tensor, candidates: torch.Tensor
) -> None:
    """Write the key of each candidate in its place, and a key below all where there is none."""
    count, capacity = candidates.shape
    _run(
        exact.key_kernel, (count * _parts(capacity, EXACT["BN"]),),
        texts, images, counts, candidates, capacity, *images.stride(), D=images.shape[1], **EXACT,
    )  # fmt: skip


def _run(kernel: Any, programs: tuple[int, ...], *arguments: Any, **sizes: Any) -> None:
    with LAUNCHING:
        kernel[programs](*arguments, **sizes)


def _parts(count: int, size: int) -> int:
    """Return how many parts of ``size`` it takes."""
    return -(-count // size)


def _power_of_two(count: int) -> int:
    """Return the least power of two that is no less."""
    return 1 << (count - 1).bit_length()
