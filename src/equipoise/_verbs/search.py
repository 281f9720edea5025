"""``eq.search``: the images that score highest for each query, exactly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from equipoise._search import top_k
from equipoise.errors import InputError

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class SearchResults:
    """The results of a search, best first: ``indices`` and ``scores``, each (queries, k).

    It unpacks: ``indices, scores = eq.search(...)``. queries: the texts, where texts were given.
    """

    indices: np.ndarray
    scores: np.ndarray
    queries: tuple[str, ...] | None = None

    def __iter__(self) -> Iterator[np.ndarray]:
        return iter((self.indices, self.scores))

    def to_frame(self) -> pd.DataFrame:
        """Return one row per query and place: query, place (from 1), image, score."""
        import pandas as pd

        count, depth = self.indices.shape
        names = self.queries or tuple(range(count))
        return pd.DataFrame(
            {
                "query": np.repeat(np.asarray(names, object), depth),
                "place": np.tile(np.arange(1, depth + 1), count),
                "image": self.indices.reshape(-1),
                "score": self.scores.reshape(-1),
            }
        )

    def __repr__(self) -> str:
        count, depth = self.indices.shape
        return f"SearchResults({count} queries, the first {depth} images of each)"

    def _repr_html_(self) -> str:
        return self.to_frame().head(100).to_html(index=False, escape=True)


def search(
    index: Any, queries: np.ndarray | Sequence[str], k: int = 20, *, encoder: Any = None
) -> SearchResults:
    """Find the k images of ``index`` with the largest inner product for each query, exactly.

    index: rows (n, d) as an array or memory map, a store, or blocks of rows. queries: rows (q, d),
    or texts, which ``encoder`` encodes.
    """
    texts = None
    if not hasattr(queries, "shape"):
        texts = (queries,) if isinstance(queries, str) else tuple(queries)
        if encoder is None:
            raise InputError("the queries are texts; pass the `encoder` of the index too")
        queries = encoder.encode_text(list(texts))
    blocks = index.shards() if hasattr(index, "shards") else index
    indices, scores = top_k(np.asarray(queries), blocks, k)
    return SearchResults(indices, scores, texts)
