"""Retrieval metrics.

They say how the groups share the best places of each query, and whether the right image is among
them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from equipoise.errors import InputError
from equipoise.metrics._labels import Coded, encode_groups
from equipoise.metrics._ranking import as_array, lists, whole
from equipoise.metrics._targets import Targets, hits
from equipoise.metrics._walk import count_top, divergence

Target = str | Mapping[Any, float]


class PerQuery(NamedTuple):
    """Values (resamples, queries), and weights of the queries: as many, or None for all alike."""

    values: np.ndarray
    weights: np.ndarray | None = None

    def mean(self, queries: np.ndarray | None = None) -> np.ndarray:
        """Return the weighted mean (resamples,) over the queries; NaN where nothing counts.

        queries: their multiplicities (resamples, queries).
        """
        parts = [part for part in (self.weights, queries) if part is not None]
        if not parts:
            return self.values.mean(1)
        weights = parts[0]
        if len(parts) == 2:
            weights = parts[0] * parts[1]
        weighted = np.where(weights > 0, weights * self.values, 0).sum(1)
        total = weights.sum(1)
        return weighted / np.where(total > 0, total, np.nan)


@dataclass(frozen=True, eq=False)
class Ranking:
    """Ranked lists of one method.

    order (queries, depth): places of images. groups: the group of each image; images of an unknown
    group take no place in what concerns groups. times (resamples, images): multiplicities. targets:
    the images each query is about, for recall.
    """

    order: np.ndarray
    groups: Coded
    times: np.ndarray
    targets: Targets | None = None

    @classmethod
    def of(
        cls,
        scores: Any = None,
        *,
        top: Any = None,
        groups: Coded,
        targets: Targets | None = None,
        depth: int | None = None,
    ) -> Ranking:
        """Return the ranking of scores (queries, images) or a search's own lists."""
        order = lists(scores, top, len(groups.codes), depth)
        return cls(order, groups, np.ones((1, len(groups.codes)), np.uint16), targets)

    def resampled(self, times: np.ndarray) -> Ranking:
        """Return the same lists with other multiplicities."""
        return replace(self, times=times)

    def max_skew(self, m: int = 1000, target: Target = "dataset") -> PerQuery:
        """See ``max_skew``."""
        return self._per_query(self.skews(m, target).max(2))

    def min_skew(self, m: int = 1000, target: Target = "dataset", absent: int = 1) -> PerQuery:
        """See ``min_skew``."""
        skews = self.skews(m, target, absent)
        there = self.sizes[:, None, :] > 0
        return self._per_query(np.where(there, skews, np.inf).min(2))

    def ndkl(self, m: int = 1000, target: Target = "dataset") -> PerQuery:
        """See ``ndkl``."""
        with np.errstate(divide="ignore"):
            logs = np.log(self.shares(target))
        return self._per_query(
            divergence(self.order, self.groups.codes, logs, self.known_times(), whole(m, "m"))
        )

    def recall(self, k: int, many: str = "any") -> PerQuery:
        """See ``recall_at_k``.

        A query counts as often as its targets were drawn: an image brings its captions with it.
        """
        if self.targets is None:
            raise InputError("recall needs target=: the place of the right image of each query")
        return PerQuery(*hits(self.order, self.targets, self.times, whole(k, "k"), many))

    def skews(self, m: int, target: Target = "dataset", absent: int = 0) -> np.ndarray:
        """Return the log (resamples, queries, groups) of share over target share in the first m.

        absent: places counted for a group that holds none; with 0 its log is -inf.
        """
        codes, size = self.groups.codes, len(self.groups.labels)
        counts = count_top(self.order, codes, size, self.known_times(), whole(m, "m"))
        places = counts.sum(2, keepdims=True)
        held = np.where(counts == 0, absent, counts)
        return skews(held, places, self.shares(target)[:, None, :])

    def _per_query(self, values: np.ndarray) -> PerQuery:
        """Return the values, NaN where no image of a known group was drawn."""
        return PerQuery(np.where(self.sizes.sum(1, keepdims=True) > 0, values, np.nan))

    def known_times(self) -> np.ndarray:
        """Return the multiplicities, with zero for images of an unknown group."""
        if self.groups.known.all():
            return self.times
        return self.times * self.groups.known.astype(self.times.dtype)

    @cached_property
    def sizes(self) -> np.ndarray:
        """Return how many images (resamples, groups) each group has."""
        count = len(self.groups.labels)
        codes = np.where(self.groups.known, self.groups.codes, count)
        return np.stack([np.bincount(codes, times, count + 1)[:count] for times in self.times])

    def shares(self, target: Target) -> np.ndarray:
        """Return the share (resamples, groups) that each group is expected to hold."""
        return target_shares(target, self.sizes, self.groups.labels)


def skews(counts: np.ndarray, places: Any, shares: np.ndarray) -> np.ndarray:
    """Return log((counts / places) / shares), -inf for a group without places or images."""
    possible = (counts > 0) & (shares > 0)
    zeros = np.zeros(np.broadcast_shapes(counts.shape, shares.shape))
    ratio = np.divide(counts, places * shares, out=zeros, where=possible)
    return np.log(ratio, out=np.full(ratio.shape, -np.inf), where=possible)


