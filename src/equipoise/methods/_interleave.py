"""``interleave``: each place of a page goes to the group that is furthest below its share, and in
the group to the image that scores highest.

Quotas of predicted groups, as fair re-ranking has it (PBM, Kong et al. 2023): no query ranks so, it
needs the group of every image, and the page has no proof of its price. The rival of ``balanced``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np

from equipoise import geometry
from equipoise._space import EncoderRef
from equipoise.errors import InputError
from equipoise.geometry import Float64
from equipoise.methods._context import FitContext
from equipoise.methods._memberships import Memberships, closest, wanted_shares
from equipoise.methods._operator import Gate, Operator
from equipoise.methods._registry import Method
from equipoise.methods._rows import unit_rows
from equipoise.methods._served import Served, can_be_served
from equipoise.methods._texts import prototypes
from equipoise.prompts._attribute import Attribute


class InterleaveOperator(Operator):
    """Ranks by ``scores`` alone; texts and images stay as they are.

    The first k of the index that it holds are interleaved, the rest follow by score. The index are
    the images that it was fitted on, where they can be read again, or those of ``bind``.
    """

    method = "interleave"

    def __init__(
        self,
        attribute: Attribute,
        options: Interleave,
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
        """The images that pages are made of; None until it is given some."""
        return None if self._served is None else self._served.images

    def bind(self, encoder: Any = None, *, index: Any = None) -> InterleaveOperator:
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
                "this interleave operator holds no index, and places are given out on the index"
                " that is served; pass it with op.bind(index=rows)"
            )
        rows = geometry.unit(np.asarray(images, np.float64))
        queries = geometry.unit(np.asarray(texts, np.float64))
        groups = closest(rows, self.prototypes)
        plain = rows @ queries.T
        kept = np.broadcast_to(self._gated(prompts, gate), len(queries))
        found = plain.copy()
        best = self._best(queries, self._served)
        for j in np.flatnonzero(~kept):
            places = interleaved([scores[j] for scores in best], self.shares, self.options.k)
            for group, there in enumerate(places):
                mine = groups == group
                found[mine, j] = _placed(plain[mine, j], best[group][j], there, self.options.k)
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
    ) -> InterleaveOperator:
        options = Interleave(**settings["options"])
        return cls(attribute, options, arrays["prototypes"], arrays["counts"], encoder=made_by)


def interleaved(best: Sequence[Float64], shares: Float64, k: int) -> list[np.ndarray]:
    """Return the places, from 0, that the images of each group get among the first k.

    best: the scores of each group's images, best first. The next place goes to the group whose
    images are the most below its share of the places so far; of equal ones, to the better image.
    """
    taken = np.zeros(len(best), int)
    sizes = np.array([len(scores) for scores in best])
    places: list[list[int]] = [[] for _ in best]
    for place in range(min(k, int(sizes.sum()))):
        missing = np.where(taken < sizes, shares * (place + 1) - taken, -np.inf)
        ties = np.flatnonzero(missing >= missing.max() - 1e-9)
        group = max(ties.tolist(), key=lambda group: best[group][taken[group]])
        places[group].append(place)
        taken[group] += 1
    return [np.array(there, int) for there in places]


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
class Interleave(Method):
    """k: the page that is served.

    target: "collection", "equal", or a share for each group.
    """

    k: int = 20
    target: str | Mapping[str, float] = "collection"
    prototype: str = "both"

    name: ClassVar[str] = "interleave"
    summary: ClassVar[str] = "places of a page given out by quotas of predicted groups"
    source: ClassVar[str] = "after Kong et al. 2023"
    needs: ClassVar[tuple[str, ...]] = ("prompts", "images")
    changes: ClassVar[tuple[str, ...]] = ()
    tasks: ClassVar[tuple[str, ...]] = ("retrieval",)
    page: ClassVar[str] = "k"
    operator: ClassVar[type[Operator]] = InterleaveOperator

    def fit(self, context: FitContext) -> InterleaveOperator:
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
            raise InputError("interleave needs images with a direction, and there are none")
        params = asdict(self) | {
            "images": dict(zip(context.attribute.groups, counts.tolist(), strict=True))
        }
        operator = InterleaveOperator(
            context.attribute, self, named, counts, encoder=context.encoder, params=params
        )
        if can_be_served(context.images):
            operator.bind(index=context.images)
        return operator


METHOD = Interleave
