"""The embedded gallery: what an audit opens with where no photographs are given.

Nobody in it exists.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from equipoise._audit.sources import ImageSource, read_images
from equipoise.errors import ArtefactError, InputError
from equipoise.prompts._attribute import Attribute

NAME = "the gallery of equipoise-mini"
JUDGED = ("gender", "race")  # its columns that are named after attributes


def find_gallery() -> Any:
    """Its table and figures; None where the installed equipoise-mini has none."""
    try:
        import equipoise_mini
    except ImportError:
        return None
    try:
        return equipoise_mini.gallery() if hasattr(equipoise_mini, "gallery") else None
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise ArtefactError(str(error)) from None


def read_gallery(
    found: Any, embeddings: Path | None = None, *, group_columns: Sequence[str] = (), **columns: Any
) -> ImageSource:
    """Its pictures, with the groups that its classifier perceives or the columns that are asked
    for.
    """
    if found is None:
        raise InputError(
            'there is no gallery here; type: pip install -U "equipoise[mini]", or pass photographs'
            " with `images`"
        )
    source = read_images(found.table, embeddings, group_columns=group_columns or JUDGED, **columns)
    return replace(source, name=NAME, generated=found.figures["classifier"])


def judged(attribute: Attribute) -> tuple[str, ...]:
    """The columns of an attribute's groups; none where its classifier was not asked for one of
    them, which leaves them to zero-shot.
    """
    parts = tuple(part.name for part in attribute.parts)
    return parts if set(parts) <= set(JUDGED) else ()
