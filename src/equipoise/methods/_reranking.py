"""Re-rankers: which images of each predicted group are on a page, and where, by a rule.

A rule is a function of the best scores of each group and of the shares that a page should have.
Re-rankers differ in nothing else: ``interleave`` is the simplest of them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np

from equipoise import geometry
from equipoise._space import EncoderRef
from equipoise.errors import InputError
from equipoise.geometry import Float64
from equipoise.methods._balanced_page import nobody
from equipoise.methods._context import FitContext
from equipoise.methods._fitting_rows import unit_rows
from equipoise.methods._fitting_texts import prototypes
from equipoise.methods._memberships import Memberships, closest, wanted_shares
from equipoise.methods._operator import Gate, Operator
from equipoise.methods._registry import Method
from equipoise.methods._served_index import Served, can_be_served
from equipoise.prompts._attribute import Attribute

Places = list[np.ndarray]
"""The places, from 0, that the best images of each group get on a page."""


class RerankOperator(Operator):
    """Ranks by ``scores`` alone; texts and images stay as they are.

    The first k of the index that it holds are placed by the rule, the rest follow by score. The
    index are the images that it was fitted on, where they can be read again, or those of ``bind``.
    """

    gates_by_default = True
    rule: ClassVar[type[Rerank]]

    def __init__(
        self,
        attribute: Attribute,
        options: Rerank,
        named: Float64,
        counts: np.ndarray,
        **given: Any,
    ):
        super().__init__(attribute, (), named.shape[1], **given)
        self.options, self.prototypes, self.counts = options, named, counts
        shares = wanted_shares(options.target, attribute.groups)
        self.shares = counts / counts.sum() if shares is None else shares
        self._served: Served | None = None

    @property
    def per_prompt(self) -> bool:
        return True

    @property
    def index(self) -> Any:
        """Return the images that pages are made of; None until it is given some."""
        return None if self._served is None else self._served.images

    def bind(self, encoder: Any = None, *, index: Any = None) -> RerankOperator:
        """Give the operator an encoder, an index to search, or both."""
        if encoder is not None:
            super().bind(encoder)
        if index is not None:
            self._served = Served(index, Memberships.none(self.prototypes))
        return self

    def scores(
        self, images: Any, texts: Any, prompts: Sequence[str] | None = None, gate: Gate = None
    ) -> np.ndarray:
        """Return what to rank images by (images, texts): 1 and more on the page, the score after
        it.
        """
        self._check_width(images, "images")
        self._check_width(texts, "texts")
        if self._served is None:
            raise InputError(
                f"this {self.method} operator holds no index, and pages are made of the index that"
                " is served; pass it with op.bind(index=rows)"
            )
        rows = geometry.unit(np.asarray(images, np.float64))
        queries = geometry.unit(np.asarray(texts, np.float64))
        groups = closest(rows, self.prototypes)
        found = rows @ queries.T
        kept = np.broadcast_to(self._gated(prompts, gate), len(queries))
        best = self._best(queries, self._served)
        for j in np.flatnonzero(~kept):
            places = self.options.places([scores[j] for scores in best], self.shares)
            for group, there in enumerate(places):
                mine = groups == group
                found[mine, j] = _placed(found[mine, j], best[group][j], there, self.options.k)
        return found

    def _best(self, queries: Float64, served: Served) -> list[Float64]:
        """Return the scores (queries, at most k) of the best images of each group."""
        best = []
        for group in range(len(self.prototypes)):
            scores = np.empty((len(queries), 0))
            if (served.groups == group).any():
                scores = served.search_group(group, queries, self.options.k)[1]
            best.append(scores.astype(np.float64))
        return best

    def _image(self, rows: Any) -> Any:
        return rows

    def _text(self, rows: Any, prompts: Sequence[str] | None) -> Any:
        return rows

    def left_alone(self, prompt: str) -> str:
        """Return why a prompt is left as it is, or "" where its page is re-ranked."""
        return super().left_alone(prompt) or nobody(prompt, self.attribute)

    def arrays(self) -> dict[str, np.ndarray]:
        return {"prototypes": self.prototypes, "counts": self.counts}

    def settings(self) -> dict[str, Any]:
        return {"options": asdict(self.options)}

    @classmethod
    def restore(
        cls,
        attribute: Attribute,
        arrays: dict[str, np.ndarray],
        settings: dict[str, Any],
        made_by: EncoderRef,
    ) -> RerankOperator:
        options = cls.rule(**settings["options"])
        return cls(attribute, options, arrays["prototypes"], arrays["counts"], encoder=made_by)


def _placed(scores: Float64, best: Float64, places: np.ndarray, k: int) -> Float64:
    """Return scores by which images of one group come to their places: 2 for the first, above 1 for
    the last of the page.

    Which of the group's best an image is, is told by its score, cut halfway between neighbours so
    that rounding does no harm.
    """
    if not len(places):
        return scores
    below = best[len(places)] if len(best) > len(places) else -np.inf
    cuts = (best[: len(places)] + np.append(best[1 : len(places)], below)) / 2
    rank = np.searchsorted(-cuts, -scores)
    on_page = rank < len(places)
    out = scores.copy()
    out[on_page] = 2 - places[rank[on_page]] / k
    return out


@dataclass(frozen=True)
class Rerank(Method):
    """k: the page that is served.

    target: "collection", "equal", or a share for each group. Groups are predicted: an image is of
    the group whose prototype is closest.
    """

    k: int = 20
    target: str | Mapping[str, float] = "collection"
    prototype: str = "both"

    needs: ClassVar[tuple[str, ...]] = ("prompts", "images")
    changes: ClassVar[tuple[str, ...]] = ()
    tasks: ClassVar[tuple[str, ...]] = ("retrieval",)
    page: ClassVar[str] = "k"
    operator: ClassVar[type[RerankOperator]]

    @abstractmethod
    def places(self, best: Sequence[Float64], shares: Float64) -> Places:
        """Return the places of each group's images on a page.

        best: the scores of each group's images, best first. shares: what the page should have.
        """

    def fit(self, context: FitContext) -> RerankOperator:
        """Count the images of each group in one pass; they are the index, if they can be read
        again.
        """
        context.require(self.name, "images")
        if self.k < 1:
            raise InputError(f"k={self.k!r} is not legal; pass a whole number from 1")
        named = prototypes(self.name, context, self.prototype)
        counts = np.zeros(len(named), np.int64)
        for block in context.image_blocks():
            rows, _ = unit_rows(block, named.shape[1])
            counts += np.bincount(closest(rows, named), minlength=len(named))
        if not counts.sum():
            raise InputError(f"{self.name} needs images with a direction, and there are none")
        by_group = dict(zip(context.attribute.groups, counts.tolist(), strict=True))
        params = asdict(self) | {"images": by_group}
        operator = self.operator(
            context.attribute, self, named, counts, encoder=context.encoder, params=params
        )
        if can_be_served(context.images):
            operator.bind(index=context.images)
        return operator


def places_of(order: Sequence[int], groups: int) -> Places:
    """Return the places that each group gets where ``order`` says the group of every place."""
    given = np.asarray(order, int)
    return [np.flatnonzero(given == group) for group in range(groups)]
