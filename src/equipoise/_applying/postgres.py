"""``apply_column``: debias a column of PostgreSQL into a new one beside it, batch by batch.

A run outlasts restarts of the server.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from equipoise._applying.documents import BatchNote, ColumnRun
from equipoise._applying.report import ApplyReport, certificate, merged
from equipoise._certificate import Totals
from equipoise._documents import read_document
from equipoise._engines.transform import Meter, Modality, Transform
from equipoise._paths import without_secrets
from equipoise._progress import progress
from equipoise._space import EncoderRef
from equipoise._stores import postgres
from equipoise.errors import InputError, InvalidRowsError, ServiceError

BATCH = 5000
PATIENCE = 120.0  # seconds without an answer after which the server is given up
SCHEMES = ("postgresql://", "postgres://")


def apply_column(
    source: str,
    name: str,
    transform: Transform,
    *,
    key: str | None = None,
    modality: Modality = "image",
    keep_invalid: bool = False,
    resume: bool = False,
    batch: int = BATCH,
) -> ApplyReport:
    """Debias the column that ``source`` names into a new column; the old one is kept.

    Rows without an embedding stay without one.
    """
    if not name.replace("_", "").isalnum():
        raise InputError(
            f"{without_secrets(name)!r} is not the name of a column; the destination of a"
            " PostgreSQL column is a new column beside it"
        )
    postgres.require_short(name)
    with postgres.in_words():
        return _apply(source, name, transform, key, modality, keep_invalid, resume, batch)


def _apply(
    source: str,
    name: str,
    transform: Transform,
    key: str | None,
    modality: Modality,
    keep_invalid: bool,
    resume: bool,
    batch: int,
) -> ApplyReport:
    started = time.monotonic()
    column = postgres.find(source, key)
    transform = replace(transform, encoder=EncoderRef()).for_modality(modality)
    transform.require(EncoderRef(), column.dim, column.dtype, {modality})
    run = ColumnRun(
        **dict(transform.identity(column.dtype)),
        column=column.name,
        key=column.key,
        modality=modality,
    )
    with postgres.connect(column.url) as connection:
        target = postgres.NewColumn(connection, column, name, transform.out_dim)
        target.lock()
        target.begin(json.dumps(run.model_dump(), sort_keys=True), resume)
        left, before = target.left(), target.written()
    with progress("debiasing", left, size=column.dim * np.dtype(column.dtype).itemsize) as advance:
        for count in _batches(target, transform, modality, keep_invalid, batch):
            advance(count)
    with postgres.connect(column.url) as connection:
        target.connection = connection
        rows = target.written() - before
        parts = [_noted(note) for note in target.notes()]
    totals = merged((modality, part) for part in parts)
    found = certificate(totals, transform.operator is None, transform.certifies)
    size = rows * transform.out_dim * np.dtype(column.dtype).itemsize
    return ApplyReport(target.run, rows, size, len(parts), time.monotonic() - started, found)


def _batches(
    target: postgres.NewColumn,
    transform: Transform,
    modality: Modality,
    keep_invalid: bool,
    batch: int,
) -> Iterator[int]:
    """Yield how many rows each committed batch has.

    A server that goes away is waited for; what it committed is never done again.
    """
    from psycopg import OperationalError

    heard = time.monotonic()
    while True:
        try:
            with postgres.connect(target.column.url) as connection:
                target.connection = connection
                target.lock()
                part, last = target.last()
                while True:
                    count, reached = _batch(
                        target, transform, modality, keep_invalid, batch, part + 1, last
                    )
                    heard = time.monotonic()
                    if count:
                        part, last = part + 1, reached
                        yield count
                    elif last is None:
                        return
                    else:
                        last = None  # once more from the start: rows that were added behind
        except (OperationalError, ServiceError) as error:
            if time.monotonic() - heard > PATIENCE:
                raise ServiceError(
                    f"the database went away ({str(error).strip()}); when it is back, go on with"
                    " `resume`"
                ) from None
            time.sleep(0.5)


def _batch(
    target: postgres.NewColumn,
    transform: Transform,
    modality: Modality,
    keep_invalid: bool,
    batch: int,
    part: int,
    last: str | None,
) -> tuple[int, str | None]:
    with target.connection.transaction():
        keys, e = target.read(last, batch)
        if not keys:
            return 0, last
        u = np.empty((len(e), transform.out_dim), e.dtype)
        bad, columns = transform.run(e, u, target.column.dtype, modality)
        if bad.any() and not keep_invalid:
            names = [keys[i] for i in np.flatnonzero(bad)[:5]]
            raise InvalidRowsError(
                f"the row of {target.column.table} with {target.column.key} {names[0]} has no"
                " direction: it is zero. Mend it, or pass `on_invalid` keep to let such rows"
                " through unchanged and count them; then go on with `resume`",
                tuple(names),
                int(bad.sum()),
            )
        meter = Meter(transform, target.column.dtype)
        meter.add(columns, bad)
        target.write(keys, u, part, json.dumps(meter.totals().to_json()))
    return len(keys), keys[-1]


def _noted(note: str) -> Totals:
    """Return the totals of a batch from the note of it in the database."""
    where, what = f"a row of the table {postgres.STATE}", "the note of a batch"
    return read_document(BatchNote, note, where, what, "begin another column", infinite=True).root
