"""The images that ``equipoise fit`` fits a method on, and what is known of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from equipoise._audit.sources import ImageSource, read_images
from equipoise._audit.sources import rows as image_rows
from equipoise.datasets import Dataset
from equipoise.datasets._checks import attribute_of, check_encoder, groups_of
from equipoise.evaluation import class_prompts
from equipoise.prompts._attribute import Attribute


@dataclass(frozen=True)
class FittingImages:
    """Images to fit a method on, by names and files, and what is known of them."""

    images: Path
    embeddings: Path | None = None
    root: Path | None = None
    group_columns: Sequence[str] = ()
    label_column: str | None = None
    caption_column: str | None = None

    @property
    def attribute(self) -> Attribute:
        """Return the attribute that the names of the group columns say."""
        return attribute_of(self.group_columns)

    def read(self) -> ImageSource:
        """Read the table; pictures are encoded later."""
        return read_images(
            self.images,
            self.embeddings,
            root=self.root,
            group_columns=self.group_columns,
            label_column=self.label_column,
            caption_column=self.caption_column,
        )

    def context(self, source: ImageSource, attribute: Attribute, encoder: Any) -> dict[str, Any]:
        """Return what a ``FitContext`` says of these images."""
        check_encoder(encoder, source.embeddings)
        rows, there = image_rows(source, encoder)
        known: dict[str, Any] = {"images": rows}
        if self.group_columns:
            dataset = Dataset(source.name, source.table, tuple(self.group_columns))
            known["sensitive_features"] = groups_of(source.table, dataset, attribute)[there]
        if self.label_column is not None:
            labels = source.table["label"].to_numpy(dtype=object)[there]
            known["labels"] = labels
            known["class_prompts"] = class_prompts(dict.fromkeys(map(str, labels)))
        if self.caption_column is not None:
            known["captions"] = source.table["caption"][there].tolist()
        return known
