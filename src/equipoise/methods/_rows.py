"""Rows that methods are fitted on: unit length in float64, each with its group; what has no
direction or no known group is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from equipoise import geometry
from equipoise.errors import InputError
from equipoise.geometry import Float64
from equipoise.methods._context import FitContext
from equipoise.prompts._attribute import Attribute

FEW = 2  # rows of a group without which there is neither a mean nor a spread


def unit_rows(block: Any, dim: int | None = None) -> tuple[Float64, np.ndarray]:
    """Unit rows (m, d) of those that have a direction, and which those are (n,)."""
    rows = np.asarray(block, np.float64)
    if rows.ndim != 2 or (dim is not None and rows.shape[1] != dim):
        width = f"{dim} wide" if dim is not None else "rows (n, d)"
        raise InputError(
            f"images have shape {rows.shape}, and must be {width}; pass embeddings of one encoder"
        )
    good = np.isfinite(rows).all(1) & (rows != 0).any(1)
    return geometry.unit(rows[good]), good


def group_codes(labels: Any, attribute: Attribute) -> np.ndarray:
    """(n,): the place of each label's group in the attribute; -1 where it is unknown.

    An intersection takes a column a part, or the names of its groups.
    """
    from equipoise.metrics._labels import columns_of, encode

    columns = columns_of(labels)
    if len(columns) not in (1, len(attribute.parts)):
        raise InputError(
            f"sensitive_features has {len(columns)} columns, and {attribute.name} has"
            f" {len(attribute.parts)} parts; pass one each"
        )
    coded = [encode(column, "sensitive_features") for column in columns]
    place = {group: i for i, group in enumerate(attribute.groups)}
    codes = np.full(len(coded[0].codes), -1)
    known = np.all([column.known for column in coded], axis=0)
    cells, inverse = np.unique(
        np.stack([column.codes for column in coded])[:, known], axis=1, return_inverse=True
    )
    names = [[column.labels[i] for column, i in zip(coded, cell, strict=True)] for cell in cells.T]
    found = [place[attribute.group(tuple(name) if len(name) > 1 else name[0])] for name in names]
    codes[known] = np.asarray(found, int)[inverse] if found else -1
    return codes


def labelled_blocks(method: str, context: FitContext) -> Iterator[tuple[Float64, np.ndarray]]:
    """The images that have a known group, block by block: unit rows (m, d) and the place of their
    group.
    """
    context.require(method, "images", "sensitive_features")
    codes, start, dim = group_codes(context.sensitive_features, context.attribute), 0, None
    for block in context.image_blocks():
        if start + len(block) > len(codes):
            raise InputError(
                f"there are more images than the {len(codes)} labels of sensitive_features; pass"
                " one for each"
            )
        rows, good = unit_rows(block, dim)
        here = codes[start : start + len(block)]
        known = here[good] >= 0
        start, dim = start + len(block), rows.shape[1]
        yield rows[known], here[good][known]
    if start != len(codes):
        raise InputError(
            f"there are {start} images and {len(codes)} labels of sensitive_features; pass one for"
            " each"
        )


def labelled_images(method: str, context: FitContext, few: int = FEW) -> tuple[Float64, np.ndarray]:
    """All labelled images at once, for methods that must see them together."""
    parts = list(labelled_blocks(method, context))
    rows, codes = (
        np.concatenate([part[i] for part in parts]) if parts else np.empty(0, int) for i in (0, 1)
    )
    require_groups(
        method,
        np.bincount(codes, minlength=len(context.attribute.groups)),
        context.attribute.groups,
        few,
    )
    return rows, codes


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
        found = ", ".join(
            f"{group} {count}" for group, count in zip(groups, counts.tolist(), strict=True)
        )
        raise InputError(
            f"{method} needs {few} {what} or more of each group, and there are: {found};"
            f" {otherwise or 'add some, or merge groups'}"
        )


def dimensions(value: float, dim: int) -> int | None:
    """How many of ``dim`` dimensions a parameter means: so many, or, above 0 and below 1, that
    share of them. None where it is neither.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= dim:
        return None
    return round(value * dim) if value < 1 else int(value) if value == int(value) else None
