"""A parquet file with a column of embeddings: that column is changed, and nothing else.

All other columns, the row groups and the metadata stay as they were.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np

from equipoise._stores.locations import Place
from equipoise.errors import ArtefactError, InputError

FLOATS = {"halffloat": "float16", "float": "float32", "double": "float64"}
_CODECS = {"UNCOMPRESSED": "NONE", "LZ4_RAW": "LZ4"}  # as the writer calls them
Rows = Callable[[np.ndarray, int], np.ndarray]
"""A function of some rows and of the number of the first; it returns the rows to write instead."""


@dataclass(frozen=True)
class ParquetRows:
    """The column of embeddings of one file."""

    rows: int
    dim: int
    dtype: str
    column: str
    group_bytes: int


def describe(place: Place, name: str, column: str | None = None) -> ParquetRows:
    """Find and check the column, by the file's footer and its first rows."""
    with place.open(name) as file, _reader(file, f"{name} in {place}") as reader:
        schema, metadata = reader.schema_arrow, reader.metadata
        column = _pick(schema, f"{name} in {place}", column)
        kind = schema.field(column).type
        dim = kind.list_size if hasattr(kind, "list_size") else _first_width(reader, column)
        groups = [metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups)]
        return ParquetRows(
            rows=metadata.num_rows,
            dim=dim,
            dtype=FLOATS[str(kind.value_type)],
            column=column,
            group_bytes=max(groups, default=0),
        )


def count_rows(place: Place, name: str) -> int:
    """Return how many lines a file of metadata has."""
    with place.open(name) as file, _reader(file, f"{name} in {place}") as reader:
        return reader.metadata.num_rows


def rewrite(source: BinaryIO, target: Any, name: str, column: str, dim: int, change: Rows) -> None:
    """Write every row group of ``source`` into ``target``, its embeddings through ``change``."""
    import pyarrow.parquet as pq

    with _reader(source, name) as reader:
        writer = None
        try:
            for table in _changed(reader, name, column, dim, change):
                if writer is None:
                    codecs: Any = _codecs(reader)
                    writer = pq.ParquetWriter(target, table.schema, compression=codecs)
                writer.write_table(table, row_group_size=max(1, len(table)))
            (writer or pq.ParquetWriter(target, reader.schema_arrow)).close()
        except BaseException:
            if writer is not None:
                # Else it would close itself some time later, and complain of a closed target.
                writer.is_open = False
            raise


def _changed(reader: Any, name: str, column: str, dim: int, change: Rows) -> Iterator[Any]:
    """Yield each row group as a table, its embeddings changed."""
    import pyarrow as pa

    schema, first = reader.schema_arrow, 0
    place = schema.get_field_index(column)
    for group in range(reader.num_row_groups):
        try:
            table = reader.read_row_group(group)
        except (pa.ArrowException, OSError) as error:
            raise ArtefactError(
                f"row group {group} of {name}, from row {first:,}, is damaged ({error}); copy it"
                " again"
            ) from None
        chunks = []
        for chunk in table.column(place).chunks:
            rows = rows_of(chunk, dim, name, first)
            chunks.append(array_like(chunk, change(rows, first)))
            first += len(chunk)
        kind = chunks[0].type if chunks else table.column(place).type
        field = schema.field(place).with_type(kind)
        yield table.set_column(place, field, pa.chunked_array(chunks, kind))


def _reader(file: BinaryIO, name: str) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.ParquetFile(file, pre_buffer=False)
    except (pa.ArrowException, OSError) as error:
        raise ArtefactError(
            f"{name} is not a parquet file, or a truncated one ({error}); copy or make it again"
        ) from None


def _holds_embeddings(kind: Any) -> bool:
    """Return whether a column of this kind has a list of floats per row."""
    import pyarrow.types as kinds

    lists = kinds.is_fixed_size_list(kind) or kinds.is_list(kind) or kinds.is_large_list(kind)
    return lists and str(kind.value_type) in FLOATS


def _pick(schema: Any, name: str, column: str | None) -> str:
    """Return the column with embeddings: the one that was named, or the only one."""
    found = [field.name for field in schema if _holds_embeddings(field.type)]
    if column is None and len(found) != 1:
        advice = "embeddings are lists of float16, float32 or float64"
        if found:
            advice = f"name one with `column`: {', '.join(found)}"
        raise InputError(f"{name} has {len(found) or 'no'} columns of embeddings; {advice}")
    chosen = found[0] if column is None else column
    if chosen not in found:
        listed = ", ".join(f"{field.name} ({field.type})" for field in schema)
        raise InputError(f"{name} has no column {column!r} of lists of floats; it has {listed}")
    count = schema.names.count(chosen)
    if count > 1:
        raise InputError(f"{name} has {count} columns called {chosen!r}; rename all but one")
    return chosen


def _first_width(reader: Any, column: str) -> int:
    for batch in reader.iter_batches(batch_size=1, columns=[column]):
        if len(batch) and batch.column(0).is_valid()[0].as_py():
            return len(batch.column(0)[0])
    return 0


def rows_of(chunk: Any, dim: int, name: str, first: int) -> np.ndarray:
    """Return the rows (n, dim), without a copy where arrow needs none."""
    if chunk.null_count:
        row = first + int(np.flatnonzero(chunk.is_null().to_numpy(zero_copy_only=False))[0])
        raise InputError(
            f"row {row:,} of {name} is null, and so are {chunk.null_count - 1} others of its row"
            " group; give each an embedding"
        )
    if not hasattr(chunk.type, "list_size"):
        lengths = np.diff(chunk.offsets.to_numpy())
        if (lengths != dim).any():
            row = int(np.flatnonzero(lengths != dim)[0])
            raise InputError(
                f"row {first + row:,} of {name} is {lengths[row]} wide and the first row {dim}; all"
                " must be of one encoder"
            )
    values = chunk.flatten()
    if values.null_count:
        at = int(np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False))[0])
        raise InputError(
            f"row {first + at // dim:,} of {name} holds a null at {at % dim}; give each row all of"
            " its numbers"
        )
    return values.to_numpy(zero_copy_only=True).reshape(-1, dim)


def array_like(chunk: Any, rows: np.ndarray) -> Any:
    """Return an arrow array of the chunk's kind, as wide as the rows."""
    import pyarrow as pa

    kind, values = chunk.type, pa.array(rows.reshape(-1))
    if hasattr(kind, "list_size"):
        resized = pa.list_(kind.value_field, rows.shape[1])
        return pa.FixedSizeListArray.from_arrays(values, type=resized)
    offsets = np.arange(len(rows) + 1, dtype=np.int64) * rows.shape[1]
    if pa.types.is_large_list(kind):
        return pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), values, type=kind)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values, type=kind)


def _codecs(reader: Any) -> dict[str, str]:
    """Return how each column was compressed, in the writer's words."""
    group = reader.metadata.row_group(0)
    codecs = {}
    for i in range(group.num_columns):
        column = group.column(i)
        codecs[column.path_in_schema] = _CODECS.get(column.compression, column.compression)
    return codecs
