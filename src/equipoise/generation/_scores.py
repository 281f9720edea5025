"""CLIP score: the cosine of a picture and its prompt.

The encoder must not be one that conditioned the picture.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from equipoise._progress import progress
from equipoise.errors import InputError
from equipoise.generation._manifest import Manifest
from equipoise.generation._painters import Painter

_BATCH = 64


def require_independent(encoder: Any, painter: Painter) -> None:
    """Raise for an encoder that conditioned the pictures.

    It would score how well the generator listens to it.
    """
    if painter.conditioned_by(encoder):
        raise InputError(
            f"{encoder.id} is the encoder that {painter.id} is conditioned by, and would be a judge"
            " in its own case; pass another with `clip_score`, or `same_encoder` to score with it"
            " all the same, which the table then says"
        )


def clip_scores(encoder: Any, manifest: Manifest) -> dict[str, float]:
    """Return image -> the cosine with its own prompt, not below 0."""
    manifest.require_files()
    pictures = list(manifest.pictures.values())
    prompts = list(dict.fromkeys(picture.prompt for picture in pictures))
    if not prompts:
        return {}
    texts = dict(zip(prompts, np.asarray(encoder.encode_text(prompts)), strict=True))
    found = {}
    with progress(f"CLIP score by {encoder.id}", len(pictures)) as advance:
        for start in range(0, len(pictures), _BATCH):
            some = pictures[start : start + _BATCH]
            rows = encoder.encode_images(
                [manifest.folder / picture.image for picture in some], on_unreadable="raise"
            )
            asked = np.stack([texts[picture.prompt] for picture in some])
            cosines = np.einsum("nd,nd->n", rows, asked)
            for picture, cosine in zip(some, cosines, strict=True):
                found[picture.image] = max(float(cosine), 0.0)
            advance(len(some))
    return found
