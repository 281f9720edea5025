"""Rows in blocks: an array, a store or an iterable of arrays, as unit rows, a bounded number at a
time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from equipoise import geometry
from equipoise.errors import InputError, InvalidRowsError

BLOCK = 4096  # images at a time
SCORES = 1 << 24  # scores at a time: 64 MiB in float32


def unit_blocks(images: Any, columns: int = 1, labels: int | None = None) -> Iterator[np.ndarray]:
    """Blocks of unit rows, in order; smaller where each row will get many scores (``columns``).

    Rows without a direction are an error.

    labels: how many there are; another number of images is an error too.
    """
    size, start = max(1, min(BLOCK, SCORES // columns)), 0
    for part in _parts(images):
        rows = np.asarray(part)
        if rows.ndim != 2 or rows.dtype.kind != "f":
            raise InputError(
                f"images hold {rows.dtype} of shape {rows.shape}; pass embeddings (n, d), a store,"
                " or an iterable of such arrays"
            )
        for first in range(0, len(rows), size):
            block = rows[first : first + size]
            good = directed(block)
            if not good.all():
                bad = start + first + int((~good).argmax())
                raise InvalidRowsError(
                    f"image {bad} has no direction (NaN, infinite or zero); leave such rows out,"
                    " with their labels",
                    (bad,),
                    int((~good).sum()),
                )
            yield unit(block)
        start += len(rows)
    if labels not in (None, start):
        raise InputError(
            f"there are {start} images and {labels} labels; pass one label for each image"
        )


def unit(rows: Any) -> np.ndarray:
    """Rows of unit length, in float64 where they are, else in float32."""
    rows = np.asarray(rows)
    return geometry.unit(rows.astype(np.float64)).astype(
        np.float64 if rows.dtype.itemsize > 4 else np.float32
    )


def directed(rows: np.ndarray) -> np.ndarray:
    """(n,): which rows have a direction."""
    return np.isfinite(rows).all(1) & (rows != 0).any(1)


def encoded_texts(prompts: list[str], encoder: Any, texts: Any) -> np.ndarray:
    """Unit rows of the prompts: those given, or the encoder's."""
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
    if not (good := directed(rows)).all():
        raise InputError(
            f"the embedding of {prompts[int((~good).argmax())]!r} has no direction; encode it"
            " again, or leave it out"
        )
    return unit(rows)


def _parts(images: Any) -> Any:
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
