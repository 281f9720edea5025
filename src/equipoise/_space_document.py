"""``SpaceMetadata``: what the file of an attribute space, or of a set, holds beside its arrays."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from equipoise._documents import Document, Metadata


class EncoderFacts(Document):
    """The encoder that made the embeddings; empty texts where nobody said."""

    id: str
    revision: str
    fingerprint: str
    note: str = Field(default="", description="Why its rows may differ from run to run.")


class PartFacts(Document):
    """One attribute of a space. Its prototypes are the array prototypes.0, prototypes.1, ..."""

    attribute: str = Field(description="Its name; empty where nobody gave one.")
    groups: tuple[str, ...]


class SpaceMetadata(Metadata):
    """What the file of an attribute space holds beside its arrays."""

    kind: Literal["attribute space", "space set"] = "attribute space"
    format: int = 1
    parts: tuple[PartFacts, ...]
    groups: tuple[str, ...] = Field(default=(), description="Those of all parts.")
    rank: int = Field(default=0, description="The dimension of the space; of a set, its first's.")
    kappa: Literal["inf"] | float = Field(description="What debiasing uses by default.")
    scope: str = Field(description="shared, per prompt, or mixed for a union of both.")
    tolerance: float = Field(
        description="Directions with a smaller share of the largest singular value were dropped."
    )
    encoder: EncoderFacts
    book_hash: str = Field(description="Of the prompt book; empty without one.")
    version: str = Field(description="The equipoise that fitted it.")


class SpaceSetMetadata(SpaceMetadata):
    """What the file of a set holds beside its arrays: what all spaces share, and each prompt."""

    prompts: tuple[str, ...]
    ranks: tuple[int, ...] = Field(description="The dimension of each prompt's space.")
