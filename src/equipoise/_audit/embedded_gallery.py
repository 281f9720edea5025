"""The embedded gallery: what an audit opens with where no photographs are given.

Nobody in it exists.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from equipoise._audit.results import ClassifierFigure
from equipoise._audit.sources import ImageSource, read_images
from equipoise.errors import ArtefactError, InputError
from equipoise.prompts._attribute import Attribute

NAME = "the gallery of equipoise-mini"
# the gallery's columns that are named after attributes
JUDGED = ("gender", "race")


def find_gallery() -> Any:
    """Return the gallery's table and figures; None where equipoise-mini has no gallery."""
    try:
        import equipoise_mini
    except ImportError:
        return None
    if not hasattr(equipoise_mini, "gallery"):
        return None
    try:
        return equipoise_mini.gallery()
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise ArtefactError(str(error)) from None


def read_gallery(
    found: Any, embeddings: Path | None = None, *, group_columns: Sequence[str] = (), **columns: Any
) -> ImageSource:
    """Return the gallery's pictures, with the columns asked for.

    Without group columns, the groups are those that the gallery's classifier perceives.
    """
    if found is None:
        raise InputError(
            'there is no gallery here; type: pip install -U "equipoise[mini]", or pass photographs'
            " with `images`"
        )
    source = read_images(found.table, embeddings, group_columns=group_columns or JUDGED, **columns)
    figures = {}
    for name, figure in found.figures["classifier"].items():
        figures[name] = ClassifierFigure.model_validate(figure)
    return replace(source, name=NAME, generated=figures)


def judged(attribute: Attribute) -> tuple[str, ...]:
    """Return the gallery's columns for an attribute; none where it lacks one of them.

    Without columns, the audit perceives the groups by zero-shot.
    """
    parts = tuple(part.name for part in attribute.parts)
    if set(parts) <= set(JUDGED):
        return parts
    return ()
