"""The SQLite file of a project: its tables and transactions.

A transaction is whole or nothing, and on the disk when it ends.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from equipoise.errors import ArtefactError, InputError

VERSION = 1
PRIME = 2**31 - 1
_SCHEMA = """
create table if not exists settings (name text primary key, value text not null) without rowid;
create table if not exists annotators (name text primary key, token blob, factor integer not null)
    without rowid;
create table if not exists sessions (
    token blob primary key, annotator text not null references annotators, began integer not null
) without rowid;
create table if not exists pictures (
    id text primary key, path text not null, digest text not null, size integer not null, changed
    integer not null, place integer not null,
    prompt text not null, method text not null, asked integer not null, gold text, state text not
    null, unique (path, digest)
) without rowid;
create table if not exists history (
    entry integer primary key, annotator text not null references annotators, request text not null,
    picture text references pictures,
    answer text, at text not null, unique (annotator, request)
);
create table if not exists labels (
    annotator text not null references annotators, picture text not null references pictures, answer
    text not null, at text not null,
    entry integer not null references history, primary key (annotator, picture)
) without rowid;
"""


class Database:
    """One connection that the server's threads share.

    Other processes may read and write at the same time.
    """

    def __init__(self, path: Path):
        self.path = path
        self._lock = threading.RLock()
        try:
            self._db = sqlite3.connect(
                path, timeout=60, isolation_level=None, check_same_thread=False
            )
            self._db.execute("pragma journal_mode = wal")
            # An answer that was confirmed outlives a power cut.
            self._db.execute("pragma synchronous = full")
            self._db.execute("pragma foreign_keys = on")
            version = self._db.execute("pragma user_version").fetchone()[0]
            if version > VERSION:
                raise ArtefactError(
                    f"{path} is of a newer equipoise (version {version}, this one reads {VERSION});"
                    " type: pip install -U equipoise"
                )
            self._db.executescript(_SCHEMA)
            self._db.execute(f"pragma user_version = {VERSION}")
        except sqlite3.Error as error:
            raise ArtefactError(
                f"{path} cannot be used for labels ({error}); pass another file as `database`"
            ) from None

    def close(self) -> None:
        with self._lock:
            self._db.close()

    def settings(self) -> dict[str, Any]:
        with self.reading() as db:
            rows = db.execute("select name, value from settings")
            return {name: json.loads(value) for name, value in rows}

    def set(self, settings: Mapping[str, Any]) -> None:
        with self.writing() as db:
            rows = [(name, json.dumps(value)) for name, value in settings.items()]
            db.executemany("insert or replace into settings values (?, ?)", rows)

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection to one state of the file, whatever others write meanwhile."""
        with self._transaction("begin") as db:
            yield db

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection whose writes are all kept or none."""
        with self._transaction("begin immediate") as db:
            yield db

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[sqlite3.Connection]:
        with self._lock:
            try:
                self._db.execute(begin)
                yield self._db
                self._db.execute("commit")
            except sqlite3.Error as error:
                self._roll_back()
                raise ArtefactError(
                    f"{self.path} cannot be read or written ({error}); check that its disk is"
                    " mounted and has space"
                ) from None
            except UnicodeEncodeError:
                self._roll_back()
                raise InputError(
                    "a text holds half of a character, which nothing can store; pass whole ones"
                ) from None
            except BaseException:
                self._roll_back()
                raise

    def _roll_back(self) -> None:
        if self._db.in_transaction:
            self._db.execute("rollback")


def number(text: str) -> int:
    """Return a number for a picture or an annotator.

    Their products modulo ``PRIME`` give everyone an order of their own, the same every day.
    """
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") % (PRIME - 1) + 1


def now() -> str:
    """Return the time as labels carry it."""
    return stamp(datetime.now(UTC))


def stamp(at: datetime) -> str:
    """Return a time in UTC as labels carry it; such times sort as texts."""
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