def target_shares(target: Target, sizes: np.ndarray, labels: tuple) -> np.ndarray:
    """Return the shares (..., groups) that are called fair.

    They are the dataset's own, the same for all, or those given.
    """
    if isinstance(target, Mapping):
        return np.broadcast_to(_given_shares(target, labels), sizes.shape)
    if isinstance(target, str) and target == "uniform":
        return np.full(sizes.shape, 1 / len(labels))
    if isinstance(target, str) and target == "dataset":
        total = sizes.sum(-1, keepdims=True)
        return sizes / np.where(total > 0, total, 1)
    raise InputError(
        f'target={target!r} is not legal; pass "dataset", "uniform" or a mapping of group -> share'
    )


def _given_shares(target: Mapping[Any, float], labels: tuple) -> np.ndarray:
    """Return the given share of each label; raise unless all are above 0 and sum to 1."""
    shares = list(target.values())
    positive = all(isinstance(share, int | float | np.number) and share > 0 for share in shares)
    if set(target) != set(labels) or not positive or abs(sum(shares) - 1) > 1e-6:
        raise InputError(
            f"target {dict(target)} is not legal; give each of {list(labels)} a share above 0,"
            " 1 in all"
        )
    return np.array([target[label] for label in labels], float)


def max_skew(
    scores: Any = None,
    *,
    sensitive_features: Any,
    m: int = 1000,
    top: Any = None,
    target: Target = "dataset",
    average: bool = True,
) -> Any:
    """Return MaxSkew@M, the skew of the most over-represented group, as a mean over queries.

    The skew of a group is the log of its share of the first m places over its target share.

    scores (queries, images), or ``top`` (queries, depth): places of the best images, best first,
    from a search. target: "dataset" (the groups' shares of all images), "uniform", or a mapping.
    average=False: one value per query. 0 is a ranking in proportion; a random one is above that, by
    ``max_skew_floor``. A group absent from the first m cannot be the maximum; m beyond the number
    of images is that number; images of an unknown group are left out, as if they were not there.
    """
    return _result(_ranking(scores, top, sensitive_features, m).max_skew(m, target), average)


def min_skew(
    scores: Any = None,
    *,
    sensitive_features: Any,
    m: int = 1000,
    top: Any = None,
    target: Target = "dataset",
    absent: int = 1,
    average: bool = True,
) -> Any:
    """Return MinSkew@M: what ``max_skew`` gives, for the most under-represented group.

    absent: places counted for a group that holds none (0: -inf).
    """
    return _result(
        _ranking(scores, top, sensitive_features, m).min_skew(m, target, absent), average
    )


def ndkl(
    scores: Any = None,
    *,
    sensitive_features: Any,
    m: int = 1000,
    top: Any = None,
    target: Target = "dataset",
    average: bool = True,
) -> Any:
    """Return the normalised discounted KL divergence (nats) of the first places from the target.

    It is the mean over the first i places, i = 1 to m, weighed by 1 / log2(i + 1).
    """
    return _result(_ranking(scores, top, sensitive_features, m).ndkl(m, target), average)


def recall_at_k(
    scores: Any, target: Any, k: int, *, top: Any = None, many: str = "any", average: bool = True
) -> Any:
    """Return the share of queries whose right image is among the first k.

    target: its place, (queries,), or several places for each query. many: with several targets,
    "any" counts a query as found when one of them is, "share" gives the share found. Pass
    scores=None with ``top`` from a search. k beyond the number of images is that number. Equal
    scores rank in the order of the images.
    """
    if (scores is None) == (top is None):
        raise InputError(
            "pass either scores (queries, images) or scores=None and top= (queries, depth)"
        )
    k, targets = whole(k, "k"), Targets.of(target)
    if scores is not None:
        scores = as_array(scores, "scores")
        images = scores.shape[-1]
    else:
        top = as_array(top, "top")
        images = 1 + max(int(np.max(top, initial=0)), int(targets.images.max()))
    everyone = Coded(np.zeros(images, int), ("all",))
    ranking = Ranking.of(scores, top=top, groups=everyone, targets=targets, depth=k)
    if top is not None and ranking.order.shape[1] < k:
        raise InputError(
            f"lists of {ranking.order.shape[1]} images cannot tell recall at {k}; pass lists of {k}"
            " or more"
        )
    return _result(ranking.recall(min(k, images), many), average)


def able(accuracy: float, max_skew: float) -> float:
    """Return ABLE, the harmonic mean of an accuracy (0 to 1) and exp(-MaxSkew)."""
    if not 0 <= accuracy <= 1:
        raise InputError(
            f"accuracy={accuracy} is not legal; pass a share from 0 to 1, not a percentage"
        )
    fair = float(np.exp(-max_skew))
    return 2 * accuracy * fair / (accuracy + fair)


def _ranking(scores: Any, top: Any, sensitive_features: Any, m: int) -> Ranking:
    groups = encode_groups(sensitive_features)
    m = whole(m, "m")
    if scores is not None:
        m += int((~groups.known).sum())  # they may stand before others, and are passed over
    return Ranking.of(scores, top=top, groups=groups, depth=m)


def _result(per_query: PerQuery, average: bool) -> Any:
    return float(per_query.mean()[0]) if average else per_query.values[0]
