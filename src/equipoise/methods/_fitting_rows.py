"""Rows that methods are fitted on: unit length in float64, each with its group.

Rows without a direction or without a known group are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from equipoise import geometry
from equipoise._rows import directed
from equipoise.errors import InputError
from equipoise.geometry import Float64
from equipoise.methods._context import FitContext
from equipoise.prompts._attribute import Attribute

FEW = 2  # rows of a group without which there is neither a mean nor a spread


def unit_rows(block: Any, dim: int | None = None) -> tuple[Float64, np.ndarray]:
    """Return the rows that have a direction, as unit rows (m, d), and which those are (n,)."""
    rows = np.asarray(block, np.float64)
    if rows.ndim != 2 or (dim is not None and rows.shape[1] != dim):
        width = f"{dim} wide" if dim is not None else "rows (n, d)"
        raise InputError(
            f"images have shape {rows.shape}, and must be {width}; pass embeddings of one encoder"
        )
    good = directed(rows)
    return geometry.unit(rows[good]), good


def directed_images(context: FitContext, dim: int | None = None) -> tuple[Float64, np.ndarray]:
    """Return what ``unit_rows`` gives for all images of the context together."""
    blocks = [unit_rows(block, dim) for block in context.image_blocks()]
    if not blocks:
        return np.empty((0, dim or 0)), np.zeros(0, bool)
    rows = np.concatenate([rows for rows, _ in blocks])
    good = np.concatenate([good for _, good in blocks])
    return rows, good


def group_codes(labels: Any, attribute: Attribute) -> np.ndarray:
    """Return the place (n,) of each label's group in the attribute; -1 where it is unknown.

    An intersection takes one column per part, or the names of its groups.
    """
    from equipoise.metrics._labels import columns_of, encode

    columns = columns_of(labels)
    if len(columns) not in (1, len(attribute.parts)):
        raise InputError(
            f"sensitive_features has {len(columns)} columns, and {attribute.name} has"
            f" {len(attribute.parts)} parts; pass one each"
        )
    coded = [encode(column, "sensitive_features") for column in columns]
    known = np.all([column.known for column in coded], axis=0)
    rows = np.stack([column.codes for column in coded])[:, known]
    cells, inverse = np.unique(rows, axis=1, return_inverse=True)
    place = {group: i for i, group in enumerate(attribute.groups)}
    found = np.empty(cells.shape[1], int)
    for i, cell in enumerate(cells.T):
        names = [column.labels[code] for column, code in zip(coded, cell, strict=True)]
        found[i] = place[attribute.group(tuple(names) if len(names) > 1 else names[0])]
    codes = np.full(len(known), -1)
    codes[known] = found[inverse]
    return codes


def labelled_blocks(method: str, context: FitContext) -> Iterator[tuple[Float64, np.ndarray]]:
    """Yield the images of a known group, block by block: unit rows (m, d), place of the group."""
    context.require(method, "images", "sensitive_features")
    codes = group_codes(context.sensitive_features, context.attribute)
    start, dim = 0, None
    for block in context.image_blocks():
        if start + len(block) > len(codes):
            raise InputError(
                f"there are more images than the {len(codes)} labels of sensitive_features; pass"
                " one for each"
            )
        rows, good = unit_rows(block, dim)
        here = codes[start : start + len(block)][good]
        known = here >= 0
        start, dim = start + len(block), rows.shape[1]
        yield rows[known], here[known]
    if start != len(codes):
        raise InputError(
            f"there are {start} images and {len(codes)} labels of sensitive_features; pass one for"
            " each"
        )


def labelled_images(method: str, context: FitContext, few: int = FEW) -> tuple[Float64, np.ndarray]:
    """Return all labelled images at once, for methods that must see them together."""
    groups = context.attribute.groups
    blocks = list(labelled_blocks(method, context))
    codes = np.concatenate([np.empty(0, int), *(codes for _, codes in blocks)])
    require_groups(method, np.bincount(codes, minlength=len(groups)), groups, few)
    return np.concatenate([rows for rows, _ in blocks]), codes


def require_groups(
    method: str,
    counts: np.ndarray,
    groups: Sequence[str],
    few: int,
    what: str = "images",
    otherwise: str = "",
) -> None:
    """Raise where a group has fewer than ``few`` rows."""
    if counts.min() < few:
        numbers = zip(groups, counts.tolist(), strict=True)
        found = ", ".join(f"{group} {count}" for group, count in numbers)
        raise InputError(
            f"{method} needs {few} {what} or more of each group, and there are: {found};"
            f" {otherwise or 'add some, or merge groups'}"
        )


def dimensions(value: float, dim: int) -> int | None:
    """Return how many of ``dim`` dimensions a parameter means; None where it means nothing legal.

    A whole number from 0 to ``dim`` means so many; a number below 1 means that share of them.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= dim:
        return None
    if value < 1:
        return round(value * dim)
    if value != int(value):
        return None
    return int(value)
