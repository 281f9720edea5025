"""Answers of language models, kept in one sqlite file: asked once, there after a kill at any
moment.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from equipoise.errors import ArtefactError

_VERSION = 2
_TABLE = """
CREATE TABLE IF NOT EXISTS answers (
    key TEXT PRIMARY KEY, conversation TEXT NOT NULL, prompt TEXT NOT NULL, "group" TEXT NOT NULL,
    step TEXT NOT NULL,
    attempt INTEGER NOT NULL, model TEXT NOT NULL, text TEXT NOT NULL, trouble TEXT NOT NULL, at
    TEXT NOT NULL DEFAULT (datetime('now')), checksum TEXT NOT NULL DEFAULT ''
);
CREATE INDEX IF NOT EXISTS by_conversation ON answers (conversation);
"""


# as bytes: damaged ones need not be UTF-8
_AS_BYTES = "CAST({} AS BLOB)"
_ANSWER = ", ".join(_AS_BYTES.format(column) for column in ("text", "trouble", "checksum"))


class Answer(NamedTuple):
    """What a model said; trouble: why it is no whole answer ("refused", "cut off"), or ""."""

    text: str
    trouble: str = ""


def key_of(**everything: Any) -> str:
    """Return a key for a request: all that could change its answer."""
    return hashlib.sha256(
        json.dumps(everything, sort_keys=True, ensure_ascii=False).encode()
    ).hexdigest()


def _checksum(key: bytes, text: bytes, trouble: bytes) -> str:
    """Return a hash that tells a kept answer from a damaged one."""
    parts = hashlib.blake2b(digest_size=16)
    for part in (key, text, trouble):
        parts.update(b"%d " % len(part))
        parts.update(part)
    return parts.hexdigest()


class AnswerCache:
    """A file of answers, or memory where path is None.

    Each answer is committed before it is used; never a key or a token in it. ``damaged`` counts the
    answers that were not what had been kept, and that are asked for again.
    """

    def __init__(self, path: str | os.PathLike[str] | None):
        self._path = path
        self.damaged = 0
        try:
            if path is not None:
                Path(path).parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(
                ":memory:" if path is None else path,
                timeout=60,
                isolation_level=None,
                check_same_thread=False,
            )
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=NORMAL")
            version = self._db.execute("PRAGMA user_version").fetchone()[0]
            if version > _VERSION:
                raise ArtefactError(
                    f"{path} is a cache of a newer equipoise (version {version}, this one reads"
                    f" {_VERSION}); pass another file"
                )
            self._db.executescript(_TABLE)
            if version < _VERSION:
                self._seal_all()
        except (sqlite3.Error, OSError) as error:
            raise self._trouble(error) from None

    def _seal_all(self) -> None:
        """Give every answer of an older file its checksum."""
        self._db.execute("BEGIN IMMEDIATE")
        columns = [column[1] for column in self._db.execute("PRAGMA table_info(answers)")]
        if "checksum" not in columns:
            self._db.execute("ALTER TABLE answers ADD COLUMN checksum TEXT NOT NULL DEFAULT ''")
        bare = self._db.execute(
            f"SELECT {_AS_BYTES.format('key')}, {_ANSWER} FROM answers WHERE checksum = ''"
        ).fetchall()
        for key, text, trouble, _ in bare:
            self._db.execute(
                f"UPDATE answers SET checksum = ? WHERE {_AS_BYTES.format('key')} = ?",
                (_checksum(key, text, trouble), key),
            )
        self._db.execute(f"PRAGMA user_version={_VERSION}")
        self._db.execute("COMMIT")

    def _trouble(self, error: Exception) -> ArtefactError:
        return ArtefactError(
            f"{self._path} cannot be used as a cache ({error}); pass another file, or delete it to"
            " ask again"
        )

    def _execute(self, statement: str, values: Sequence[Any] = ()) -> sqlite3.Cursor:
        try:
            return self._db.execute(statement, values)
        except sqlite3.Error as error:
            raise self._trouble(error) from None

    def get(self, key: str) -> Answer | None:
        """Return the answer to a request, if it was ever given; a damaged one is dropped."""
        row = self._execute(f"SELECT {_ANSWER} FROM answers WHERE key = ?", (key,)).fetchone()
        if row is None:
            return None
        text, trouble, checksum = row
        if checksum != _checksum(key.encode(), text, trouble).encode():
            self.damaged += 1
            self.forget([key])
            return None
        return Answer(text.decode(), trouble.decode())

    def put(
        self,
        key: str,
        conversation: str,
        prompt: str,
        group: str,
        step: str,
        attempt: int,
        model: str,
        answer: Answer,
    ) -> None:
        """Keep an answer; on disk when this returns."""
        checksum = _checksum(key.encode(), answer.text.encode(), answer.trouble.encode())
        self._execute(
            'INSERT OR REPLACE INTO answers (key, conversation, prompt, "group", step, attempt,'
            " model, text, trouble, checksum) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (key, conversation, prompt, group, step, attempt, model, *answer, checksum),
        )

    def forget(self, keys: Iterable[str]) -> None:
        """Drop answers that came to nothing, so that another run may ask again."""
        for key in keys:
            self._execute("DELETE FROM answers WHERE key = ?", (key,))

    def __len__(self) -> int:
        return self._db.execute("SELECT count(*) FROM answers").fetchone()[0]

    def close(self) -> None:
        self._db.close()
