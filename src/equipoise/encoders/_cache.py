"""Embeddings kept on disk, by encoder and by the hash of what was encoded.

They lie in one sqlite file that many processes may use at once.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from equipoise._artefact import cache_folder
from equipoise._paths import open_regular
from equipoise.encoders._images import Image, open_image
from equipoise.errors import ArtefactError, InputError

LIMIT_MIB = 4096
PRUNE_TO = 0.9  # of the limit, so that pruning is rare
FRESH = 3600.0  # seconds for which a use need not be written down again
VARIABLES = 500  # of one sqlite statement
CHECKSUM = 8  # bytes behind each row
_SETTINGS = (
    "busy_timeout = 60000",
    "auto_vacuum = incremental",
    "journal_mode = wal",
    "synchronous = normal",
)
_SCHEMA = """
create table if not exists embeddings (encoder text, key blob, row blob, used real, primary key
    (encoder, key)) without rowid;
create index if not exists by_use on embeddings (used);
create table if not exists names (encoder text primary key, name text) without rowid;
"""


class Usage(NamedTuple):
    """What one encoder has in the cache."""

    encoder: str
    name: str
    rows: int
    bytes: int


def default_limit() -> int:
    """Return the limit in bytes: EQUIPOISE_CACHE_LIMIT, which is in MiB, or 4 GiB."""
    given = os.environ.get("EQUIPOISE_CACHE_LIMIT", str(LIMIT_MIB))
    if not given.isdecimal():
        raise InputError(
            f"EQUIPOISE_CACHE_LIMIT={given!r} is not legal; set it to a whole number of MiB"
        )
    return int(given) << 20


class EmbeddingCache:
    """Rows by encoder and key; above ``limit`` bytes, the rows used longest ago are removed.

    ``damaged`` counts the rows that were found to differ from what had been kept.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None, *, limit: int | None = None):
        self.path: Path = Path(path) if path else cache_folder() / "embeddings.sqlite"
        self.limit: int = default_limit() if limit is None else limit
        self._connection: sqlite3.Connection | None = None
        self._process = 0
        self.damaged: int = 0

    def get(self, encoder: str, keys: Sequence[bytes], dim: int) -> dict[bytes, np.ndarray]:
        """Return the rows that are kept and undamaged; drop and count the damaged ones."""
        found, stale, damaged, now = {}, [], [], time.time()
        with self._database() as database:
            for start in range(0, len(keys), VARIABLES):
                some = keys[start : start + VARIABLES]
                marks = ",".join("?" * len(some))
                rows = database.execute(
                    f"select key, row, used from embeddings where encoder = ? and key in ({marks})",
                    (encoder, *some),
                )
                for key, sealed, used in rows:
                    row = _opened(encoder, key, sealed)
                    if row is None or len(row) != 4 * dim:
                        damaged.append((encoder, key))
                        continue
                    found[key] = np.frombuffer(row, "<f4")
                    if not isinstance(used, float) or now - used > FRESH:
                        stale.append((now, encoder, key))
            database.executemany(
                "update embeddings set used = ? where encoder = ? and key = ?", stale
            )
            database.executemany("delete from embeddings where encoder = ? and key = ?", damaged)
        self.damaged += len(damaged)
        return found

    def put(self, encoder: str, rows: Mapping[bytes, np.ndarray]) -> None:
        """Keep rows; a row that another process has put meanwhile is the same row."""
        now = time.time()
        values = []
        for key, row in rows.items():
            values.append((encoder, key, _sealed(encoder, key, row.astype("<f4").tobytes()), now))
        with self._database() as database:
            database.executemany("insert or replace into embeddings values (?, ?, ?, ?)", values)
        if self.size() > self.limit:
            self.prune()

    def size(self) -> int:
        """Return how many bytes the rows take, without free pages."""
        with self._database() as database:
            (pages,) = database.execute("pragma page_count").fetchone()
            (free,) = database.execute("pragma freelist_count").fetchone()
            (size,) = database.execute("pragma page_size").fetchone()
        return (pages - free) * size

    def usage(self) -> list[Usage]:
        """Return what each encoder has, the largest first."""
        with self._database() as database:
            rows = database.execute(
                "select encoder, coalesce(name, ''), count(*), sum(length(row)) from embeddings"
                " left join names using (encoder) group by encoder order by 4 desc"
            )
            return [Usage(*row) for row in rows]

    def name(self, encoder: str, name: str) -> None:
        """Remember what people call an encoder."""
        with self._database() as database:
            database.execute("insert or replace into names values (?, ?)", (encoder, name))

    def prune(self, limit: int | None = None) -> int:
        """Remove the longest unused rows until a little under the limit; return how many."""
        limit = self.limit if limit is None else limit
        removed = 0
        while (size := self.size()) > limit * PRUNE_TO:
            with self._database() as database:
                (total,) = database.execute("select count(*) from embeddings").fetchone()
                if not total:
                    break
                share = int(total * (1 - PRUNE_TO * limit / size)) + 1
                oldest = "select encoder, key from embeddings order by used limit ?"
                removed += database.execute(
                    f"delete from embeddings where (encoder, key) in ({oldest})", (share,)
                ).rowcount
        self._release()
        return removed

    def clear(self, encoder: str | None = None) -> int:
        """Remove the rows of encoders whose fingerprint starts with ``encoder``; return how many.

        None removes all rows.
        """
        if encoder is not None and not encoder:
            raise InputError(
                "the fingerprint is empty, so every fingerprint starts with it; pass its first"
                " digits, or leave it out to remove all"
            )
        with self._database() as database:
            if encoder is None:
                removed = database.execute("delete from embeddings").rowcount
            else:
                removed = database.execute(
                    "delete from embeddings where substr(encoder, 1, ?) = ?",
                    (len(encoder), encoder),
                ).rowcount
        self._release()
        return removed

    def _release(self) -> None:
        """Give free pages back to the file system."""
        with self._database() as database:
            database.execute("pragma incremental_vacuum").fetchall()

    @contextmanager
    def _database(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection inside one transaction."""
        try:
            connection = self._connected()
            with connection:
                yield connection
        except (sqlite3.Error, OSError) as error:
            raise ArtefactError(
                f"the embedding cache {self.path} cannot be used ({error}); remove it, set"
                " EQUIPOISE_CACHE to another folder, or do without"
            ) from None

    def _connected(self) -> sqlite3.Connection:
        forked = self._process != os.getpid()
        # A connection of sqlite must not be carried across a fork.
        if self._connection is None or forked:
            self._process = os.getpid()
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(self.path, check_same_thread=False)
            for setting in _SETTINGS:
                self._connection.execute(f"pragma {setting}")
            self._connection.executescript(_SCHEMA)
        return self._connection


def _sealed(encoder: str, key: bytes, row: bytes) -> bytes:
    """Return a row followed by its checksum, which covers the key too."""
    return row + _checksum(encoder, key, row)


def _opened(encoder: str, key: bytes, sealed: Any) -> bytes | None:
    """Return the row that was sealed; None if the row, its key or its checksum has changed."""
    if not isinstance(sealed, bytes):
        return None
    row, checksum = sealed[:-CHECKSUM], sealed[-CHECKSUM:]
    return row if checksum == _checksum(encoder, key, row) else None


def _checksum(encoder: str, key: bytes, row: bytes) -> bytes:
    parts = hashlib.blake2b(encoder.encode(), digest_size=CHECKSUM)
    parts.update(key)
    parts.update(row)
    return parts.digest()


def text_keys(texts: Sequence[str]) -> list[bytes]:
    """Return a hash of each text."""
    keys = []
    for text in texts:
        data = text.encode("utf-8", "surrogatepass")
        keys.append(hashlib.blake2b(data, digest_size=16, person=b"text").digest())
    return keys


def image_keys(sources: Sequence[Any]) -> list[bytes | None]:
    """Return a hash of what each source holds, not of its name; None if it cannot be read."""
    with ThreadPoolExecutor(4) as threads:
        return list(threads.map(_image_key, sources))


def _image_key(source: Any) -> bytes | None:
    try:
        if isinstance(source, str | os.PathLike):
            with open_regular(source) as file:
                kind, data = b"file", file.read()
        elif isinstance(source, bytes | bytearray | memoryview):
            kind, data = b"file", source
        elif isinstance(source, Image.Image):
            image = open_image(source)
            kind, data = f"rgb{image.size}".encode(), image.tobytes()
        else:
            array = np.ascontiguousarray(source)
            kind, data = f"{array.dtype}{array.shape}".encode(), array.data
        salt = hashlib.blake2b(kind, digest_size=16).digest()
        return hashlib.blake2b(data, digest_size=16, salt=salt, person=b"image").digest()
    except Exception:  # decoding the image will raise it again, with the image's name
        return None
