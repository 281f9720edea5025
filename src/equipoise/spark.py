"""Debias a column of a Spark data frame, as a pandas UDF over Arrow."""

from __future__ import annotations

import os
from typing import Any, Literal

import numpy as np
import pandas as pd

from equipoise._debiasing import debias as debias_rows
from equipoise._space import AttributeSpace
from equipoise.errors import InputError, MissingExtraError

try:
    from pyspark.sql import DataFrame
    from pyspark.sql.functions import pandas_udf
    from pyspark.sql.types import ArrayType, DoubleType, FloatType
except ImportError:
    raise MissingExtraError("equipoise.spark", "pyspark", "spark") from None

__all__ = ["debias"]

DTYPES: dict[Any, np.dtype[Any]] = {
    FloatType(): np.dtype(np.float32),
    DoubleType(): np.dtype(np.float64),
}


def debias(
    frame: DataFrame,
    column: str,
    space: AttributeSpace | str | os.PathLike[str],
    *,
    out: str | None = None,
    kappa: float | None = None,
    norm: Literal["unit", "keep"] = "unit",
    on_invalid: Literal["raise", "keep"] = "raise",
) -> DataFrame:
    """Return the frame with a debiased column: the same one, or a new one named ``out``.

    column: embeddings as array<float> or array<double>; null stays null. space: an attribute space
    or its file, read here and sent to the workers. kappa, norm, on_invalid: as ``eq.debias``. The
    rows have the bytes that ``eq.apply`` writes.
    """
    if isinstance(space, str | os.PathLike):
        space = AttributeSpace.load(space)
    if not isinstance(space, AttributeSpace):
        raise InputError(
            f"space is of type {type(space).__name__}; pass an AttributeSpace, or its file"
        )
    kind = _kind(frame, column)
    dtype = DTYPES[kind.elementType]
    options: dict[str, Any] = {"kappa": kappa, "norm": norm, "on_invalid": on_invalid}
    debias_rows(np.empty((0, space.dim), dtype), space, **options)  # wrong options fail here

    def changed(rows: pd.Series) -> pd.Series:
        return _changed(rows, space, dtype, options)

    make: Any = pandas_udf  # its overloads know no Series of arrays
    function = make(changed, kind)
    return frame.withColumn(out or column, function(frame[column]))


def _kind(frame: DataFrame, column: str) -> ArrayType:
    """Return the type of a column of embeddings."""
    if not hasattr(frame, "schema"):
        raise InputError(
            f"{type(frame).__name__} is no Spark data frame; pass one, such as"
            " spark.read.parquet(...)"
        )
    found = {field.name: field.dataType for field in frame.schema.fields}
    kind = found.get(column)
    if isinstance(kind, ArrayType) and kind.elementType in DTYPES:
        return kind
    listed = ", ".join(f"{name} ({about.simpleString()})" for name, about in found.items())
    raise InputError(
        f"the frame has no column {column!r} of array<float> or array<double>; it has {listed}"
        " (pyspark.ml.functions.vector_to_array turns vectors of MLlib into arrays)"
    )


def _changed(
    rows: pd.Series, space: AttributeSpace, dtype: np.dtype[Any], options: dict[str, Any]
) -> pd.Series:
    """Return debiased rows; None where there is none."""
    out = pd.Series([None] * len(rows), index=rows.index, dtype=object)
    there = np.flatnonzero(rows.notna())
    if not len(there):
        return out
    given = rows.iloc[there]
    widths = sorted(set(given.map(len)))
    if widths != [space.dim]:
        raise InputError(
            f"rows are {', '.join(map(str, widths))} wide and the space has {space.dim}"
            " dimensions; fit one with the encoder that made the rows"
        )
    stacked = np.stack(list(given)).astype(dtype, copy=False)
    for place, row in zip(there, debias_rows(stacked, space, **options), strict=True):
        out.iat[place] = row
    return out
