"""Load the encoder that a verb was given: a model by name, or a file of text vectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import signature
from pathlib import Path
from typing import Any

from equipoise._near_names import nearest
from equipoise.errors import InputError

MINI = "mini"


def check_encoder_options(verb: Callable[..., Any], options: Mapping[str, Any]) -> None:
    """Raise for an option that neither the verb nor ``load_encoder`` has."""
    from equipoise.encoders import load_encoder

    own = signature(verb).parameters
    loading = signature(load_encoder).parameters
    for name in options:
        if name not in loading:
            raise InputError(
                f"eq.{verb.__name__} has no parameter {name!r} (help(eq.{verb.__name__}) says which"
                f" it has){nearest(name, {**own, **loading}, count=1)}"
            )


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
