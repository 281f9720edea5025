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
from equipoise.metrics._labels import Coded, encode_groups
from equipoise.metrics._retrieval import PerQuery, Ranking
from equipoise.metrics._targets import Targets

OVER = ("images", "queries", "both")
BLOCK = 1 << 18  # multiplicities held at a time, where that is enough resamples
ENOUGH = 16  # resamples that share what is done once for a list, such as sorting it by group
MOST = 1 << 24  # multiplicities held for them

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
    groups = encode_groups(sensitive_features)
    targets = None if target is None else Targets.of(target)
    metrics = check_metrics(_usual(target) if metrics is None else metrics)
    rankings = _rankings(scores, top, resamples, groups, targets, depth)
    sizes = {"images": len(groups.codes), "queries": _queries(rankings)}
    left_out = int((~groups.known).sum())

    def values(
        draws: Iterator[Draw], keys: list[tuple[str, str]]
    ) -> dict[tuple[str, str], np.ndarray]:
        parts: dict[tuple[str, str], list] = {key: [] for key in keys}
        for times, weights in draws:
            for method, metric in keys:
                ranking = rankings[method]
                if times is not None:
                    ranking = ranking.resampled(times)
                per_query = _measured(metrics[metric], metric, ranking)
                parts[method, metric].append(per_query.mean(weights))
        return {key: np.concatenate(part) for key, part in parts.items()}

    def leave_one_out(key: tuple[str, str]) -> list[LeaveOneOut]:
        found = []
        for what, size in sizes.items():
            if over in (what, "both"):
                without_each = values(_without_each(what, size), [key])[key]
                found.append(LeaveOneOut(without_each, np.ones(size, np.int64)))
        return found

    keys = [(method, metric) for method in rankings for metric in metrics]
    as_they_are = values(iter([(None, None)]), keys)
    point = {key: float(value[0]) for key, value in as_they_are.items()}
    with progress("resamples", resamples, show_progress) as advance:
        replicates = values(_told(_draws(sizes, over, resamples, seed), advance), keys)
    n = sizes["queries"] if over == "queries" else sizes["images"] - left_out
    return Bootstrap(point, replicates, leave_one_out, over, n, left_out)


# Multiplicities of images and of queries; None: each once.
Draw = tuple[np.ndarray | None, np.ndarray | None]


def _queries(rankings: Mapping[str, Ranking]) -> int:
    """Return how many queries there are, the same for every method."""
    counts = {len(ranking.order) for ranking in rankings.values()}
    if len(counts) > 1:
        raise InputError(
            f"the methods have {sorted(counts)} queries; paired resamples need the same queries"
            " for all"
        )
    return counts.pop()


def _rankings(
    scores: Mapping[str, Any] | None,
    top: Mapping[str, Any] | None,
    resamples: int,
    groups: Coded,
    targets: Targets | None,
    depth: int | None,
) -> dict[str, Ranking]:
    """Return the ranking of each method, from whichever of ``scores`` and ``top`` was passed."""
    found = {}
    if top is None:
        for name, given in check_methods(scores, resamples, "scores").items():
            found[name] = Ranking.of(given, groups=groups, targets=targets, depth=depth)
    else:
        for name, given in check_methods(top, resamples, "top").items():
            found[name] = Ranking.of(top=given, groups=groups, targets=targets, depth=depth)
    return found


def _usual(target: Any) -> dict[str, ListMetric]:
    """Return the metrics that are measured where none are named."""
    return SKEW if target is None else SKEW | RECALL


def _measured(function: ListMetric, metric: str, ranking: Ranking) -> PerQuery:
    """Return what a metric gives for each query; raise where it gives something else."""
    per_query = function(ranking)
    if not isinstance(per_query, PerQuery):
        raise InputError(
            f"metric {metric!r} gave {type(per_query).__name__}; pass a function of Ranking, such"
            " as one of its methods"
        )
    return per_query


def _draws(sizes: Mapping[str, int], over: str, resamples: int, seed: int) -> Iterator[Draw]:
    """Yield blocks of resamples.

    Images and queries have streams of their own, so that "both" draws the images that "images"
    draws.
    """
    streams = dict(zip(sizes, np.random.default_rng(seed).spawn(2), strict=True))
    step = at_once(max(sizes.values()))
    for start in range(0, resamples, step):
        count = min(step, resamples - start)
        images = queries = None
        if over in ("images", "both"):
            images = multiplicities(streams["images"], sizes["images"], count)
        if over in ("queries", "both"):
            queries = multiplicities(streams["queries"], sizes["queries"], count)
        yield images, queries


def _told(draws: Iterator[Draw], advance: Callable[[int], None]) -> Iterator[Draw]:
    """Yield the same draws; ``advance`` hears of each block when it has been used."""
    for draw in draws:
        yield draw
        rows = [part for part in draw if part is not None]
        advance(len(rows[0]))


def multiplicities(rng: np.random.Generator, size: int, count: int) -> np.ndarray:
    """Return how often (count, size) each of ``size`` comes in as many draws with replacement."""
    drawn = np.empty((count, size), np.uint16)
    for i in range(count):
        drawn[i] = np.bincount(rng.integers(0, size, size), minlength=size)
    return drawn


def _without_each(what: str, size: int) -> Iterator[Draw]:
    """Yield draws that leave out each image, or each query, in turn."""
    step = at_once(size)
    for start in range(0, size, step):
        times = 1 - np.eye(min(step, size - start), size, k=start, dtype=np.uint16)
        yield (times, None) if what == "images" else (None, times)


def at_once(size: int) -> int:
    """Return how many resamples of ``size`` images are held at a time."""
    return max(1, BLOCK // size, min(ENOUGH, MOST // size))
