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

_VERSION = 1
_TABLE = """
CREATE TABLE IF NOT EXISTS answers (
    key TEXT PRIMARY KEY, conversation TEXT NOT NULL, prompt TEXT NOT NULL, "group" TEXT NOT NULL,
    step TEXT NOT NULL,
    attempt INTEGER NOT NULL, model TEXT NOT NULL, text TEXT NOT NULL, trouble TEXT NOT NULL, at
    TEXT NOT NULL DEFAULT (datetime('now'))
);
CREATE INDEX IF NOT EXISTS by_conversation ON answers (conversation);
"""


class Answer(NamedTuple):
    """What a model said; trouble: why it is no whole answer ("refused", "cut off"), or ""."""

    text: str
    trouble: str = ""


def key_of(**everything: Any) -> str:
    """A key for a request: all that could change its answer."""
    return hashlib.sha256(
        json.dumps(everything, sort_keys=True, ensure_ascii=False).encode()
    ).hexdigest()


class AnswerCache:
    """A file of answers, or memory where path is None.

    Each answer is committed before it is used; never a key or a token in it.
    """

    def __init__(self, path: str | os.PathLike | None):
        self._path = path
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
            self._db.execute(f"PRAGMA user_version={_VERSION}")
        except (sqlite3.Error, OSError) as error:
            raise self._trouble(error) from None

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
        """The answer to a request, if it was ever given."""
        row = self._execute("SELECT text, trouble FROM answers WHERE key = ?", (key,)).fetchone()
        return Answer(*row) if row else None

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
        self._execute(
            'INSERT OR REPLACE INTO answers (key, conversation, prompt, "group", step, attempt,'
            " model, text, trouble) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (key, conversation, prompt, group, step, attempt, model, *answer),
        )

    def forget(self, keys: Iterable[str]) -> None:
        """Drop answers that came to nothing, so that another run may ask again."""
        for key in keys:
            self._execute("DELETE FROM answers WHERE key = ?", (key,))

    def __len__(self) -> int:
        return self._db.execute("SELECT count(*) FROM answers").fetchone()[0]

    def close(self) -> None:
        self._db.close()
