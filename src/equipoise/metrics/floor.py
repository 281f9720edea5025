"""The floor of MaxSkew: what a random ranking is expected to have, exactly."""

from __future__ import annotations

from typing import Any

import numpy as np

from equipoise.metrics.labels import encode_groups
from equipoise.metrics.ranking import whole
from equipoise.metrics.retrieval import Target, target_shares

NEGLIGIBLE = 1e-18  # tails beyond this probability are not summed


def max_skew_floor(*, sensitive_features: Any, m: int = 1000, target: Target = "dataset") -> float:
    """Expected MaxSkew@M of a ranking drawn at random: positive, and the larger the fewer the images. Report skew beside it.

    The first m places then hold the groups by a multivariate hypergeometric law, which is that of independent binomials given their
    sum. The law of the maximum follows from truncating each binomial, and its expectation from the law.
    """
    groups = encode_groups(sensitive_features)
    sizes = groups.sizes
    m = min(whole(m, "m"), int(sizes.sum()))
    shares = target_shares(target, sizes[None].astype(float), groups.labels)[0]
    likely = [_binomial(size, m / sizes.sum()) for size in sizes]
    ratios = [counts / (m * share) for (counts, _), share in zip(likely, shares, strict=True)]
    values = np.unique(np.concatenate(ratios))
    law = np.array([_chance([p * (ratio <= value) for (_, p), ratio in zip(likely, ratios, strict=True)], likely, m) for value in values])
    law /= law[-1]
    chance = np.diff(law, prepend=0.0)
    occurs = (chance > 0) & (values > 0)
    return float(chance[occurs] @ np.log(values[occurs]))


def _binomial(size: int, share: float) -> tuple[np.ndarray, np.ndarray]:
    """The counts that are not negligible, and their probabilities."""
    from scipy.stats import binom

    lowest = max(0, int(binom.ppf(NEGLIGIBLE, size, share)) - 1)
    highest = size - max(0, int(binom.ppf(NEGLIGIBLE, size, 1 - share)) - 1)  # the other way round, because 1 - NEGLIGIBLE is 1
    counts = np.arange(lowest, highest + 1)
    return counts, binom.pmf(counts, size, share)


def _chance(parts: list[np.ndarray], likely: list[tuple[np.ndarray, np.ndarray]], m: int) -> float:
    """Probability that independent counts with these (truncated) laws sum to m."""
    total = np.ones(1)
    for part in parts[:-1]:
        total = np.convolve(total, part)
    start = sum(int(counts[0]) for counts, _ in likely)
    place = m - start - np.arange(len(total))  # of the last count
    inside = (place >= 0) & (place < len(parts[-1]))
    return float(total[inside] @ parts[-1][place[inside]])
