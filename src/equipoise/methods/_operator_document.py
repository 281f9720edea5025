"""``OperatorMetadata``: what the file of an operator holds beside its arrays."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from equipoise._documents import Metadata, WrittenValue
from equipoise._space_document import EncoderFacts, SpaceMetadata, SpaceSetMetadata
from equipoise.prompts._attribute_document import AttributeFacts


class OperatorMetadata(Metadata):
    """What the file of an operator holds beside its arrays.

    Methods of other packages have settings of their own, so these are not described further.
    """

    kind: Literal["operator"] = "operator"
    format: int = 1
    method: str = Field(description="Its name among the methods.")
    attribute: list[AttributeFacts] = Field(
        min_length=1, description="One, or the parts of an intersection."
    )
    encoder: EncoderFacts
    params: dict[str, WrittenValue] = Field(description="The method's parameters.")
    settings: dict[str, WrittenValue] = Field(
        description="What the method needs beside its arrays to be restored."
    )
    version: str = Field(default="", description="The equipoise that fitted it.")


class SpaceSettings(Metadata):
    """The settings of methods that come down to the closed form in an attribute space."""

    changes: tuple[Literal["image", "text"], ...]
    space: SpaceSetMetadata | SpaceMetadata = Field(union_mode="left_to_right")
    folds: int = Field(default=0, description="Spaces of cross-fitting: arrays fold.0, fold.1, ...")
    as_released: str = Field(default="", description="The arithmetic of the released code, if any.")
