"""``equipoise bench balance``: what a balanced search takes beyond the exact search itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from equipoise._bench.retrieval import unit_rows
from equipoise._bench.timing import by_round, median
from equipoise._verbs.search import search
from equipoise.errors import InputError
from equipoise.methods import FitContext
from equipoise.methods._balanced import Balanced
from equipoise.methods._balanced_operator import BalancedOperator
from equipoise.prompts._attribute import Attribute

GROUPS = (2, 14)
DEPTHS = (20, 1000)
SHARE = 0.05  # of the search: the aim for two groups
MILLISECONDS = 20.0  # per query: the aim for more
ROUNDS = 15  # texts of each row
LEAN = 0.5  # how far images lean to their group, and queries to the first


@dataclass(frozen=True)
class Row:
    """One number of groups and one k: seconds per query of the search alone, and balanced.

    added_seconds is the median of what balancing added to the search of the same text, and lies
    between added_low and added_high.
    """

    images: int
    dim: int
    queries: int
    groups: int
    k: int
    rounds: int
    search_seconds: float
    balanced_seconds: float
    added_seconds: float
    added_low: float
    added_high: float

    @property
    def share(self) -> float:
        """Return the added time as a share of the search."""
        return self.added_seconds / self.search_seconds

    @property
    def aim(self) -> str:
        if self.groups == 2:
            return f"{SHARE:.0%} of the search"
        return f"{MILLISECONDS:.0f} ms"


def run(
    images: int,
    dim: int,
    queries: int,
    groups: tuple[int, ...] = GROUPS,
    depths: tuple[int, ...] = DEPTHS,
    rounds: int = ROUNDS,
) -> Iterator[Row]:
    """Yield one row per number of groups and k. Each round searches for texts of its own."""
    if min(images, dim, queries, *depths) < 1 or max(depths) > images or min(groups) < 2:
        raise InputError(
            f"{images} images, width {dim}, {queries} queries, groups {list(groups)}, depths"
            f" {list(depths)} are not legal; each is at least 1, groups are at least 2, and depths"
            " at most the number of images"
        )
    for count in groups:
        index, texts, axes = _collection(images, dim, queries * (rounds + 1), count)
        names = tuple(f"group {i}" for i in range(count))
        prototypes = dict(zip(names, axes, strict=True))
        context = FitContext(Attribute("made", names), prototypes=prototypes, images=index)
        for k in depths:
            operator = Balanced(k=k).fit(context)
            seconds = _searched(index, texts.reshape(rounds + 1, queries, dim), operator)
            yield _row(seconds, images, dim, queries, count, k)


def _searched(
    index: np.ndarray, texts: np.ndarray, operator: BalancedOperator
) -> dict[str, list[float]]:
    """Return the seconds of each round (rounds + 1, queries, dim), searched plain and balanced."""

    def plain(i: int) -> object:
        return search(index, texts[i], operator.options.k)

    def balanced(i: int) -> object:
        return search(index, texts[i], operator.options.k, balance=operator)

    return by_round({"search": plain, "balanced": balanced}, len(texts) - 1)


def _row(
    seconds: dict[str, list[float]], images: int, dim: int, queries: int, groups: int, k: int
) -> Row:
    pairs = np.array([seconds["search"], seconds["balanced"]]) / queries
    alone, balanced = np.median(pairs, axis=1).tolist()
    added = median((pairs[1] - pairs[0]).tolist())
    return Row(images, dim, queries, groups, k, pairs.shape[1], alone, balanced, *added)


def _collection(
    images: int, dim: int, queries: int, groups: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return unit images that lean to a group each, queries that lean to the first, and the
    groups' directions.
    """
    rng = np.random.default_rng(0)
    axes = unit_rows(rng, groups, dim)
    index = unit_rows(rng, images, dim)
    for i, axis in enumerate(axes):
        index[i::groups] += LEAN * axis
    for start in range(0, images, 1 << 14):
        part = index[start : start + (1 << 14)]
        part /= np.linalg.norm(part, axis=1, keepdims=True)
    texts = unit_rows(rng, queries, dim) + LEAN * axes[0]
    texts /= np.linalg.norm(texts, axis=1, keepdims=True)
    return index, texts, axes
