"""``apply_lance``: debias a column of a Lance table (as LanceDB writes it) into a new column.

The run goes fragment by fragment, and the table changes once, at the end.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from equipoise._applying.documents import LancePart, LanceRun
from equipoise._applying.notes import Notes
from equipoise._applying.report import ApplyReport, certificate, merged
from equipoise._engines.transform import Meter, Modality, Transform
from equipoise._progress import progress
from equipoise._space import EncoderRef
from equipoise._stores.lock import alone_in
from equipoise._stores.parquet import FLOATS, array_like, rows_of
from equipoise.errors import InputError, InvalidRowsError, MissingExtraError


def apply_lance(
    source: str,
    name: str,
    transform: Transform,
    *,
    modality: Modality = "image",
    keep_invalid: bool = False,
    resume: bool = False,
) -> ApplyReport:
    """Debias the column that ``source`` (``photos.lance#column``) names into a new column ``name``.

    Data files that exist stay as they are; a stopped run goes on by fragment.
    """
    lance, pa = _lance()
    started = time.monotonic()
    path, _, column = source.rpartition("#")
    if not name or set(name) & set("./\\`"):
        raise InputError(
            f"{name!r} is not the name of a column; the destination of a Lance column is a new"
            " column beside it"
        )
    table = _opened(lance, path)
    dim, dtype = _column(table, path, column)
    transform = transform.for_modality(modality)
    transform.require(EncoderRef(), dim, dtype, {modality})
    folder, last = Path(path).parent, Path(path).name
    journal = _Journal(folder / f".{last}.{name}.equipoise-apply.journal")
    identity = LanceRun(
        **dict(transform.identity(dtype)),
        column=column,
        modality=modality,
        version=table.version,
    )

    def report(parts: list[LancePart], rows: int = 0, shards: int = 0) -> ApplyReport:
        totals = merged((modality, part.totals) for part in parts)
        found = certificate(totals, transform.operator is None, transform.certifies)
        size = rows * transform.out_dim * np.dtype(dtype).itemsize
        return ApplyReport(f"{path}#{name}", rows, size, shards, time.monotonic() - started, found)

    with alone_in(folder, f".{last}.{name}.lock"):
        if name in table.schema.names:
            fragments = {fragment.fragment_id for fragment in table.get_fragments()}
            written = journal.finished(identity, fragments) if resume else None
            if written is None:
                raise InputError(
                    f"{path} has a column {name!r} already; write to another, or drop it first"
                )
            _require_whole(table, path, name)
            return report(written)
        done = {part.id: part for part in journal.begin(identity, resume)}
        fragments = table.get_fragments()
        left = [fragment for fragment in fragments if fragment.fragment_id not in done]
        rows = sum(fragment.count_rows() for fragment in left)
        value = table.schema.field(column).type.value_field
        field = pa.field(name, pa.list_(value, transform.out_dim))
        schema = table.schema.append(field)  # where all was done, and only the commit was not
        with progress("debiasing", rows, size=dim * np.dtype(dtype).itemsize) as advance:
            for fragment in left:
                where = f"fragment {fragment.fragment_id} of {path}"
                change = _BatchChange(transform, modality, keep_invalid, where, column, name, dtype)
                changed, schema = _merge(fragment, change, field)
                part = LancePart(
                    id=fragment.fragment_id,
                    fragment=changed.to_json(),
                    totals=change.meter.totals(),
                )
                journal.add(part)
                done[part.id] = part
                advance(fragment.count_rows())
        parts = [done[fragment.fragment_id] for fragment in fragments]
        _commit(lance, table, path, parts, schema)
        journal.finish()
        return report(parts, rows, len(left))


def _commit(lance: Any, table: Any, path: str, parts: list[LancePart], schema: Any) -> None:
    """Make the written fragments a version of the table."""
    read = lance.fragment.FragmentMetadata.from_json
    metadata = [read(json.dumps(part.fragment)) for part in parts]
    merge = lance.LanceOperation.Merge(metadata, schema)
    lance.LanceDataset.commit(path, merge, read_version=table.version)


def _opened(lance: Any, path: str) -> Any:
    if not Path(path).is_dir():
        raise InputError(
            f"there is no table {path}; pass the folder that ends in .lance, in LanceDB's own"
            " folder, and #column"
        )
    try:
        return lance.dataset(path)
    except ValueError:
        raise InputError(
            f"{path} holds no Lance table; pass the folder of one, as LanceDB writes it, and"
            " #column"
        ) from None


class _Journal(Notes[LanceRun, LancePart]):
    """A line for the run, and one for each fragment that is written and waits for the commit."""

    def __init__(self, path: Path):
        super().__init__(path, LanceRun, LancePart, "column", _is_whole)

    def finished(self, identity: LanceRun, fragments: set[int]) -> list[LancePart] | None:
        """Return the fragments of this run, if it wrote the column; None where another did."""
        # Where the journal still has its name, the commit was the last thing that happened.
        if self.path.is_file():
            head, parts = self.read(self.path)
            whole = {part.id for part in parts} >= fragments
            return parts if _same(head, identity) and whole else None
        head, parts = self.read(self.kept)
        return parts if _same(head, identity) else None


def _is_whole(part: LancePart) -> bool:
    """Return whether the note of a fragment is whole enough to go on from."""
    import lance

    metadata = lance.fragment.FragmentMetadata.from_json(json.dumps(part.fragment))
    return part.id == metadata.id


def _same(head: LanceRun | None, identity: LanceRun) -> bool:
    """Return whether two runs are one, but for the table's version, which the commit changed."""
    if head is None:
        return False
    return head.model_copy(update={"version": identity.version}) == identity


class _BatchChange:
    """The change of a fragment's batches, in order; it keeps errors, which Lance would wrap."""

    def __init__(
        self,
        transform: Transform,
        modality: Modality,
        keep_invalid: bool,
        where: str,
        column: str,
        name: str,
        dtype: str,
    ):
        self.transform, self.keep_invalid = transform, keep_invalid
        self.modality: Modality = modality
        self.where, self.column, self.name = where, column, name
        self.meter, self.seen, self.error = Meter(transform, dtype), 0, None

    def __call__(self, batch: Any) -> Any:
        try:
            return self._changed(batch)
        except Exception as error:
            self.error = error
            raise

    def _changed(self, batch: Any) -> Any:
        import pyarrow as pa

        chunk = batch.column(self.column)
        e = np.ascontiguousarray(rows_of(chunk, self.transform.in_dim, self.where, self.seen))
        u = np.empty((len(e), self.transform.out_dim), e.dtype)
        bad, columns = self.transform.run(e, u, e.dtype.name, self.modality)
        if bad.any() and not self.keep_invalid:
            rows = tuple(self.seen + int(i) for i in np.flatnonzero(bad)[:5])
            raise InvalidRowsError(
                f"row {rows[0]:,} of {self.where} has no direction: it is zero, NaN or infinite."
                " Mend it, or pass `on_invalid` keep",
                rows,
                int(bad.sum()),
            )
        self.meter.add(columns, bad)
        self.seen += len(e)
        return pa.record_batch([array_like(chunk, u)], [self.name])


def _merge(fragment: Any, change: _BatchChange, field: Any) -> tuple[Any, Any]:
    """Return the fragment with one more column, written beside the others, and its new schema."""
    import pyarrow as pa
    from lance.udf import BatchUDF

    try:
        changing = BatchUDF(change, output_schema=pa.schema([field]))
        return fragment.merge_columns(changing, columns=[change.column])
    except (ValueError, OSError):
        if change.error is not None:
            raise change.error from None
        raise


def _require_whole(table: Any, path: str, name: str) -> None:
    """Raise if rows were added after the column was written, and so have no value in it."""
    added = table.count_rows(f"`{name}` IS NULL")
    if added:
        raise InputError(
            f"{added:,} rows were added to {path} since {name!r} was written; drop that column and"
            " write it again"
        )


def _column(table: Any, path: str, column: str) -> tuple[int, str]:
    found = {field.name: field.type for field in table.schema}
    kind = found.get(column)
    if not hasattr(kind, "list_size") or str(kind.value_type) not in FLOATS:  # pyright: ignore
        listed = ", ".join(f"{name} ({about})" for name, about in found.items())
        raise InputError(
            f"{path} has no column {column!r} of float16, float32 or float64 vectors; it has"
            f" {listed}"
        )
    return kind.list_size, FLOATS[str(kind.value_type)]  # pyright: ignore


def _lance() -> tuple[Any, Any]:
    import pyarrow as pa

    try:
        import lance
    except ImportError:
        raise MissingExtraError("a Lance table", "pylance with lancedb", "lancedb") from None
    return lance, pa
