"""The labelled images of a context: unit rows, and the group of each."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from equipoise.errors import InputError
from equipoise.methods.context import FitContext
from equipoise.metrics.labels import encode_groups
from equipoise.prompts.attribute import Attribute


class Labelled(NamedTuple):
    """rows (n, d), unit, float32; codes (n,): the place of each row's group in the attribute's groups; places (n,): in what was given."""

    rows: np.ndarray
    codes: np.ndarray
    places: np.ndarray


def labelled_images(method: str, context: FitContext) -> Labelled:
    """Every image that has a direction and a known group. Raises where images or labels are missing, or a group has no image."""
    context.require(method, "images", "sensitive_features")
    rows = unit_images(method, context)
    codes = _codes(context, len(rows))
    places = np.flatnonzero(np.isfinite(rows[:, 0]) & (codes >= 0))
    if empty := sorted(set(range(len(context.attribute.groups))) - set(codes[places].tolist())):
        group = context.attribute.groups[empty[0]]
        raise InputError(f"{method} learns from images of every group, and there is none of {group!r}; add some, or leave the group out")
    return Labelled(rows[places], codes[places], places)


def unit_images(method: str, context: FitContext) -> np.ndarray:
    """All images of the context as unit rows (n, d), float32; NaN where a row has no direction."""
    blocks = []
    for block in context.image_blocks():
        rows = np.asarray(block.detach().cpu() if hasattr(block, "detach") else block)
        if rows.ndim != 2 or rows.dtype.kind != "f" or (blocks and rows.shape[1] != blocks[0].shape[1]):
            raise InputError(f"{method} takes images as embeddings (n, d) of one width, and {rows.dtype} of shape {rows.shape} was given")
        with np.errstate(all="ignore"):
            lengths = np.linalg.norm(rows.astype(np.float64), axis=1, keepdims=True)
            blocks.append(np.where(np.isfinite(lengths) & (lengths > 0), rows / lengths, np.nan).astype(np.float32))
    if not blocks:
        raise InputError(f"{method} needs images, and there are none; pass embeddings (n, d)")
    return np.concatenate(blocks)


def part_codes(attribute: Attribute, codes: np.ndarray) -> list[np.ndarray]:
    """For each part of an intersection (a plain attribute is its own only part) the place of each row's group among the part's."""
    groups = [attribute.split(group) for group in attribute.groups]
    return [np.array([part.groups.index(names[i]) for names in groups])[codes] for i, part in enumerate(attribute.parts)]


def _codes(context: FitContext, rows: int) -> np.ndarray:
    """Place of each label's group in the attribute's groups; -1 where it is unknown."""
    attribute = context.attribute
    coded = encode_groups(context.sensitive_features, rows)
    place = [attribute.groups.index(attribute.group(_label(label, attribute))) for label in coded.labels]
    return np.where(coded.known, np.array(place)[coded.codes], -1)


def _label(label: object, attribute: Attribute) -> object:
    """Several columns of labels come joined by "&"."""
    joined = isinstance(label, str) and len(attribute.parts) > 1 and label.count(" & ") == len(attribute.parts) - 1
    return tuple(str(label).split(" & ")) if joined else label
