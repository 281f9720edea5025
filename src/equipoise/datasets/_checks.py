"""Checks of datasets, encoders and embeddings before long work; and the group of each image."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from equipoise._space import EncoderRef
from equipoise._stores import Store
from equipoise.datasets import Dataset
from equipoise.errors import EncoderMismatchError, InputError
from equipoise.metrics._labels import encode_groups
from equipoise.prompts._attribute import Attribute


def check_encoder(encoder: Any, embeddings: Any) -> None:
    """Raise unless the encoder encodes texts, and the images are stored or it encodes them too.

    Stored images must be of the same encoder.
    """
    if not callable(getattr(encoder, "encode_text", None)):
        raise InputError(
            f"{type(encoder).__name__} is no encoder of texts; pass one of eq.load_encoder, or a"
            " file of text vectors"
        )
    if embeddings is None and not callable(getattr(encoder, "encode_images", None)):
        raise InputError(
            "text vectors cannot encode images; pass stored embeddings of the images, or an encoder"
        )
    if isinstance(embeddings, Store):
        _check_store(encoder, embeddings)
    _check_widths(encoder, embeddings)


def _check_store(encoder: Any, store: Store) -> None:
    """Raise unless a store is finished and of this encoder."""
    given = EncoderRef.of(encoder)
    if store.encoder.differs_from(given):
        raise EncoderMismatchError(
            f"{store.folder} holds embeddings of {store.encoder}, and {given} encodes"
            " the texts; use one for both"
        )
    if not len(store) or not store.manifest.done:
        raise InputError(
            f"{store.folder} is not a finished store; go on with equipoise embed --resume"
        )


def _check_widths(encoder: Any, embeddings: Any) -> None:
    """Raise where texts and images are known to be of different widths."""
    widths = {getattr(encoder, "dim", None), getattr(embeddings, "dim", None)}
    shape = getattr(embeddings, "shape", None)
    if shape:
        widths.add(shape[-1])
    dims = sorted({int(width) for width in widths if width})
    if len(dims) > 1:
        raise EncoderMismatchError(
            f"images and texts are {' and '.join(map(str, dims))} wide; they must be of one encoder"
        )


def attribute_of(columns: Sequence[str]) -> Attribute:
    """Return the ready-made attribute that group columns are named after."""
    if not columns:
        raise InputError(
            "no group column was given; name those that hold the groups with `group_columns`,"
            " such as gender"
        )
    try:
        names = [column.replace("_", " ") for column in columns]
        return Attribute.load(" & ".join(names))
    except InputError as error:
        raise InputError(f"pass `attribute` to say what the group columns hold: {error}") from None


def groups_of(table: Any, dataset: Dataset, attribute: Attribute) -> np.ndarray:
    """Return the attribute's group of each image; None where one of its labels is unknown."""
    if len(dataset.groups) not in (1, len(attribute.parts)):
        raise InputError(
            f"{attribute.name} has {len(attribute.parts)} parts and there are {len(dataset.groups)}"
            f" group columns: {dataset.groups}"
        )
    coded = [encode_groups(table[column].to_numpy(dtype=object)) for column in dataset.groups]
    out = np.full(len(table), None, dtype=object)
    named: dict[tuple, str] = {}
    for i, codes in enumerate(zip(*(column.codes for column in coded), strict=True)):
        if min(codes) < 0:
            continue
        if codes not in named:
            labels = [column.labels[code] for column, code in zip(coded, codes, strict=True)]
            label = labels[0] if len(labels) == 1 else tuple(labels)
            named[codes] = attribute.group(label)
        out[i] = named[codes]
    check_members(out, attribute, f"in {', '.join(dataset.groups)} of {dataset.name}")
    return out


def check_members(groups: np.ndarray, attribute: Attribute, where: str) -> None:
    """Raise where a group has no image."""
    found = set(groups.tolist()) - {None}
    for group in attribute.groups:
        if group not in found:
            raise InputError(
                f"there is no image of the group {group!r} {where}; add some, or pass an"
                f" attribute without it (there are {', '.join(sorted(found)) or 'none'})"
            )


def one_group(paths: Any, groups: np.ndarray) -> np.ndarray:
    """Return the group of each row's image, which any of the image's rows may tell.

    Raise where two of them tell different groups.
    """
    found: dict[Any, str] = {}
    for path, group in zip(paths, groups, strict=True):
        if group is not None and found.setdefault(path, group) != group:
            raise InputError(
                f"{path} is of the group {found[path]!r} in one row and {group!r} in another; give"
                " all rows of an image the same group"
            )
    return np.array([found.get(path) for path in paths], dtype=object)
