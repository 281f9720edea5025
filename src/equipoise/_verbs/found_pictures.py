"""The pictures of a search's results, as squares that can be drawn side by side."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from equipoise._audit.sources import picture_of
from equipoise._stores import Store
from equipoise.errors import InputError

SIDE = 96  # pixels of a drawn picture
GREY = 200  # of a picture that cannot be read


def drawn_pictures(index: Any, pictures: Any, found: np.ndarray) -> list[np.ndarray]:
    """Return a square (side, side, 3) per image found; grey where a picture cannot be read."""
    if pictures is None:
        return [_square(path) for path in _stored(index, found)]
    listed = _one_per_row(index, pictures, "pictures", "a path, bytes or a PIL image")
    return [_square(listed[row]) for row in found]


def drawn_groups(
    index: Any, groups: Any, found: np.ndarray
) -> tuple[list[str] | None, Sequence[str]]:
    """Return the group of each image found, None where none are given; and those of all rows."""
    if groups is None:
        return None, ()
    listed = [str(group) for group in _one_per_row(index, groups, "groups", "a group")]
    return [listed[row] for row in found], listed


def _one_per_row(index: Any, given: Any, name: str, what: str) -> Sequence[Any]:
    """Return what was given as a list in the order of its rows, whatever it is indexed by."""
    if isinstance(given, str | bytes | Path) or not hasattr(given, "__len__"):
        raise InputError(
            f"`{name}` is of type {type(given).__name__}; pass a list with {what} per row of the"
            " index"
        )
    if getattr(given, "ndim", 1) == 2:
        columns = getattr(given, "columns", None)
        hint = "one column of it" if columns is None else f"one column of it, of {list(columns)}"
        raise InputError(f"`{name}` is a table of shape {given.shape}; pass {hint}")
    count = len(index) if hasattr(index, "__len__") else len(given)
    if len(given) != count:
        raise InputError(
            f"there are {len(given)} {name} and {count} rows in the index; pass {what} per row,"
            " in the same order"
        )
    return list(given)


def _stored(index: Any, found: np.ndarray) -> list[str | None]:
    """Return where the pictures of a store lie."""
    names = index.metadata() if isinstance(index, Store) else None
    if names is None or "path" not in names.columns:
        raise InputError(
            f"the index is {type(index).__name__}, which does not say where its pictures are; pass"
            " `pictures`: a path, bytes or a PIL image per row of the index"
        )
    return [picture_of(index, str(name)) for name in names["path"].iloc[found]]


def _square(picture: Any) -> np.ndarray:
    """Return the middle square of a picture."""
    from PIL import Image

    from equipoise.encoders._images import UnreadableImageError, open_image

    if picture is None:
        return np.full((SIDE, SIDE, 3), GREY, np.uint8)
    try:
        image = open_image(picture, 4 * SIDE)
    except UnreadableImageError:
        return np.full((SIDE, SIDE, 3), GREY, np.uint8)
    side = min(image.size)
    left, top = (image.width - side) // 2, (image.height - side) // 2
    cut = image.crop((left, top, left + side, top + side))
    return np.asarray(cut.resize((SIDE, SIDE), Image.Resampling.BICUBIC))
