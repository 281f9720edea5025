"""A column of embeddings in PostgreSQL with pgvector, read and written in batches by key."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from equipoise._paths import hide_secrets, without_secrets
from equipoise.errors import InputError, MissingExtraError, ServiceError

STATE = "equipoise_apply"
LONGEST = 63  # bytes of a name; PostgreSQL cuts off the rest
ENDING = 2.0  # seconds within which the server lets go of the lock of a connection that has ended
_HOST = r"(\[[0-9A-Fa-f:.%]+\]|[^\[\]:,@]*)(:\d{0,5})?"
_HOSTS = re.compile(rf"{_HOST}(,{_HOST})*")
DTYPES = {"vector": "float32", "halfvec": "float16"}


@dataclass(frozen=True)
class Column:
    """Where embeddings are, and the unique column that orders them."""

    url: str = field(repr=False)  # it may hold a password
    schema: str
    table: str
    name: str
    key: str
    key_type: str
    kind: str
    dim: int

    @property
    def dtype(self) -> str:
        return DTYPES[self.kind]

    @property
    def sql_table(self) -> Any:
        return _sql().Identifier(self.schema, self.table)


def find(url: str, key: str | None = None) -> Column:
    """Return the column that a URL names, looked up in the database.

    The URL is ``postgresql://user@host/database#table.column``, or ends in
    ``#schema.table.column``.
    """
    address, _, path = url.partition("#")
    schema, table, name = _path_parts(url, path)
    with connect(address) as connection:
        written = ".".join(_quoted(part) for part in (schema, table) if part)
        found = connection.execute("select to_regclass(%s)::oid", (written,))
        oid = found.fetchone()[0]
        if oid is None:
            raise InputError(
                f"there is no table {table!r} in this database; write #table.column or"
                " #schema.table.column"
            )
        place = connection.execute(
            "select relnamespace::regnamespace::text from pg_class where oid = %s", (oid,)
        ).fetchone()[0]
        types = dict(
            connection.execute(
                "select attname, format_type(atttypid, atttypmod) from pg_attribute"
                " where attrelid = %s and attnum > 0 and not attisdropped",
                (oid,),
            ).fetchall()
        )
        kind = types.get(name, "").split("(")[0].split(".")[-1]
        if kind not in DTYPES:
            listed = ", ".join(f"{column} ({about})" for column, about in types.items())
            raise InputError(
                f"{table} has no column {name!r} of type vector or halfvec; it has {listed}"
            )
        key = key or _primary_key(connection, oid, table)
        if key not in types:
            raise InputError(f"{table} has no column {key!r}; pass a unique column with `key`")
        _require_unique(connection, oid, table, key)
        column = Column(address, place.strip('"'), table, name, key, types[key], kind, 0)
        return replace(column, dim=_dim(connection, column))


def _path_parts(url: str, path: str) -> tuple[str, str, str]:
    parts = path.split(".")
    if len(parts) == 2:
        parts = ["", *parts]
    if len(parts) != 3 or not parts[1]:
        raise InputError(
            f"{without_secrets(url)} does not say which column; write"
            " postgresql://user@host/database#table.column"
        )
    for part in parts:
        require_short(part)
    schema, table, name = parts
    return schema, table, name


def _primary_key(connection: Any, oid: int, table: str) -> str:
    found = connection.execute(
        "select attname from pg_index join pg_attribute on attrelid = indrelid and attnum ="
        " any(indkey) where indrelid = %s and indisprimary",
        (oid,),
    ).fetchall()
    if len(found) != 1:
        raise InputError(
            f"{table} has a primary key of {len(found)} columns; pass one unique column with `key`"
        )
    return found[0][0]


def _require_unique(connection: Any, oid: int, table: str, key: str) -> None:
    """Raise for a key by which a row cannot be found.

    Two rows of one key would get each other's embedding, and null is equal to nothing.
    """
    found = connection.execute(
        "select 1 from pg_index join pg_attribute on attrelid = indrelid and attnum = indkey[0]"
        " where indrelid = %s and attname = %s and attnotnull and indisunique and indisvalid and"
        " indnkeyatts = 1 and indpred is null",
        (oid, key),
    ).fetchone()
    if found is None:
        raise InputError(
            f"{key!r} of {table} is not unique, or may be null; pass another column with `key`, or"
            f" see to it: alter table {table} add unique ({key}), alter {key} set not null"
        )


def _dim(connection: Any, column: Column) -> int:
    sql = _sql()
    query = sql.SQL("select vector_dims({0}) from {1} where {0} is not null limit 1").format(
        sql.Identifier(column.name), column.sql_table
    )
    row = connection.execute(query).fetchone()
    if row is None:
        raise InputError(f"{column.table}.{column.name} holds no embeddings")
    return row[0]


def connect(url: str) -> Any:
    """Return a connection that speaks pgvector."""
    try:
        import psycopg
        from pgvector.psycopg import register_vector
    except ImportError:
        raise MissingExtraError("PostgreSQL", "psycopg with pgvector", "postgres") from None
    _require_address(url)
    try:
        connection = psycopg.connect(url)
    except psycopg.OperationalError as error:
        said = hide_secrets(str(error).strip(), url)
        raise ServiceError(
            f"the database does not answer ({said}); start it, or correct the address"
        ) from None
    except psycopg.ProgrammingError:  # its message quotes the address, perhaps with the password
        raise _no_address(url) from None
    try:
        register_vector(connection)
    except psycopg.ProgrammingError:
        connection.close()
        raise InputError(
            "this database has no pgvector; type in it: create extension vector"
        ) from None
    connection.commit()
    return connection


def _require_address(url: str) -> None:
    """Raise for an address that libpq would misread.

    libpq takes what follows the first @ of a password for a host, and says so in its errors.
    """
    _, _, rest = url.partition("://")
    authority = re.split("[/?]", rest, maxsplit=1)[0]
    user, _, host = authority.rpartition("@")
    broken = re.search("%(?![0-9A-Fa-f]{2})|%00", url)
    if broken or "@" in user or not _HOSTS.fullmatch(host):
        raise _no_address(url)
    if "@" in rest[len(authority) :].partition("?")[0] or re.search(r"\s", url):
        raise _no_address(url)


def _no_address(url: str) -> InputError:
    return InputError(
        f"{without_secrets(url)} is no address of a database; write"
        " postgresql://user:password@host:port/database, with each of the letters @ : / # ? %"
        " and space in a name or a password percent-encoded (@ is %40)"
    )


def require_short(name: str) -> None:
    """Raise for a name so long that PostgreSQL would cut it and mean another column."""
    size = len(name.encode("utf-8", "surrogatepass"))
    if size > LONGEST:
        raise InputError(
            f"{name!r} has {size} bytes, and a name in PostgreSQL has {LONGEST} at most; pass a"
            " shorter one"
        )


def _quoted(name: str) -> str:
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


@contextmanager
def in_words() -> Iterator[None]:
    """Raise a ServiceError for what the database refuses.

    It refuses where a permission is missing, the disk is full or a table went away.
    """
    try:
        import psycopg
    except ImportError:
        raise MissingExtraError("PostgreSQL", "psycopg with pgvector", "postgres") from None
    try:
        yield
    except psycopg.Error as error:
        said = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ServiceError(
            f"the database refused ({said}); put that right and run the same again, with `resume`"
            " if a part is done"
        ) from None


class NewColumn:
    """The column that is written, and the table that keeps how far it has come.

    Both change in one transaction, or neither does.
    """

    def __init__(self, connection: Any, column: Column, name: str, out_dim: int):
        self.connection, self.column, self.name, self.out_dim = connection, column, name, out_dim
        self.run = f"{column.schema}.{column.table}.{name}"

    def lock(self) -> None:
        """Let one run at a time write; the lock ends with the connection.

        A run has one connection after the other, and a run may follow one that was just stopped:
        the server lets go of the first one's lock a moment after it ended.
        """
        until = time.monotonic() + ENDING
        while not self._locked():
            if time.monotonic() > until:
                raise InputError(
                    f"another run is writing to {self.run}; wait for it, or write to another column"
                )
            time.sleep(ENDING / 20)

    def _locked(self) -> bool:
        question = "select pg_try_advisory_lock(hashtext(%s))"
        answer = self.connection.execute(question, (self.run,)).fetchone()
        self.connection.commit()
        return bool(answer[0])

    def begin(self, identity: str, resume: bool) -> None:
        """Add the column, or go on with it where this very run began it.

        identity: a text that is the same for the same run.
        """
        sql, text = _sql(), identity
        with self.connection.transaction():
            self.connection.execute(
                sql.SQL(
                    "create table if not exists {} (run text, part int, last text, rows int,"
                    " document text, primary key (run, part))"
                ).format(sql.Identifier(self.column.schema, STATE))
            )
            exists = self.connection.execute(
                "select 1 from information_schema.columns where table_schema = %s and table_name ="
                " %s and column_name = %s",
                (self.column.schema, self.column.table, self.name),
            ).fetchone()
            if not exists:  # it may have been dropped: notes of it are then worthless
                delete = sql.SQL("delete from {} where run = %s").format(
                    sql.Identifier(self.column.schema, STATE)
                )
                self.connection.execute(delete, (self.run,))
            found = self._state("select document from {} where run = %s and part = 0")
            if found and found[0][0] != text:
                raise InputError(
                    f"{self.run} holds another run: it was given another space, kappa or column;"
                    " write to another column"
                )
            if found and not resume:
                raise InputError(
                    f"{self.run} holds this run, or a part of it; pass `resume` to go on, or write"
                    " to another column"
                )
            if found:
                return
            if exists:
                raise InputError(
                    f"{self.run} exists, and no run of equipoise began it; write to another column"
                )
            kind = sql.SQL(f"{self.column.kind}({int(self.out_dim)})")
            self.connection.execute(
                sql.SQL("alter table {} add column {} {}").format(
                    self.column.sql_table, sql.Identifier(self.name), kind
                )
            )
            self._note(0, None, 0, text)

    def notes(self) -> list[str]:
        """Return what was noted for each batch, in order."""
        rows = self._state("select document from {} where run = %s and part > 0 order by part")
        self.connection.commit()
        return [row[0] for row in rows]

    def last(self) -> tuple[int, str | None]:
        """Return the number and the last key of the last batch that is in the table."""
        rows = self._state("select part, last from {} where run = %s order by part desc limit 1")
        self.connection.commit()
        return rows[0]

    def written(self) -> int:
        """Return how many rows all batches have."""
        count = self._state("select coalesce(sum(rows), 0) from {} where run = %s")[0][0]
        self.connection.commit()
        return int(count)

    def left(self) -> int:
        """Return how many rows have an embedding and no debiased one."""
        query = _sql().SQL("select count(*) from {} where {} is not null and {} is null")
        query = query.format(self.column.sql_table, *self._names())
        count = self.connection.execute(query).fetchone()[0]
        self.connection.commit()
        return count

    def read(self, last: str | None, count: int) -> tuple[list[str], np.ndarray]:
        """Return the next keys that lack a debiased row, and their rows (n, dim); lock them.

        Keys are text here, whatever their type is.
        """
        sql, key = _sql(), _sql().Identifier(self.column.key)
        after = sql.SQL("")
        if last is not None:
            key_type = sql.SQL(self.column.key_type)
            after = sql.SQL("{} > {}::{} and ").format(key, sql.Literal(last), key_type)
        e, u = self._names()
        query = sql.SQL(
            "select {key}::text, {e} from {table} where {after} {e} is not null and {u} is null"
            # The bare name of the key would mean its text.
            " order by {table}.{key} limit {n} for no key update"
        ).format(key=key, e=e, u=u, table=self.column.sql_table, after=after, n=sql.Literal(count))
        found = self.connection.cursor(binary=True).execute(query).fetchall()
        rows = [row[1].to_numpy() for row in found]
        for (name, _), row in zip(found, rows, strict=True):
            if len(row) != self.column.dim:
                raise InputError(
                    f"the row with {self.column.key} {name} is {len(row)} wide, and others"
                    f" {self.column.dim}; correct it, then pass `resume`"
                )
        if not rows:
            return [], np.empty((0, self.column.dim), self.column.dtype)
        return [row[0] for row in found], np.stack(rows).astype(self.column.dtype)

    def write(self, keys: list[str], rows: np.ndarray, part: int, note: str) -> None:
        """Write rows and the note of them; the caller's transaction commits both."""
        from pgvector import HalfVector, Vector

        sql = _sql()
        make = Vector if self.column.kind == "vector" else HalfVector
        kinds = sql.SQL(f"key text, u {self.column.kind}")
        self.connection.execute(
            sql.SQL("create temp table equipoise_batch ({}) on commit drop").format(kinds)
        )
        with self.connection.cursor().copy(
            "copy equipoise_batch (key, u) from stdin (format binary)"
        ) as copy:
            copy.set_types(["text", self.column.kind])
            for key, row in zip(keys, rows, strict=True):
                copy.write_row((key, make(row)))
        query = sql.SQL(
            "update {table} set {u} = b.u from equipoise_batch b where {table}.{key} ="
            " b.key::{kind}"
        )
        _, u = self._names()
        query = query.format(
            table=self.column.sql_table,
            u=u,
            key=sql.Identifier(self.column.key),
            kind=sql.SQL(self.column.key_type),
        )
        self.connection.execute(query)
        self._note(part, keys[-1], len(keys), note)

    def _names(self) -> tuple[Any, Any]:
        return _sql().Identifier(self.column.name), _sql().Identifier(self.name)

    def _state(self, query: str) -> list[Any]:
        table = _sql().Identifier(self.column.schema, STATE)
        return self.connection.execute(_sql().SQL(query).format(table), (self.run,)).fetchall()

    def _note(self, part: int, last: str | None, rows: int, document: str) -> None:
        table = _sql().Identifier(self.column.schema, STATE)
        query = _sql().SQL("insert into {} values (%s, %s, %s, %s, %s)").format(table)
        self.connection.execute(query, (self.run, part, last, rows, document))


def _sql() -> Any:
    try:
        from psycopg import sql
    except ImportError:
        raise MissingExtraError("PostgreSQL", "psycopg with pgvector", "postgres") from None
    return sql
