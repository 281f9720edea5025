"""``pbm``: images of all groups come in rounds, one of each (Kong et al. 2023).

Post-hoc bias mitigation takes the best image of every group at a time, so that a page is of equal
parts whatever the collection is. The authors also let images without a person compete with a round;
here every image is of the group that it is closest to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from equipoise.errors import InputError
from equipoise.geometry import Float64
from equipoise.methods._context import FitContext
from equipoise.methods._registry import Method
from equipoise.methods._reranking import Places, Rerank, RerankOperator, places_of


@dataclass(frozen=True)
class Pbm(Rerank):
    """k: the page that is served. target: "equal", which is the method."""

    target: str | Mapping[str, float] = "equal"

    name: ClassVar[str] = "pbm"
    summary: ClassVar[str] = "a page in rounds of one image of each predicted group"
    source: ClassVar[str] = "Kong et al. 2023"
    licence: ClassVar[str] = "none given"
    code: ClassVar[str] = "images without a person compete with a round; here each has a group"

    def fit(self, context: FitContext) -> RerankOperator:
        if self.target != "equal":
            raise InputError(
                f"target={self.target!r} is not legal; pbm gives every group as many places, so"
                " pass equal, or another re-ranker"
            )
        return super().fit(context)

    def places(self, best: Sequence[Float64], shares: Float64) -> Places:
        """Give places in rounds: the next image of every group that has one, the best first."""
        order: list[int] = []
        size = min(self.k, sum(len(scores) for scores in best))
        turn = 0
        while len(order) < size:
            there = [group for group, scores in enumerate(best) if turn < len(scores)]
            there.sort(key=lambda group, turn=turn: -best[group][turn])
            order += there
            turn += 1
        return places_of(order[:size], len(best))


class PbmOperator(RerankOperator):
    """Pages in rounds."""

    method = "pbm"
    rule = Pbm


Pbm.operator = PbmOperator
METHOD: type[Method] = Pbm
