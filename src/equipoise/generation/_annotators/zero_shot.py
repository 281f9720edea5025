"""Any encoder as an annotator: the group whose texts a picture is closest to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from equipoise import geometry
from equipoise._annotate.question import UNSURE
from equipoise.errors import InputError
from equipoise.generation._annotators.annotator import Annotator
from equipoise.prompts._attribute import Attribute
from equipoise.prompts._grammar import write_entry

PROMPT = "a photo of a person"


class ZeroShot(Annotator):
    """An encoder that names the group whose texts a picture is closest to.

    margin: how far the closest group's similarity must exceed the second's; the answer is "unsure"
    where it does not.
    """

    batch = 64

    def __init__(self, encoder: Any, attribute: Attribute, margin: float = 0.0):
        super().__init__(attribute)
        if not margin >= 0:
            raise InputError(
                f"margin={margin} is not legal; it is a difference of cosines, from 0 on"
            )
        self.encoder, self.margin, self.name = encoder, margin, f"encoder:{encoder.id}"
        texts = [write_entry(PROMPT, attribute, group).texts for group in attribute.groups]
        self._prototypes = np.stack(
            [
                geometry.prototype(np.asarray(encoder.encode_text(list(some)), np.float64))
                for some in texts
            ]
        )

    def answers(self, images: Sequence[Path]) -> list[str]:
        rows = np.asarray(self.encoder.encode_images(images, on_unreadable="raise"), np.float64)
        scores = rows @ self._prototypes.T
        best, second = np.sort(scores, axis=1)[:, [-1, -2]].T
        sure = best - second > self.margin
        return [
            self.attribute.groups[i] if known else UNSURE
            for i, known in zip(scores.argmax(1), sure, strict=True)
        ]
