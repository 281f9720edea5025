"""Bootstrap of retrieval metrics over images, queries or both.

A drawn image has its multiplicity in the lists as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from equipoise._progress import progress
from equipoise.errors import InputError
from equipoise.metrics._intervals import Bootstrap, LeaveOneOut, check_methods, check_metrics
from equipoise.metrics._labels import encode_groups
from equipoise.metrics._retrieval import PerQuery, Ranking
from equipoise.metrics._targets import Targets

OVER = ("images", "queries", "both")
BLOCK = 1 << 18  # multiplicities held at a time: they should stay in the cache

ListMetric = Callable[[Ranking], PerQuery]
SKEW: dict[str, ListMetric] = {"MaxSkew@1000": lambda r: r.max_skew(1000)}
RECALL: dict[str, ListMetric] = {"R@5": lambda r: r.recall(5), "R@10": lambda r: r.recall(10)}


def bootstrap_retrieval(
    scores: Mapping[str, Any] | None = None,
    *,
    sensitive_features: Any,
    top: Mapping[str, Any] | None = None,
    target: Any = None,
    metrics: Mapping[str, ListMetric] | None = None,
    over: str = "images",
    resamples: int = 1000,
    seed: int = 0,
    depth: int | None = None,
    show_progress: bool | None = None,
) -> Bootstrap:
    """Resample images (the paper's way), queries, or both, for every method at once.

    scores: name of each method -> (queries, images); or top: name -> (queries, depth), places of
    the best images, best first, for which twice m is deep enough. metrics: name -> a function of
    ``Ranking``, such as ``lambda r: r.max_skew(100)`` or ``lambda r: r.recall(5)``, which needs
    ``target``. depth: how much of each list to keep of scores; all by default. show_progress: None
    for a terminal only.
    """
    if over not in OVER:
        raise InputError(f"over={over!r} is not legal; pass one of {', '.join(OVER)}")
    given = scores if top is None else top
    methods = check_methods(given, resamples, "scores" if top is None else "top")
    groups = encode_groups(sensitive_features)
    targets = None if target is None else Targets.of(target)
    metrics = check_metrics(
        (SKEW if target is None else SKEW | RECALL) if metrics is None else metrics
    )
    rankings = {
        name: Ranking.of(
            lists if top is None else None,
            top=None if top is None else lists,
            groups=groups,
            targets=targets,
            depth=depth,
        )
        for name, lists in methods.items()
    }
    if len(queries := {len(r.order) for r in rankings.values()}) > 1:
        raise InputError(
            f"the methods have {sorted(queries)} queries; paired resamples need the same queries"
            " for all"
        )
    sizes = {"images": len(groups.codes), "queries": queries.pop()}
    left_out = int((~groups.known).sum())

    def values(
        draws: Iterator[Draw], keys: list[tuple[str, str]]
    ) -> dict[tuple[str, str], np.ndarray]:
        parts: dict[tuple[str, str], list] = {key: [] for key in keys}
        for times, weights in draws:
            for method, metric in keys:
                ranking = rankings[method]
                per_query = metrics[metric](ranking if times is None else ranking.resampled(times))
                if not isinstance(per_query, PerQuery):
                    raise InputError(
                        f"metric {metric!r} gave {type(per_query).__name__}; pass a function of"
                        " Ranking, as its methods are"
                    )
                parts[method, metric].append(per_query.mean(weights))
        return {key: np.concatenate(part) for key, part in parts.items()}

    def leave_one_out(key: tuple[str, str]) -> list[LeaveOneOut]:
        found = []
        for what, size in sizes.items():
            if over in (what, "both"):
                draws = ((w, None) if what == "images" else (None, w) for w in _without(size))
                found.append(LeaveOneOut(values(draws, [key])[key], np.ones(size, np.int64)))
        return found

    keys = [(method, metric) for method in rankings for metric in metrics]
    point = {key: float(v[0]) for key, v in values(iter([(None, None)]), keys).items()}
    with progress("resamples", resamples, show_progress) as advance:
        replicates = values(_told(_draws(sizes, over, resamples, seed), advance), keys)
    n = sizes["queries"] if over == "queries" else sizes["images"] - left_out
    return Bootstrap(point, replicates, leave_one_out, over, n, left_out)


Draw = tuple[
    np.ndarray | None, np.ndarray | None
]  # multiplicities of images and of queries; None: each once


def _draws(sizes: Mapping[str, int], over: str, resamples: int, seed: int) -> Iterator[Draw]:
    """Blocks of resamples.

    Images and queries have streams of their own, so that "both" draws the images that "images"
    draws.
    """
    streams = dict(zip(sizes, np.random.default_rng(seed).spawn(2), strict=True))
    step = _step(max(sizes.values()))
    for start in range(0, resamples, step):
        count = min(step, resamples - start)
        images, queries = (
            multiplicities(streams[what], size, count) if over in (what, "both") else None
            for what, size in sizes.items()
        )
        yield images, queries


def _told(draws: Iterator[Draw], advance: Callable[[int], None]) -> Iterator[Draw]:
    """The same draws; ``advance`` hears of each block when it has been used."""
    for draw in draws:
        yield draw
        advance(len(draw[0] if draw[0] is not None else draw[1]))  # pyright: ignore[reportArgumentType]


def multiplicities(rng: np.random.Generator, size: int, count: int) -> np.ndarray:
    """(count, size): how often each of ``size`` was drawn in as many draws with replacement."""
    return np.stack(
        [np.bincount(rng.integers(0, size, size), minlength=size) for _ in range(count)]
    ).astype(np.uint16)


def _without(size: int) -> Iterator[np.ndarray]:
    """Multiplicities that leave out each in turn."""
    step = _step(size)
    for start in range(0, size, step):
        yield 1 - np.eye(min(step, size - start), size, k=start, dtype=np.uint16)


def _step(size: int) -> int:
    return max(1, BLOCK // size)
