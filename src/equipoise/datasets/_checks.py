"""What is wrong with a dataset, an encoder or stored embeddings, found before long work; and the
group of each image.
"""

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
    """Raise unless texts, and images where none are stored, can be encoded, by the encoder of what
    is stored.
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
        given = EncoderRef.of(encoder)
        if embeddings.encoder.differs_from(given):
            raise EncoderMismatchError(
                f"{embeddings.folder} holds embeddings of {embeddings.encoder}, and {given} encodes"
                " the texts; use one for both"
            )
        if not len(embeddings) or not embeddings.manifest.done:
            raise InputError(
                f"{embeddings.folder} is not a finished store; go on with equipoise embed --resume"
            )
    widths = [
        getattr(encoder, "dim", None),
        getattr(embeddings, "dim", None),
        (getattr(embeddings, "shape", None) or [None])[-1],
    ]
    dims = {int(width) for width in widths if width}
    if len(dims) > 1:
        raise EncoderMismatchError(
            f"images and texts are {' and '.join(map(str, sorted(dims)))} wide; they must be of one"
            " encoder"
        )


def attribute_of(columns: Sequence[str]) -> Attribute:
    """The ready-made attribute that group columns are named after."""
    if not columns:
        raise InputError(
            "no group column was given; name those that hold the groups, such as gender"
        )
    try:
        return Attribute.load(" & ".join(column.replace("_", " ") for column in columns))
    except InputError as error:
        raise InputError(
            f"{error}; `attribute` says what group columns of another name hold"
        ) from None


def groups_of(table: Any, dataset: Dataset, attribute: Attribute) -> np.ndarray:
    """The attribute's group of each image; None where one of its labels is unknown."""
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
            named[codes] = attribute.group(tuple(labels) if len(labels) > 1 else labels[0])
        out[i] = named[codes]
    check_members(out, attribute, f"in {', '.join(dataset.groups)} of {dataset.name}")
    return out


def check_members(groups: np.ndarray, attribute: Attribute, where: str) -> None:
    """Raise where a group has no image."""
    if empty := [group for group in attribute.groups if not (groups == group).any()]:
        raise InputError(
            f"there is no image of the group {empty[0]!r} {where}; add some, or pass an attribute"
            " without it (there are"
            f" {', '.join(sorted({group for group in groups if group is not None})) or 'none'})"
        )


def one_group(paths: Any, groups: np.ndarray) -> np.ndarray:
    """The group of each row's image, which any of the image's rows may tell.

    Raise where two of them tell different ones.
    """
    found: dict[Any, str] = {}
    for path, group in zip(paths, groups, strict=True):
        if group is not None and found.setdefault(path, group) != group:
            raise InputError(
                f"{path} is of the group {found[path]!r} in one row and {group!r} in another; an"
                " image has one, so mend its rows"
            )
    return np.array([found.get(path) for path in paths], dtype=object)
