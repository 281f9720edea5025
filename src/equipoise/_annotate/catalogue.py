"""The pictures that a project knows.

Each path and content is known once, under a name that tells nothing of either.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from typing import NamedTuple

from equipoise._annotate.database import Database, number
from equipoise._annotate.pictures import ListedPicture

# gone: the file is, and labels stay. unreadable: it holds no picture. replaced: by another under
# its name, or no longer asked for.
HERE, GONE, UNREADABLE, REPLACED = "here", "gone", "unreadable", "replaced"

Stamp = tuple[int, int]


class File(NamedTuple):
    """A picture and what its file is like: size and time of change, and the hash of its content."""

    found: ListedPicture
    stamp: Stamp
    digest: str


class Picture(NamedTuple):
    """A picture of the project.

    asked: part of the study. gold: its known answer, where it has one.
    """

    image: str
    prompt: str
    method: str
    asked: bool
    gold: str | None
    state: str


def stamps(database: Database) -> dict[str, tuple[Stamp, str]]:
    """Return the stamp and the digest that each path's file had last."""
    with database.reading() as db:
        rows = db.execute(
            "select path, size, changed, digest from pictures where state != ?", (REPLACED,)
        )
        return {path: ((size, changed), digest) for path, size, changed, digest in rows}


def answered(database: Database) -> set[str]:
    """Return the paths of pictures that have a label and are part of the project."""
    with database.reading() as db:
        rows = db.execute(
            "select distinct path from labels join pictures on picture = id where state != ?",
            (REPLACED,),
        )
        return {path for (path,) in rows}


def put(database: Database, files: Iterable[File], missing: Iterable[str]) -> None:
    """Store the pictures as they are now.

    missing: paths that are asked for and have no file. All others are replaced.
    """
    missing = set(missing)
    with database.writing() as db:
        known = {}
        for id, path, digest, state in db.execute("select id, path, digest, state from pictures"):
            known[path, digest] = id, state
        kept = set()
        for found, stamp, digest in files:
            key = found.path, digest
            id, state = known.get(key, (secrets.token_urlsafe(12), HERE))
            kept.add(id)
            if state != UNREADABLE:
                state = HERE
            about = (*stamp, found.prompt, found.method, found.asked, found.gold, state)
            if key not in known:
                db.execute(
                    "insert into pictures values (?, ?, ?, 0, 0, ?, '', '', 0, null, '')",
                    (id, *key, number(found.path)),
                )
            columns = (
                "size = ?, changed = ?, prompt = ?, method = ?, asked = ?, gold = ?, state = ?"
            )
            db.execute(f"update pictures set {columns} where id = ?", (*about, id))
        for (path, _), (id, state) in known.items():
            if id not in kept and state != REPLACED:
                now = GONE if path in missing else REPLACED
                db.execute("update pictures set state = ? where id = ?", (now, id))


def mark(database: Database, picture: str, state: str) -> None:
    """Store that a picture could not be shown, and why."""
    with database.writing() as db:
        db.execute(
            "update pictures set state = ? where id = ? and state = ?", (state, picture, HERE)
        )


def look_up(database: Database, picture: str) -> tuple[str, str, Stamp] | None:
    """Return the state, path and stamp of a picture; None for one that nobody knows."""
    with database.reading() as db:
        row = db.execute(
            "select state, path, size, changed from pictures where id = ?", (picture,)
        ).fetchone()
    return (row[0], row[1], (row[2], row[3])) if row else None


def pictures(database: Database) -> list[Picture]:
    """Return all pictures that are part of the project now, by path."""
    with database.reading() as db:
        query = (
            "select path, prompt, method, asked, gold, state from pictures where state != ? order"
            " by path"
        )
        rows = db.execute(query, (REPLACED,)).fetchall()
    return [
        Picture(path, prompt, method, bool(asked), gold, state)
        for path, prompt, method, asked, gold, state in rows
    ]
