"""Retrieval skew: how the groups share each prompt's best places, and what chance would give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from equipoise import metrics
from equipoise._audit.plan import AuditSettings
from equipoise._audit.results import ChanceFindings, GroupShare, Ranged
from equipoise._progress import progress
from equipoise.errors import InputError
from equipoise.metrics._floor import shuffled_max_skews
from equipoise.metrics._intervals import Chance
from equipoise.metrics._labels import Coded
from equipoise.metrics._resample_lists import at_once, multiplicities
from equipoise.metrics._retrieval import Ranking
from equipoise.metrics._walk import count_top

# the fewest and the most places that skew looks at, and the number of random lists
LEAST, MOST, RANDOM = 20, 1000, 1000


@dataclass(frozen=True)
class Skew:
    """Values and their replicates.

    max_skew, ndkl: (methods, prompts). top: (methods, prompts, groups), the share of each group in
    the first places. The plural of each holds its replicates, with resamples as the second axis.
    chance: what random labels would give. alone, together: that of one prompt's skew and of the
    mean over prompts.
    """

    max_skew: np.ndarray
    max_skews: np.ndarray
    ndkl: np.ndarray
    ndkls: np.ndarray
    top: np.ndarray
    tops: np.ndarray
    chance: ChanceFindings
    alone: Chance
    together: Chance


def choose_m(m: int | None, known: int) -> int:
    """Return how many places skew looks at."""
    if m is None and known <= LEAST:
        raise InputError(
            f"there are {known} images of a known group, and skew is measured on the first {LEAST};"
            " pass more images, or a smaller `m`"
        )
    chosen = m if m is not None else min(MOST, max(LEAST, known // 10))
    if chosen >= known:
        raise InputError(
            f"skew among the first {chosen} places says nothing of {known} images, which all stand"
            f" there; pass a smaller `m`, such as {known // 10 or 1}"
        )
    return chosen


def measure(
    lists: Mapping[str, np.ndarray], groups: Coded, m: int, first: int, settings: AuditSettings
) -> Skew:
    """Return the skew of each prompt by each method.

    lists: method -> (prompts, depth), images, best first. m: the places of skew. first: the places
    of "who comes first".
    """
    resamples, seed = settings.resamples, settings.seed
    rankings = [Ranking.of(top=top, groups=groups) for top in lists.values()]
    whole = np.ones((1, len(groups.codes)), np.uint16)
    point = _stack([_all(rankings, whole, m, first)])
    rng = np.random.default_rng(seed)
    parts = []
    step = at_once(len(groups.codes))
    with progress("resamples", resamples) as advance:
        for start in range(0, resamples, step):
            count = min(step, resamples - start)
            times = multiplicities(rng, len(groups.codes), count)
            parts.append(_all(rankings, times, m, first))
            advance(count)
    drawn = _stack(parts)
    random = _random_list(groups, m, settings.level, seed)
    mean, leaning = _shuffled(rankings[0], m, random.max_skew.high, settings)
    chance = ChanceFindings(
        max_skew=random.max_skew.ranged(),
        ndkl=random.ndkl.ranged(),
        top=_shares_of_all(groups),
        mean_max_skew=mean.ranged(),
        leaning=leaning.ranged(),
    )
    alone = Chance(random.max_skew.value, random.most)
    together = Chance(mean.value, mean.high)
    max_skew, ndkl, top = (values[:, 0] for values in point)
    max_skews, ndkls, tops = drawn
    return Skew(max_skew, max_skews, ndkl, ndkls, top, tops, chance, alone, together)


def _all(
    rankings: Sequence[Ranking], times: np.ndarray, m: int, first: int
) -> tuple[np.ndarray, ...]:
    """Return max skew, NDKL and shares, each (methods, resamples, prompts[, groups])."""
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


class _Spread(NamedTuple):
    """An expectation, and the range that holds a ``level`` share of what is drawn."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, value: float, drawn: np.ndarray, level: float) -> _Spread:
        low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
        return cls(value, float(low), float(high))

    def ranged(self) -> Ranged:
        return Ranged(value=self.value, low=self.low, high=self.high)


class _RandomList(NamedTuple):
    """What one list has when labels have nothing to do with it.

    most: the skew that a ``level`` share of such lists does not exceed.
    """

    max_skew: _Spread
    ndkl: _Spread
    most: float


def _random_list(groups: Coded, m: int, level: float, seed: int) -> _RandomList:
    rng = np.random.default_rng(seed)
    known = np.flatnonzero(groups.known)
    order = np.stack([rng.choice(known, m, replace=False) for _ in range(RANDOM)])
    ranking = Ranking.of(top=order, groups=groups)
    skews, divergences = ranking.max_skew(m).values[0], ranking.ndkl(m).values[0]
    floor = metrics.max_skew_floor(sensitive_features=_names(groups), m=m)
    return _RandomList(
        max_skew=_Spread.of(floor, skews, level),
        ndkl=_Spread.of(float(divergences.mean()), divergences, level),
        most=float(np.quantile(skews, level)),
    )


def _shares_of_all(groups: Coded) -> list[GroupShare]:
    """Return the share of each group among all whose group is known."""
    shares = groups.sizes / groups.sizes.sum()
    named = zip(groups.labels, shares.tolist(), strict=True)
    return [GroupShare(group=label, share=share) for label, share in named]


def _shuffled(
    ranking: Ranking, m: int, limit: float, settings: AuditSettings
) -> tuple[_Spread, _Spread]:
    """Return what the prompts' own lists have with shuffled labels.

    That is their mean skew, and how many of them lie above the limit. Prompts that find the same
    images stray together, which lists drawn at random would miss.
    """
    skews = shuffled_max_skews(ranking, m, "dataset", settings.permutations, settings.seed)
    means, leaning = skews.mean(1), (skews > limit).sum(1)
    return (
        _Spread.of(float(means.mean()), means, settings.level),
        _Spread.of(float(leaning.mean()), leaning, settings.level),
    )


def _names(groups: Coded) -> np.ndarray:
    names = np.array([*groups.labels, None], dtype=object)
    return names[groups.codes]
