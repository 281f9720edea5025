"""``equipoise bench balance``: what a balanced search takes beyond the exact search itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from equipoise._bench.retrieval import unit_rows
from equipoise._bench.timing import interleaved
from equipoise._verbs.search import search
from equipoise.errors import InputError
from equipoise.methods import FitContext
from equipoise.methods._balanced import Balanced
from equipoise.prompts._attribute import Attribute

GROUPS = (2, 14)
DEPTHS = (20, 1000)
SHARE = 0.05  # of the search: the aim for two groups
MILLISECONDS = 20.0  # per query: the aim for more
LEAN = 0.5  # how far images lean to their group, and queries to the first


@dataclass(frozen=True)
class Row:
    """One number of groups and one k: seconds per query of the search alone, and balanced."""

    images: int
    dim: int
    queries: int
    groups: int
    k: int
    search_seconds: float
    balanced_seconds: float

    @property
    def added_seconds(self) -> float:
        return self.balanced_seconds - self.search_seconds

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
    rounds: int = 3,
) -> Iterator[Row]:
    """Yield one row per number of groups and k; searches alternate, and medians are given."""
    if min(images, dim, queries, *depths) < 1 or max(depths) > images or min(groups) < 2:
        raise InputError(
            f"{images} images, width {dim}, {queries} queries, groups {list(groups)}, depths"
            f" {list(depths)} are not legal; all start at 1, groups at 2, and no depth exceeds the"
            " images"
        )
    for count in groups:
        index, texts, axes = _collection(images, dim, queries, count)
        names = tuple(f"group {i}" for i in range(count))
        prototypes = dict(zip(names, axes, strict=True))
        context = FitContext(Attribute("made", names), prototypes=prototypes, images=index)
        for k in depths:
            operator = Balanced(k=k).fit(context)
            contenders = {
                "search": lambda k=k, index=index, texts=texts: search(index, texts, k),
                "balanced": lambda k=k, index=index, texts=texts, operator=operator: search(
                    index, texts, k, balance=operator
                ),
            }
            seconds = interleaved(contenders, rounds)
            alone = seconds["search"] / queries
            balanced = seconds["balanced"] / queries
            yield Row(images, dim, queries, count, k, alone, balanced)


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
