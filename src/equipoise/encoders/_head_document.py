"""``HeadEditMetadata``: what the file of a head edit holds beside its array."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from equipoise._documents import Metadata
from equipoise._space_document import EncoderFacts

Place = Annotated[int, Field(ge=0)]
Found = Literal["given", "errors", "attribute"]


class HeadEditMetadata(Metadata):
    """What the file of a head edit holds beside the means of its heads."""

    kind: Literal["head edit"] = "head edit"
    format: int = 1
    heads: tuple[tuple[Place, Place], ...] = Field(
        description="The layer of each head and its place there, both from 0."
    )
    found: Found = Field(
        description="Whether they were given, decide errors, or carry the attribute."
    )
    images: int = Field(ge=1, description="How many images the means are of.")
    encoder: EncoderFacts
    version: str = Field(description="The equipoise that fitted it.")
