"""Fitting from names and files, for the command line: which encoder, which book, one space or a space a prompt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from equipoise.errors import InputError
from equipoise.prompts.attribute import Attribute
from equipoise.prompts.book import PromptBook
from equipoise.space import AttributeSpace
from equipoise.spaceset import SpaceSet

KINDS = {"shared": AttributeSpace, "per prompt": SpaceSet}


def text_encoder(encoder: str | None, vectors: Path | None) -> Any:
    """An encoder by its name, or a file of text vectors in its place; exactly one of the two."""
    if vectors is not None and encoder is None:
        from equipoise.prompts.vectors import TextVectors

        return TextVectors.load(vectors)
    if encoder is None or vectors is not None:
        raise InputError("pass an encoder (--model), or a file of text vectors (--vectors): one of the two")
    from equipoise.encoders import load_encoder

    return load_encoder(encoder)


def fit(encoder: Any, attribute: str, book: str, scope: str, **options: Any) -> AttributeSpace | SpaceSet:
    """A shared space, or a set with one for each prompt."""
    kind = KINDS.get(scope.replace("-", " "))
    if kind is None:
        raise InputError(f"scope={scope!r} is not legal; pass shared or per-prompt")
    return kind.from_prompts(encoder, PromptBook.load(book), Attribute.load(attribute), **options)


def facts(fitted: AttributeSpace | SpaceSet) -> dict[str, Any]:
    """What a reader of the file wants to know."""
    space = fitted if isinstance(fitted, AttributeSpace) else next(iter(fitted.values()))
    prompts = {} if isinstance(fitted, AttributeSpace) else {"prompts": len(fitted)}
    shared = {"attribute": space.parts[0].attribute, "groups": list(space.groups), "dim": space.dim, "rank": space.rank}
    return shared | prompts | {"kappa": space.kappa, "scope": space.scope, "encoder": str(space.encoder), "book_hash": space.book_hash}
