"""Load the encoder that a verb was given: a model by name, or a file of text vectors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from equipoise.errors import InputError

MINI = "mini"


def open_encoder(
    model: str | None, vectors: Path | None = None, *, default: str | None = None, **options: Any
) -> Any:
    """Return the encoder called ``model``, or the text vectors of a file: exactly one of the two.

    default: the model where neither was given. options: as ``load_encoder`` takes them.
    """
    if model is not None and vectors is not None:
        raise InputError("`model` and `vectors` were both given; pass one of the two")
    if vectors is not None:
        from equipoise.prompts._text_vectors import TextVectors

        return TextVectors.load(vectors)
    name = model or default
    if name is None:
        raise InputError("no encoder was given; pass `model`, or a file of text vectors: `vectors`")
    from equipoise.encoders import load_encoder

    return load_encoder(name, cache=True, **options)
