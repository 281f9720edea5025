"""Rows in blocks, from an array, a store or an iterable of arrays.

The evaluation and the methods read images through this module, a bounded number of rows at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from equipoise import geometry
from equipoise.errors import InputError, InvalidRowsError

BLOCK = 4096  # images at a time
SCORES = 1 << 24  # scores at a time: 64 MiB in float32
MEASURED = 1024  # rows whose lengths are measured at a time, within the second-level cache
# A squared length this near to one: the length is nearer than 2**-25, by more than what float64
# leaves out.
SETTLED = 2.0**-24 * (1 - 2.0**-8)


def unit_blocks(
    images: Any, columns: int = 1, labels: int | None = None, together: int = 0
) -> Iterator[np.ndarray]:
    """Yield blocks of unit rows, in order; raise where a row has no direction.

    columns: how many scores each row will get; where there are many, blocks are smaller.
    labels: how many labels there are; another number of images is an error too. together: how many
    rows may come in one block where they need no copy, because they have unit length as they are.
    """
    size = max(1, min(BLOCK, SCORES // columns))
    start = 0
    for part in parts(images):
        rows = np.asarray(part)
        if rows.ndim != 2 or rows.dtype.kind != "f":
            raise InputError(
                f"images hold {rows.dtype} of shape {rows.shape}; pass embeddings (n, d), a store,"
                " or an iterable of such arrays"
            )
        for window in blocks_of(rows, max(size, together)):
            if are_settled(window):
                yield window
            else:
                yield from _made_unit(window, size, start)
            start += len(window)
    if labels not in (None, start):
        raise InputError(
            f"there are {start} images and {labels} labels; pass one label for each image"
        )


def _made_unit(rows: np.ndarray, size: int, start: int) -> Iterator[np.ndarray]:
    """Yield unit rows, at most ``size`` at a time; ``start`` is the place of the first one."""
    for block in blocks_of(rows, size):
        _require_directions(block, start)
        yield unit(block)
        start += len(block)


def are_settled(rows: np.ndarray) -> bool:
    """Return whether ``unit`` would give back the very same rows.

    Making rows unit moves each entry by less than 2**-25 of itself then, and rounding to float32
    moves it back. In practice these are float32 rows that were made unit once.
    """
    if rows.dtype != np.float32 or not rows.flags.c_contiguous:
        return False
    for block in blocks_of(rows, MEASURED):
        wide = block.astype(np.float64)
        near = np.abs(np.vecdot(wide, wide) - 1) < SETTLED  # False for NaN
        if not near.all():
            return False
    return True


def parts(images: Any) -> Iterable[Any]:
    """Return the arrays that images consist of: a store's shards, one array, or the iterable."""
    if hasattr(images, "shards"):
        return images.shards()
    if hasattr(images, "shape"):
        return [images]
    if isinstance(images, str | bytes) or not hasattr(images, "__iter__"):
        raise InputError(
            f"images are {type(images).__name__}; pass embeddings (n, d), a store, or an iterable"
            " of such arrays"
        )
    return images


def blocks_of(rows: np.ndarray, size: int) -> Iterator[np.ndarray]:
    """Yield the rows, at most ``size`` at a time."""
    for start in range(0, len(rows), size):
        yield rows[start : start + size]


def unit(rows: Any) -> np.ndarray:
    """Return rows of unit length, in float64 where they are, else in float32."""
    rows = np.asarray(rows)
    dtype = np.float64 if rows.dtype.itemsize > 4 else np.float32
    return geometry.unit(rows.astype(np.float64)).astype(dtype)


def directed(rows: np.ndarray) -> np.ndarray:
    """Return which rows (n, d) have a direction: finite, and not zero."""
    return np.isfinite(rows).all(1) & (rows != 0).any(1)


def encoded_texts(prompts: list[str], encoder: Any, texts: Any) -> np.ndarray:
    """Return the unit rows of the prompts: those given, or the encoder's."""
    if (encoder is None) == (texts is None):
        raise InputError(
            "pass either encoder=, to encode the prompts, or texts=, their embeddings (n, d)"
        )
    rows = np.asarray(encoder.encode_text(prompts) if texts is None else texts)
    if rows.ndim != 2 or len(rows) != len(prompts) or rows.dtype.kind != "f":
        raise InputError(
            f"the texts are {rows.dtype} of shape {rows.shape} for {len(prompts)} prompts; pass one"
            " row for each"
        )
    good = directed(rows)
    if not good.all():
        first_bad = prompts[int((~good).argmax())]
        raise InputError(
            f"the embedding of {first_bad!r} has no direction; encode it again, or leave it out"
        )
    return unit(rows)


def _require_directions(block: np.ndarray, start: int) -> None:
    """Raise where a row has no direction; ``start`` is the place of the first one."""
    good = directed(block)
    if not good.all():
        bad = start + int((~good).argmax())
        raise InvalidRowsError(
            f"image {bad} has no direction (NaN, infinite or zero); leave such rows out, with"
            " their labels",
            (bad,),
            int((~good).sum()),
        )
