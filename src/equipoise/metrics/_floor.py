"""The floors of MaxSkew.

One is what a random ranking is expected to have, exactly; the other is what given lists have when
labels are shuffled.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from equipoise._progress import progress
from equipoise.metrics._intervals import check_level
from equipoise.metrics._labels import encode_groups
from equipoise.metrics._ranking import whole
from equipoise.metrics._retrieval import Ranking, Target, target_shares

NEGLIGIBLE = 1e-18  # tails beyond this probability are not summed


class Shuffled(NamedTuple):
    """Mean over permutations of the labels; [low, high] holds ``level`` of them."""

    value: float
    low: float
    high: float
    level: float
    permutations: int


def permuted_max_skew(
    top: Any,
    *,
    sensitive_features: Any,
    m: int = 1000,
    target: Target = "dataset",
    permutations: int = 200,
    level: float = 0.95,
    seed: int = 0,
    show_progress: bool | None = None,
) -> Shuffled:
    """Return MaxSkew@M of the lists ``top`` (queries, depth) with the labels shuffled.

    The known labels are shuffled among the images, ``permutations`` times. The mean tends to
    ``max_skew_floor``. The range says what else the lists have without any relation to the groups:
    queries that find the same images go astray together, so the mean over many queries spreads
    more than independent lists would.
    """
    check_level(level)
    ranking = Ranking.of(top=top, groups=encode_groups(sensitive_features))
    by_query = shuffled_max_skews(ranking, m, target, permutations, seed, show_progress)
    values = by_query.mean(axis=1)
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return Shuffled(float(values.mean()), float(low), float(high), level, permutations)


def shuffled_max_skews(
    ranking: Ranking,
    m: int,
    target: Target,
    permutations: int,
    seed: int,
    show_progress: bool | None = None,
) -> np.ndarray:
    """Return MaxSkew@M of each query's list with shuffled labels: (permutations, queries)."""
    known = np.flatnonzero(ranking.groups.known)
    rng, values = np.random.default_rng(seed), []
    with progress("permutations", whole(permutations, "permutations"), show_progress) as advance:
        for _ in range(permutations):
            codes = ranking.groups.codes.copy()
            codes[known] = rng.permutation(codes[known])
            shuffled = replace(ranking, groups=ranking.groups._replace(codes=codes))
            values.append(shuffled.max_skew(m, target).values[0])
            advance(1)
    return np.stack(values)


def max_skew_floor(*, sensitive_features: Any, m: int = 1000, target: Target = "dataset") -> float:
    """Return the expected MaxSkew@M of a ranking drawn at random.

    It is positive, and larger where there are fewer images: report skew beside it.

    The first m places then hold the groups by a multivariate hypergeometric law, which is that of
    independent binomials given their sum. The law of the maximum follows from truncating each
    binomial, and its expectation from the law.
    """
    groups = encode_groups(sensitive_features)
    sizes = groups.sizes
    m = min(whole(m, "m"), int(sizes.sum()))
    shares = target_shares(target, sizes[None].astype(float), groups.labels)[0]
    likely = [_binomial(size, m / sizes.sum()) for size in sizes]
    ratios = [counts / (m * share) for (counts, _), share in zip(likely, shares, strict=True)]
    values = np.unique(np.concatenate(ratios))
    law = np.empty(len(values))
    for i, value in enumerate(values):
        pairs = zip(likely, ratios, strict=True)
        truncated = [p * (ratio <= value) for (_, p), ratio in pairs]
        law[i] = _chance(truncated, likely, m)
    law /= law[-1]
    chance = np.diff(law, prepend=0.0)
    occurs = (chance > 0) & (values > 0)
    return float(chance[occurs] @ np.log(values[occurs]))


def _binomial(size: int, share: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the counts that are not negligible, and their probabilities."""
    from scipy.stats import binom

    lowest = max(0, int(binom.ppf(NEGLIGIBLE, size, share)) - 1)
    # The upper tail is that of the failures, because 1 - NEGLIGIBLE rounds to 1.
    fewest_failures = max(0, int(binom.ppf(NEGLIGIBLE, size, 1 - share)) - 1)
    highest = size - fewest_failures
    counts = np.arange(lowest, highest + 1)
    return counts, binom.pmf(counts, size, share)


def _chance(parts: list[np.ndarray], likely: list[tuple[np.ndarray, np.ndarray]], m: int) -> float:
    """Return the probability that independent counts with these (truncated) laws sum to m."""
    total = np.ones(1)
    for part in parts[:-1]:
        total = np.convolve(total, part)
    start = sum(int(counts[0]) for counts, _ in likely)
    place = m - start - np.arange(len(total))  # of the last count
    inside = (place >= 0) & (place < len(parts[-1]))
    return float(total[inside] @ parts[-1][place[inside]])
