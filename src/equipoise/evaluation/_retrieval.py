"""Text-to-image retrieval: images ranked by similarity to each query, block by block."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from equipoise import metrics
from equipoise._rows import encoded_texts, unit_blocks
from equipoise._search import WINDOW, top_k
from equipoise.encoders import TextEncoder
from equipoise.errors import InputError
from equipoise.evaluation._estimates import Measured, check_operators, gated
from equipoise.evaluation._run_document import Better
from equipoise.evaluation._small_cells import small_groups
from equipoise.metrics._labels import encode_groups
from equipoise.metrics._resample_lists import ListMetric

# queries at a time, where an image changes with the query
QUERIES = 1024


def rank(
    operator: Any,
    images: Any,
    texts: np.ndarray,
    prompts: Sequence[str],
    depth: int,
    *,
    gate: Any = None,
    labels: int | None = None,
) -> np.ndarray:
    """Return the places of each query's best images, best first: (queries, depth).

    Equal scores stand in the order of the images.

    Held at once: a block of images, its scores for some of the queries, and ``depth`` places and
    scores per query; images that are unit rows already are searched where they lie. labels: how
    many images there must be, where they have labels.
    """
    if getattr(operator, "per_prompt", False):
        blocks = unit_blocks(images, min(len(prompts), QUERIES), labels)
        return _rank_by_scores(operator, blocks, texts, prompts, depth, gate)
    changed = np.asarray(operator.text(texts, prompts, **gated(operator, gate)))
    together = max(1, WINDOW // (4 * changed.shape[1]))
    blocks = unit_blocks(images, labels=labels, together=together)
    leaves_images = "image" not in getattr(operator, "changes", ("image",))
    transform = None if leaves_images else operator.image
    places, _ = top_k(changed, blocks, depth, transform=transform)
    return places


def _rank_by_scores(
    operator: Any,
    blocks: Iterable[np.ndarray],
    texts: np.ndarray,
    prompts: Sequence[str],
    depth: int,
    gate: Any,
) -> np.ndarray:
    """Return what ``rank`` returns, for an operator whose images change with the query."""
    best = _Best(len(prompts), depth)
    for rows in blocks:
        for first in range(0, len(prompts), QUERIES):
            some = slice(first, first + QUERIES)
            scores = operator.scores(rows, texts[some], prompts[some], **gated(operator, gate))
            best.offer(scores.T, first)
        best.seen += len(rows)
    return best.lists()


class _Best:
    """The best images so far of each query."""

    def __init__(self, queries: int, depth: int):
        self.depth, self.seen = depth, 0
        self.places = [np.empty(0, np.int64) for _ in range(queries)]
        self.scores = [np.empty(0) for _ in range(queries)]

    def offer(self, scores: np.ndarray, first: int) -> None:
        """Take the best of a block of images. scores: (some queries, block).

        A score that only equals the last place comes too late: its image has a higher number.
        """
        for q, row in enumerate(np.asarray(scores), first):
            full = len(self.scores[q]) == self.depth
            new = np.flatnonzero(row > self.scores[q][-1]) if full else np.arange(len(row))
            together = np.concatenate([self.scores[q], row[new]])
            order = np.argsort(-together, kind="stable")[: self.depth]
            self.places[q] = np.concatenate([self.places[q], new + self.seen])[order]
            self.scores[q] = together[order]

    def lists(self) -> np.ndarray:
        """Return the best images of each query, best first."""
        if not self.seen:
            raise InputError("there are no images to search")
        return np.stack(self.places)


def retrieve(
    operators: Mapping[str, Any],
    images: Any,
    queries: Sequence[str],
    *,
    sensitive_features: Any,
    encoder: TextEncoder | None = None,
    texts: Any = None,
    targets: Any = None,
    m: int = 1000,
    ks: Sequence[int] = (5, 10),
    gate: Any = None,
    over: str = "images",
    resamples: int = 1000,
    permutations: int = 200,
    seed: int = 0,
) -> Measured:
    """Return the skew and recall of every operator, on the same resamples.

    That is MaxSkew@m with both its floors, NDKL@m and, with ``targets``, recall at ``ks``. images:
    (n, d), a store or an iterable of arrays that can be read again. sensitive_features: of each
    image. targets: the place of each query's right image, or several. over: what is resampled,
    "images", "queries" or "both".
    """
    check_operators(operators)
    queries = list(queries)
    rows = encoded_texts(queries, encoder, texts)
    ks = [] if targets is None else list(ks)
    known = check_groups(sensitive_features).known
    places = max([m, *ks])
    top = {
        name: rank_deep(operator, images, rows, queries, known, places, gate=gate)
        for name, operator in operators.items()
    }
    return measure_lists(
        top,
        sensitive_features=sensitive_features,
        m=m,
        ks=ks,
        targets=targets,
        over=over,
        resamples=resamples,
        permutations=permutations,
        seed=seed,
    )


def rank_deep(
    operator: Any,
    images: Any,
    texts: np.ndarray,
    prompts: Sequence[str],
    known: np.ndarray,
    places: int,
    *,
    gate: Any = None,
) -> np.ndarray:
    """Return what ``rank`` returns, deep enough to fill ``places`` in every resample.

    A resample leaves images out. known (images,): whose group is known.

    Images of an unknown group take no place, and may stand before all others: lists that hold too
    few known ones are searched for again, twice as deep. A list with half as many again, and 32,
    lacks places in less than one resample of a billion.
    """
    size, count = len(known), int(known.sum())
    enough = min(count, 32 + places + places // 2)
    depth = min(size, (64 + 2 * places) * size // count)
    while True:
        lists = rank(operator, images, texts, prompts, depth, gate=gate, labels=size)
        if depth == size or known[lists].sum(1).min() >= enough:
            return lists
        depth = min(size, 2 * depth)


def measure_lists(
    top: Mapping[str, np.ndarray],
    *,
    sensitive_features: Any,
    targets: Any = None,
    m: int = 1000,
    ks: Sequence[int] = (),
    over: str = "images",
    resamples: int = 1000,
    permutations: int = 200,
    level: float = 0.95,
    seed: int = 0,
) -> Measured:
    """Return what ``retrieve`` measures, from lists: method -> (queries, depth).

    level: of the permuted labels' range.
    """
    size = len(check_groups(sensitive_features).codes)
    for lists in top.values():
        require_labels(lists, size)
    skew, divergence = f"MS@{m}", f"NDKL@{m}"
    functions: dict[str, ListMetric] = {
        f"R@{k}": lambda ranking, k=k: ranking.recall(min(k, size)) for k in ks
    }
    functions[skew] = lambda ranking: ranking.max_skew(m)
    functions[divergence] = lambda ranking: ranking.ndkl(m)
    bootstrap = metrics.bootstrap_retrieval(
        sensitive_features=sensitive_features,
        top=top,
        target=targets,
        metrics=functions,
        over=over,
        resamples=resamples,
        seed=seed,
    )
    shuffled = {}
    for name, lists in top.items():
        shuffled[name, skew] = metrics.permuted_max_skew(
            lists,
            sensitive_features=sensitive_features,
            m=m,
            permutations=permutations,
            level=level,
            seed=seed,
        )
    better: dict[str, Better] = {
        name: "higher" if name.startswith("R@") else "lower" for name in functions
    }
    floors = {skew: metrics.max_skew_floor(sensitive_features=sensitive_features, m=m)}
    groups = small_groups(sensitive_features)
    return Measured(bootstrap, better, floors, shuffled, small={skew: groups, divergence: groups})


def require_labels(lists: np.ndarray, size: int) -> None:
    """Raise where lists name images beyond the labels."""
    found = int(lists.max())
    if found >= size:
        raise InputError(
            f"there are {size} labels, and more than {found} images; pass one label for each image"
        )


def check_groups(sensitive_features: Any) -> Any:
    """Return the groups; raise unless there are two or more."""
    groups = encode_groups(sensitive_features)
    if len(groups.labels) < 2:
        raise InputError(
            f"skew compares groups, and the images are all of {list(groups.labels)}; pass images of"
            " two groups or more"
        )
    return groups
