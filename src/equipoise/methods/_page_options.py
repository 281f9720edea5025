"""What a balanced page is held to: the parameters of ``balanced``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from equipoise.errors import InputError
from equipoise.methods._memberships import wanted_shares
from equipoise.prompts._attribute import Attribute


@dataclass(frozen=True)
class PageOptions:
    """k: the page that is served.

    membership: "index" learns how the images show what the prompts say, "text" takes the prompts'
    own direction, "both" holds the page to both. mode: "query" shifts the query; "rerank" adjusts
    scores by group probabilities. target: "collection", "equal", or a share for each group.
    strength: how far the page's mean membership goes from its own, at 0, to the target, at 1; at
    each the page is the best of its kind. nearest: where the target is out of reach, take the
    nearest shares instead of an error. agreement: the correlation that two halves of the prompts
    must have over the images, and below which the groups cannot be told apart; None: what random
    directions would hardly reach.
    """

    k: int = 20
    membership: Literal["index", "text", "both"] = "index"
    mode: Literal["query", "rerank"] = "query"
    target: str | Mapping[str, float] = "collection"
    strength: float = 1.0
    nearest: bool = False
    agreement: float | None = None
    prototype: str = "both"

    def check(self, attribute: Attribute) -> None:
        """Raise where a parameter is not legal for this attribute."""
        wanted_shares(self.target, attribute.groups)
        if self.k < 1:
            raise InputError(f"k={self.k!r} is not legal; pass a whole number from 1")
        if not 0 <= self.strength <= 1:
            raise InputError(f"strength={self.strength!r} is not legal; pass a number from 0 to 1")
