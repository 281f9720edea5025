"""``eq.search``: the images that score highest for each query, exactly, and balanced if asked."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from equipoise._search import top_k
from equipoise._stores import Store, open_store
from equipoise._tensor_search import is_on_gpu, on_host
from equipoise._tensor_search import top_k as top_k_on_gpu
from equipoise.errors import EquipoiseError, InputError
from equipoise.methods import FitContext, Operator
from equipoise.methods._balanced import Balanced
from equipoise.methods._balanced_operator import BalancedOperator
from equipoise.methods._balanced_page import PageCertificate
from equipoise.methods._served_index import can_be_served
from equipoise.prompts._attribute import Attribute
from equipoise.prompts._book_choice import book_for
from equipoise.prompts._prompt_book import PromptBook

if TYPE_CHECKING:
    import pandas as pd

PEOPLE = "people-gender"  # the curated book whose prompts tell groups of any attribute apart
PROTOTYPE = "anchor"  # variants tell groups apart no better, and take ten times as long to encode

COLLECTION = "collection"  # the target that is not named
SHOWN = 3  # queries that a printed result tells about

Target = str | Mapping[str, float]


@dataclass(frozen=True, eq=False)
class SearchResults:
    """The results of a search, best first: ``indices`` and ``scores``, each (queries, k).

    It unpacks: ``indices, scores = eq.search(...)``. They are tensors where a tensor on a GPU was
    searched. queries: the texts, where texts were given.

    A balanced search says more. certificates: what balancing the first page of each query did, None
    where it was left as it is. left_alone: why it was, or "". groups (queries, k): the group that
    the prompts see in each image. scores are then the adjusted ones that the ranking goes by.

    index: what was searched. Where it is a store, ``to_frame`` has what the store says of each
    image, such as its path.
    """

    indices: Any
    scores: Any
    queries: tuple[str, ...] | None = None
    certificates: tuple[PageCertificate | None, ...] | None = None
    left_alone: tuple[str, ...] | None = None
    groups: np.ndarray | None = None
    index: Any = None

    def __iter__(self) -> Iterator[np.ndarray]:
        return iter((self.indices, self.scores))

    def to_frame(self) -> pd.DataFrame:
        """Return one row per query and place: query, place (from 1), image, score.

        A balanced search adds the group, and a store the columns that it has of each image.
        """
        import pandas as pd

        count, depth = self.indices.shape
        names = self.queries or tuple(range(count))
        columns = {
            "query": np.repeat(np.asarray(names, object), depth),
            "place": np.tile(np.arange(1, depth + 1), count),
            "image": on_host(self.indices).reshape(-1),
            "score": on_host(self.scores).reshape(-1),
        }
        if self.groups is not None:
            columns["group"] = self.groups.reshape(-1)
        found = pd.DataFrame(columns)
        if not isinstance(self.index, Store):
            return found
        about = self.index.metadata().iloc[found["image"]].reset_index(drop=True)
        added = [name for name in about.columns if name not in found.columns]
        return pd.concat([found, about[added]], axis=1)

    def plot(
        self,
        pictures: Sequence[Any] | None = None,
        *,
        groups: Sequence[Any] | None = None,
        query: int = 0,
        axes: Any = None,
    ) -> Any:
        """Draw the images found for one query, best first; return matplotlib's axes.

        pictures: of the whole index, one per row: paths, bytes, PIL images or arrays. A store of
        pictures needs none. groups: who is in each, one per row; a line below each picture shows
        it. By default a balanced search shows the groups that its prompts see.
        """
        from equipoise import _plots as plots
        from equipoise._verbs.found_pictures import drawn_groups, drawn_pictures

        count = len(self.indices)
        if not isinstance(query, int | np.integer) or not 0 <= query < count:
            raise InputError(f"query={query!r} is not legal; pass a whole number below {count}")
        found = on_host(self.indices[query])
        shown = drawn_pictures(self.index, pictures, found)
        names, known = drawn_groups(self.index, groups, found)
        if names is None and self.groups is not None:
            names, known = self.groups[query].tolist(), self.groups.ravel().tolist()
        title = self.queries[query] if self.queries else f"query {query}"
        return plots.draw_pictures(axes, shown, names, known, title)

    def __repr__(self) -> str:
        count, depth = self.indices.shape
        balanced = ""
        if self.certificates is not None:
            done = sum(one is not None for one in self.certificates)
            balanced = f", {done} balanced"
        searches = "1 query" if count == 1 else f"{count} queries"
        head = f"SearchResults({searches}, the first {depth} images of each{balanced})"
        return "\n".join([head, *self._balanced_lines()])

    def _balanced_lines(self) -> list[str]:
        """Return what balancing did to the first few queries."""
        if self.certificates is None or self.left_alone is None:
            return []
        names = self.queries or tuple(f"query {i}" for i in range(len(self.certificates)))
        told = zip(names, self.certificates, self.left_alone, strict=True)
        return [
            f"  {name}: {certificate or f'left as it is: {reason}'}"
            for name, certificate, reason in islice(told, SHOWN)
        ]

    def _repr_html_(self) -> str:
        return self.to_frame().head(100).to_html(index=False, escape=True)


def search(
    index: Any,
    queries: np.ndarray | Sequence[str],
    k: int = 20,
    *,
    offset: int = 0,
    encoder: Any = None,
    balance: str | Attribute | Operator | None = None,
    target: Target | None = None,
    gate: bool = True,
) -> SearchResults:
    """Find the k images of ``index`` with the largest inner product for each query, exactly.

    index: rows (n, d) as an array or memory map, a store or the path of one, blocks of rows, or a
    tensor of torch. A tensor on a GPU is searched there, and results are tensors there. queries:
    rows (q, d), or texts, which ``encoder`` encodes. offset: how many images the results
    leave out at the front: 0, k, 2 k for pages 1, 2, 3. Past the end of the index there
    are fewer than k, or none.

    balance: an attribute, or its name ("gender"), whose groups each page of k shall show as often
    as the index does, as far as the prompts can see. ``encoder`` encodes these prompts, and the
    index is read twice more; the page is that of one shifted query, whose operator gives it to any
    database. Or a fitted ``balanced`` operator, which is quicker where there are several searches;
    its own k and mode are then the page's. Page 2 is the best balanced page of what page 1 left.
    target: the shares of the groups on a page, where not those of the index: "equal", or a share
    for each group.
    gate: texts that name a group, and texts about no person, are searched for as they are.
    """
    index = _opened(index)
    queries = on_host(queries)
    texts = _texts_of(queries)
    if texts is not None:
        queries = _encoded(texts, encoder)
    rows = np.asarray(queries)
    _check_offset(offset)
    _check_target(target, balance)
    if balance is None:
        indices, scores = _plain(index, rows, k, offset)
        return SearchResults(indices, scores, texts, index=index)
    operator = _balanced_operator(balance, index, k, encoder, target)
    reasons = ("",) * len(rows)
    if gate and texts is not None:
        reasons = tuple(operator.left_alone(text) for text in texts)
    return _balanced(operator, index, rows, k, offset, texts, reasons)


def _opened(index: Any) -> Any:
    """Return the store of a path, a tensor of the CPU as numpy, and any other index as it is."""
    if isinstance(index, str | os.PathLike):
        return _store_at(index)
    if hasattr(index, "to_numpy"):
        raise InputError(
            f"the index is a {type(index).__name__} of pandas; pass its numbers:"
            " frame.to_numpy(), or np.stack(frame[column]) for a column that holds rows"
        )
    return index if is_on_gpu(index) else on_host(index)


def _store_at(path: str | os.PathLike[str]) -> Store:
    try:
        return open_store(path)
    except EquipoiseError as error:
        raise InputError(
            f"the index is a path, {os.fspath(path)!r}, and no store can be opened there ({error});"
            " eq.embed(folder, store) makes one of a folder of pictures"
        ) from error


def _texts_of(queries: Any) -> tuple[str, ...] | None:
    """Return queries that are texts; None for rows of numbers."""
    if isinstance(queries, str):
        return (queries,)
    if getattr(queries, "ndim", 1) == 1 and getattr(queries, "dtype", None) is not None:
        if queries.dtype.kind not in "OUT":  # texts of numpy, and of pandas
            return None
        return tuple(str(one) if isinstance(one, str) else one for one in queries)
    if hasattr(queries, "columns"):
        raise InputError(
            f"the queries are a {type(queries).__name__}; pass one column of it, of"
            f" {list(queries.columns)}"
        )
    if hasattr(queries, "shape"):
        return None
    if not isinstance(queries, Iterable):
        raise InputError(
            f"queries={queries!r} is not legal; pass a text, a list of texts, or rows (q, d)"
        )
    return tuple(queries)


def _encoded(texts: tuple[str, ...], encoder: Any) -> np.ndarray:
    if encoder is None:
        raise InputError("the queries are texts; pass the `encoder` of the index too")
    if not hasattr(encoder, "encode_text"):
        raise InputError(
            f"encoder={encoder!r} has no encode_text; pass what eq.load_encoder returns, the"
            " encoder that made the index"
        )
    return encoder.encode_text(list(texts))


def _check_offset(offset: Any) -> None:
    whole = isinstance(offset, int | np.integer) and not isinstance(offset, bool)
    if not whole or offset < 0:
        raise InputError(f"offset={offset!r} is not legal; pass a whole number from 0")


def _check_target(target: Target | None, balance: Any) -> None:
    """Raise where a target is given that nothing would keep to."""
    if target is None or isinstance(balance, str | Attribute):
        return
    if balance is None:
        raise InputError(f"target={target!r} needs `balance`, the attribute that it is of")
    raise InputError(
        f"target={target!r} is not legal beside a fitted operator, which has its own; fit one with"
        " this target, or pass the attribute as `balance`"
    )


def _plain(index: Any, rows: np.ndarray, k: int, offset: int) -> tuple[Any, Any]:
    find = top_k_on_gpu if is_on_gpu(index) else top_k
    blocks = index.shards() if hasattr(index, "shards") else index
    if offset == 0:
        return find(rows, blocks, k)
    indices, scores = find(rows, blocks, k + offset)
    return indices[:, offset:], scores[:, offset:]


def _balanced(
    operator: BalancedOperator,
    index: Any,
    rows: np.ndarray,
    k: int,
    offset: int,
    texts: tuple[str, ...] | None,
    reasons: tuple[str, ...],
) -> SearchResults:
    """Search for some queries as they are, and for those without a reason balanced."""
    k = operator.depth(k)
    kept = np.array([bool(reason) for reason in reasons])
    width = min(k, max(0, operator.count - offset))
    indices = np.empty((len(rows), width), np.int64)
    scores = np.empty((len(rows), width), np.float32)
    certificates: list[PageCertificate | None] = [None] * len(rows)
    if not kept.all():
        found = operator.search(rows[~kept], k, offset)
        indices[~kept], scores[~kept] = found.indices, found.scores
        for i, certificate in zip(np.flatnonzero(~kept), found.certificates, strict=True):
            certificates[i] = certificate
    if kept.any():
        plain, values = _plain(index, rows[kept], k, offset)
        indices[kept], scores[kept] = plain[:, :width], values[:, :width]
    groups = operator.groups_of(indices)
    return SearchResults(indices, scores, texts, tuple(certificates), reasons, groups, index)


def _balanced_operator(
    balance: Any, index: Any, k: int, encoder: Any, target: Target | None
) -> BalancedOperator:
    """Return an operator that serves ``index``: the one given, or one fitted on it."""
    if is_on_gpu(index):
        raise InputError(
            f"the index is a tensor on {index.device}, and a balanced search reads it on the host;"
            " pass index.cpu(), or search for operator.text(queries), the shifted queries, without"
            " `balance`"
        )
    if not can_be_served(index):
        raise InputError(
            f"the index is {type(index).__name__}, which can be read only once, and a balanced"
            " search reads it more often; pass an array, a memory map, a store, or a list of arrays"
        )
    if isinstance(balance, BalancedOperator):
        if encoder is not None:
            balance.require_encoder(encoder)
        if balance.index is index:
            return balance
        return copy.copy(balance).bind(index=index)
    if not isinstance(balance, str | Attribute):
        raise InputError(
            f"balance={balance!r} is not legal; pass an attribute, its name, or a fitted balanced"
            " operator"
        )
    if encoder is None:
        raise InputError(
            f"balance={balance!r} needs prompts that tell the groups apart; pass the `encoder` of"
            " the index, or a fitted balanced operator"
        )
    attribute = Attribute.load(balance) if isinstance(balance, str) else balance
    return fit_balanced(attribute, index, k, encoder, target or COLLECTION)


def balancing_context(attribute: Attribute, index: Any, encoder: Any) -> FitContext:
    """Return what a balanced search is fitted on: the index, and curated prompts about people."""
    book = book_for(list(PromptBook.curated(PEOPLE).prompts), attribute, None)
    return FitContext(attribute, encoder=encoder, book=book, images=index)


def fit_balanced(
    attribute: Attribute, index: Any, k: int, encoder: Any, target: Target = COLLECTION
) -> BalancedOperator:
    """Return the operator of a balanced search of an index."""
    context = balancing_context(attribute, index, encoder)
    return Balanced(k=k, prototype=PROTOTYPE, target=target).fit(context)
