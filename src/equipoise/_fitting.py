"""Fitting from names and files, for the command line: which encoder, which book, one space or a
space a prompt.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from equipoise import _space as space
from equipoise._space import AttributeSpace
from equipoise._spaceset import SpaceSet
from equipoise.errors import InputError
from equipoise.prompts._attribute import Attribute
from equipoise.prompts._book import PromptBook
from equipoise.prompts._prototypes import PROTOTYPES

KINDS = {"shared": AttributeSpace, "per prompt": SpaceSet}


def text_encoder(encoder: str | None, vectors: Path | None) -> Any:
    """An encoder by its name, or a file of text vectors in its place; exactly one of the two."""
    if vectors is not None and encoder is None:
        from equipoise.prompts._vectors import TextVectors

        return TextVectors.load(vectors)
    if encoder is None or vectors is not None:
        raise InputError(
            "pass an encoder (--model), or a file of text vectors (--vectors): one of the two"
        )
    from equipoise.encoders import load_encoder

    return load_encoder(encoder)


def check_options(scope: str, prototype: str, kappa: float, tolerance: float) -> None:
    """Raise for an option that is not legal, by its name on the command line, before an encoder is
    loaded.
    """
    if scope.replace("-", " ") not in KINDS:
        raise InputError(f"--scope {scope} is not legal; pass shared or per-prompt")
    if prototype not in PROTOTYPES:
        raise InputError(
            f"--prototype {prototype} is not legal; pass one of {', '.join(PROTOTYPES)}"
        )
    for option, value in (("kappa", kappa), ("tolerance", tolerance)):
        try:
            space.check_options(**{option: value})
        except InputError as error:
            raise InputError(
                str(error).replace(f"{option}={value}", f"--{option} {value}")
            ) from None


def fit(
    encoder: Any, attribute: Attribute, book: PromptBook, scope: str, **options: Any
) -> AttributeSpace | SpaceSet:
    """A shared space, or a set with one for each prompt."""
    return KINDS[scope.replace("-", " ")].from_prompts(encoder, book, attribute, **options)


def facts(fitted: AttributeSpace | SpaceSet) -> dict[str, Any]:
    """What a reader of the file wants to know."""
    one = fitted if isinstance(fitted, AttributeSpace) else next(iter(fitted.values()))
    prompts = {} if isinstance(fitted, AttributeSpace) else {"prompts": len(fitted)}
    shared = {
        "attribute": one.parts[0].attribute,
        "groups": list(one.groups),
        "dim": one.dim,
        "rank": one.rank,
    }
    return (
        shared
        | prompts
        | {
            "kappa": one.kappa,
            "scope": one.scope,
            "encoder": str(one.encoder),
            "book_hash": one.book_hash,
        }
    )
