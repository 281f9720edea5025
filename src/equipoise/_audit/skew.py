"""Retrieval skew of each prompt: how the groups share its best places, with intervals, beside what
random labels would give.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from equipoise import metrics
from equipoise._audit.plan import AuditSettings
from equipoise._progress import progress
from equipoise.errors import InputError
from equipoise.metrics._labels import Coded
from equipoise.metrics._resample_lists import BLOCK, multiplicities
from equipoise.metrics._retrieval import Ranking
from equipoise.metrics._walk import count_top

LEAST, MOST, RANDOM = 20, 1000, 1000


@dataclass(frozen=True)
class Skew:
    """Point values and replicates: max_skew, ndkl (methods, prompts) and (methods, resamples,
    prompts); top (methods, prompts, groups).
    """

    max_skew: np.ndarray
    max_skews: np.ndarray
    ndkl: np.ndarray
    ndkls: np.ndarray
    top: np.ndarray
    tops: np.ndarray
    chance: dict[str, Any]


def choose_m(m: int | None, known: int) -> int:
    """How many places skew looks at."""
    if m is None and known <= LEAST:
        raise InputError(
            f"there are {known} images of a known group, and skew needs more than {LEAST}; pass"
            " more, or -m with fewer places"
        )
    chosen = m if m is not None else min(MOST, max(LEAST, known // 10))
    if chosen >= known:
        raise InputError(
            f"skew among the first {chosen} places says nothing of {known} images, which all stand"
            f" there; pass -m with {known // 10 or 1}"
        )
    return chosen


def measure(
    lists: Mapping[str, np.ndarray], groups: Coded, m: int, first: int, settings: AuditSettings
) -> Skew:
    """lists: name of each method -> (prompts, depth), places of images, best first.

    m, first: places of skew, and of "who comes first".
    """
    resamples, seed, level = settings.resamples, settings.seed, settings.level
    rankings = [Ranking.of(top=top, groups=groups) for top in lists.values()]
    whole = np.ones((1, len(groups.codes)), np.uint16)
    point = _stack([_all(rankings, whole, m, first)])
    rng, parts = np.random.default_rng(seed), []
    step = max(1, BLOCK // len(groups.codes))
    with progress("resamples", resamples) as advance:
        for start in range(0, resamples, step):
            count = min(step, resamples - start)
            parts.append(_all(rankings, multiplicities(rng, len(groups.codes), count), m, first))
            advance(count)
    drawn = _stack(parts)
    chance = _chance(groups, m, level, seed) | {
        "mean_max_skew": _shuffled(lists, groups, m, settings)
    }
    return Skew(
        point[0][:, 0], drawn[0], point[1][:, 0], drawn[1], point[2][:, 0], drawn[2], chance
    )


def _all(
    rankings: Sequence[Ranking], times: np.ndarray, m: int, first: int
) -> tuple[np.ndarray, ...]:
    """Each (methods, resamples, prompts[, groups])."""
    drawn = [ranking.resampled(times) for ranking in rankings]
    shares = [_shares(ranking, first) for ranking in drawn]
    return (
        np.stack([r.max_skew(m).values for r in drawn]),
        np.stack([r.ndkl(m).values for r in drawn]),
        np.stack(shares),
    )


def _shares(ranking: Ranking, first: int) -> np.ndarray:
    counts = count_top(
        ranking.order,
        ranking.groups.codes,
        len(ranking.groups.labels),
        ranking.known_times(),
        first,
    )
    return (counts / np.maximum(counts.sum(2, keepdims=True), 1)).astype(np.float32)


def _stack(parts: Sequence[tuple[np.ndarray, ...]]) -> list[np.ndarray]:
    return [np.concatenate(part, axis=1) for part in zip(*parts, strict=True)]


def _chance(groups: Coded, m: int, level: float, seed: int) -> dict[str, Any]:
    """What one list has when labels have nothing to do with it: expectation, and the range that
    holds ``level`` of such lists.
    """
    rng = np.random.default_rng(seed)
    known = np.flatnonzero(groups.known)
    order = np.stack([rng.choice(known, m, replace=False) for _ in range(RANDOM)])
    ranking = Ranking.of(top=order, groups=groups)
    skews, divergences = ranking.max_skew(m).values[0], ranking.ndkl(m).values[0]
    floor = metrics.max_skew_floor(sensitive_features=_names(groups), m=m)
    shares = groups.sizes / groups.sizes.sum()
    return {
        "max_skew": {"value": floor, **_range(skews, level)},
        "ndkl": {"value": float(divergences.mean()), **_range(divergences, level)},
        "top": [
            {"group": label, "share": float(share)}
            for label, share in zip(groups.labels, shares, strict=True)
        ],
    }


def _shuffled(
    lists: Mapping[str, np.ndarray], groups: Coded, m: int, settings: AuditSettings
) -> dict[str, float]:
    """The mean over the prompts' own lists, labels shuffled: queries that find the same images go
    astray together.
    """
    top = next(iter(lists.values()))
    options = {
        "permutations": settings.permutations,
        "level": settings.level,
        "seed": settings.seed,
    }
    found = metrics.permuted_max_skew(top, sensitive_features=_names(groups), m=m, **options)
    return {"value": found.value, "low": found.low, "high": found.high}


def _names(groups: Coded) -> np.ndarray:
    names = np.array([*groups.labels, None], dtype=object)
    return names[groups.codes]


def _range(drawn: np.ndarray, level: float) -> dict[str, float]:
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    return {"low": float(low), "high": float(high)}
