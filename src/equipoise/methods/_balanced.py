"""``balanced``: the page of the largest total score whose mean membership is a target.

The programme is ``equipoise._balance``'s. Memberships are linear in the image, ``a = W^T x``, so
that the balanced ranking is that of one query, ``t - W lam*``: no image is rewritten, and any
vector database serves it. Fitting reads the images once, without labels.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import ClassVar

from equipoise.errors import InputError
from equipoise.methods._balanced_operator import (
    BalancedOperator,
    images_of_groups,
    operator_of,
)
from equipoise.methods._context import FitContext
from equipoise.methods._fitting_texts import matched_texts, prototypes
from equipoise.methods._memberships import Moments, sampled, score_spread
from equipoise.methods._operator import Operator
from equipoise.methods._page_options import PageOptions
from equipoise.methods._registry import Method, Strength
from equipoise.methods._served_index import can_be_served
from equipoise.methods._told_apart import check_prompts


@dataclass(frozen=True)
class Balanced(PageOptions, Method):
    """The best page whose groups are in proportion; its parameters are ``PageOptions``."""

    name: ClassVar[str] = "balanced"
    summary: ClassVar[str] = "the best page whose groups are in proportion, by one shifted query"
    source: ClassVar[str] = "ours"
    needs: ClassVar[tuple[str, ...]] = ("prompts", "images")
    changes: ClassVar[tuple[str, ...]] = ("text",)
    tasks: ClassVar[tuple[str, ...]] = ("retrieval",)
    page: ClassVar[str] = "k"
    sweep: ClassVar[Strength | None] = Strength("strength", 0, (0.25, 0.5, 0.75, 1))
    operator: ClassVar[type[Operator]] = BalancedOperator

    def fit(self, context: FitContext) -> BalancedOperator:
        """Fit memberships in one pass over the images, in blocks.

        The spread that scores are measured by must be known before the pass. It is that of 16,384
        images: drawn by lot from an array; of a store or an iterator of blocks the first ones, held
        until the pass. Images that can be read again are then the operator's index.
        """
        context.require(self.name, "images")
        self.check(context.attribute)
        named = prototypes(self.name, context, self.prototype)
        dim = named.shape[1]
        sample, blocks = sampled(context.images, context.image_blocks(), dim, context.seed)
        spread = score_spread(sample, named) if len(sample) else 0.0
        if not spread > 0:
            raise InputError(
                f"balanced needs images that differ along the prompts' directions, and the"
                f" {len(sample)} that were read do not; pass other images"
            )
        moments = Moments.of(blocks, named, spread)
        texts = matched_texts(self.name, context, self.prototype)
        agreed = check_prompts(texts, moments.covariance, self.agreement, context.attribute)
        params = asdict(self) | images_of_groups(moments, context.attribute) | {"agreement": agreed}
        operator = operator_of(
            context.attribute,
            self,
            moments,
            named,
            spread,
            images=context.images if can_be_served(context.images) else None,
            encoder=context.encoder,
            params=params,
        )
        operator.check_labels(context.sensitive_features)
        return operator


METHOD = Balanced
