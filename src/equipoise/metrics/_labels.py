"""Labels as codes, from one column or the intersection of several.

Unknown labels are set apart and never form a group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from equipoise.errors import InputError

# Words, in upper or lower case, for an unknown label; None, NaN and NA mean the same.
UNKNOWN = frozenset({"", "nan", "<na>", "unknown", "unsure"})


class Coded(NamedTuple):
    """The place of each label in ``labels``: codes (n,), -1 where it is unknown."""

    codes: np.ndarray
    labels: tuple[Any, ...]

    @property
    def known(self) -> np.ndarray:
        return self.codes >= 0

    @property
    def sizes(self) -> np.ndarray:
        """Return how many rows carry each label."""
        return np.bincount(self.codes[self.known], minlength=len(self.labels))


def encode(values: Any, what: str, *, unknown: frozenset[str] = UNKNOWN) -> Coded:
    """Return labels (n,) as codes; labels are sorted where they can be compared."""
    import pandas as pd

    column = _one_dimension(values, what)
    codes, uniques = pd.factorize(column, use_na_sentinel=True)
    labels = [label.item() if isinstance(label, np.generic) else label for label in uniques]
    named = []
    for i, label in enumerate(labels):
        is_unknown = isinstance(label, str) and label.strip().lower() in unknown
        if not is_unknown:
            named.append(i)
    try:
        named.sort(key=lambda i: labels[i])
    except TypeError:
        named.sort(key=lambda i: str(labels[i]))
    place = np.full(len(labels) + 1, -1)
    place[named] = np.arange(len(named))
    return Coded(place[codes], tuple(labels[i] for i in named))


def encode_groups(sensitive_features: Any, rows: int | None = None) -> Coded:
    """Return the group of each row.

    Several columns (a data frame, a mapping, a tuple of columns, an (n, k) array) give their
    intersections, named "male & young"; a row that is unknown in one column is unknown. ``rows``:
    how many labels there must be.
    """
    columns = [encode(column, "sensitive_features") for column in columns_of(sensitive_features)]
    if not columns:
        raise InputError("sensitive_features has no column; pass a label for each row")
    if len({len(column.codes) for column in columns}) > 1:
        raise InputError(
            f"the columns of sensitive_features have {[len(c.codes) for c in columns]} labels; each"
            " needs one for each row"
        )
    groups = columns[0] if len(columns) == 1 else _intersection(columns)
    if rows is not None and len(groups.codes) != rows:
        raise InputError(
            f"sensitive_features has {len(groups.codes)} labels for {rows} rows; pass one for"
            " each row"
        )
    if not groups.labels:
        raise InputError(
            "sensitive_features names no group: there are no rows, or every label is unknown"
        )
    return groups


def _intersection(columns: list[Coded]) -> Coded:
    known = np.all([column.known for column in columns], axis=0)
    shape = [max(1, len(column.labels)) for column in columns]
    index = np.ravel_multi_index([np.where(known, c.codes, 0) for c in columns], shape)
    cells, inverse = np.unique(index[known], return_inverse=True)
    codes = np.full(len(known), -1)
    codes[known] = inverse
    names = []
    for places in zip(*np.unravel_index(cells, shape), strict=True):
        labels = [str(c.labels[i]) for c, i in zip(columns, places, strict=True)]
        names.append(" & ".join(labels))
    return Coded(codes, tuple(names))


def columns_of(features: Any) -> list[Any]:
    """Return the columns of sensitive features, one or several."""
    if isinstance(features, Mapping):
        return list(features.values())
    if hasattr(features, "columns"):  # a data frame
        return [features[name] for name in features.columns]
    if isinstance(features, list | tuple) and features and all(_is_column(f) for f in features):
        return list(features)
    if getattr(features, "ndim", 1) == 2:
        return list(np.asarray(features).T)
    return [features]


def _is_column(value: Any) -> bool:
    return getattr(value, "ndim", 0) == 1 or (
        isinstance(value, Sequence) and not isinstance(value, str | bytes)
    )


def _one_dimension(values: Any, what: str) -> np.ndarray:
    import pandas as pd

    if hasattr(values, "detach"):
        values = values.detach().cpu().numpy()
    if isinstance(values, list | tuple):
        # numpy would turn None and numbers among strings into strings
        column = np.empty(len(values), dtype=object)
        column[:] = values
    elif isinstance(values, pd.Series | pd.Index | pd.api.extensions.ExtensionArray):
        column = values.to_numpy(dtype=object)
    else:
        column = np.asarray(values)
    if column.ndim != 1:
        raise InputError(
            f"{what} has shape {column.shape}; pass one label for each row, shape (n,)"
        )
    return column
