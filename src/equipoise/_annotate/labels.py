"""What people said: one label per annotator and picture, and a history.

Each request stands in the history once.
"""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Iterable
from typing import NamedTuple

from equipoise._annotate.catalogue import HERE, REPLACED
from equipoise._annotate.database import PRIME, Database, now, number
from equipoise.errors import InputError


class ConflictError(InputError):
    """What is asked for is at odds with what was said before."""


class Turn(NamedTuple):
    """What an annotator sees, and how many pictures are answered and left.

    following: the picture after this one. Both are None where there is none.
    """

    picture: str | None
    prompt: str
    following: str | None
    answered: int
    left: int


class Label(NamedTuple):
    """One answer, as it is exchanged."""

    image: str
    annotator: str
    answer: str
    at: str


def turn(database: Database, annotator: str, first: str | None = None) -> Turn:
    """Return what comes next, in the annotator's own order.

    first: a picture to come before the others, if it is unanswered.
    """
    unanswered = (
        "from pictures where state = ? and id not in (select picture from labels where annotator"
        " = ?)"
    )
    mine = (
        "select count(*) from labels join pictures on picture = id where annotator = ? and state"
        " != ?"
    )
    with database.reading() as db:
        (factor,) = db.execute(
            "select factor from annotators where name = ?", (annotator,)
        ).fetchone()
        order = f"select id, prompt {unanswered} order by id != ?, place * ? % {PRIME}, id limit 2"
        upcoming = db.execute(order, (HERE, annotator, first or "", factor)).fetchall()
        (left,) = db.execute(f"select count(*) {unanswered}", (HERE, annotator)).fetchone()
        (answered,) = db.execute(mine, (annotator, REPLACED)).fetchone()
    (picture, prompt), (following, _) = [*upcoming, (None, ""), (None, "")][:2]
    return Turn(picture, prompt, following, answered, left)


def keep(database: Database, annotator: str, picture: str, answer: str, request: str) -> None:
    """Keep an answer; a later one to the same picture takes its place.

    The same request again changes nothing, however late it comes.
    """
    with database.writing() as db:
        _keep(db, annotator, picture, answer, request, now())


def undo(database: Database, annotator: str, request: str) -> str | None:
    """Take the last answer back, and return its picture.

    The picture is the same one when the request comes again.
    """
    with database.writing() as db:
        again = db.execute(
            "select picture, answer from history where annotator = ? and request = ?",
            (annotator, request),
        ).fetchone()
        if again:
            if again[1] is not None:
                raise ConflictError("this request was an answer, and cannot be an undo as well")
            return again[0]
        last = (
            "select picture from labels join pictures on picture = id where annotator = ? and state"
            " = ? order by entry desc limit 1"
        )
        (picture,) = db.execute(last, (annotator, HERE)).fetchone() or (None,)
        _enter(db, annotator, request, picture, None, now())
        db.execute("delete from labels where annotator = ? and picture = ?", (annotator, picture))
        return picture


def any_said(database: Database) -> bool:
    """Return whether there is an answer."""
    with database.reading() as db:
        return db.execute("select 1 from labels limit 1").fetchone() is not None


def said(database: Database, *, gold: bool = False) -> list[Label]:
    """Return the answers of the study by image and annotator, or those to gold questions.

    Answers to replaced pictures stay in the history.
    """
    query = f"""select path, annotator, answer, at from labels join pictures on picture = id
        where state != ? and {"gold is not null" if gold else "asked"} order by path, annotator"""
    with database.reading() as db:
        return [Label(*row) for row in db.execute(query, (REPLACED,))]


def add(database: Database, labels: Iterable[Label], replace: bool = False) -> int:
    """Add labels from elsewhere, all or none, and return how many were new.

    replace: they win over the project's own.
    """
    added = 0
    with database.writing() as db:
        ids = dict(
            db.execute("select path, id from pictures where state != ?", (REPLACED,)).fetchall()
        )
        for image, annotator, answer, at in labels:
            if image not in ids:
                raise InputError(
                    f"{image!r} is no picture of this project; it has {len(ids)}, such as"
                    f" {next(iter(ids), 'none')!r}"
                )
            db.execute(
                "insert or ignore into annotators values (?, null, ?)",
                (annotator, number(annotator)),
            )
            here = db.execute(
                "select answer from labels where annotator = ? and picture = ?",
                (annotator, ids[image]),
            ).fetchone()
            if here and here[0] != answer and not replace:
                raise ConflictError(
                    f"{annotator} said {here[0]!r} of {image}, and {answer!r} is given now; pass"
                    " `force` to take the new one"
                )
            if not here or here[0] != answer:
                _keep(db, annotator, ids[image], answer, f"import {secrets.token_urlsafe(12)}", at)
                added += 1
    return added


def _keep(
    db: sqlite3.Connection, annotator: str, picture: str, answer: str, request: str, at: str
) -> None:
    entry = _enter(db, annotator, request, picture, answer, at)
    if entry is not None:
        db.execute(
            "insert or replace into labels values (?, ?, ?, ?, ?)",
            (annotator, picture, answer, at, entry),
        )


def _enter(
    db: sqlite3.Connection,
    annotator: str,
    request: str,
    picture: str | None,
    answer: str | None,
    at: str,
) -> int | None:
    """Write a line of history and return its number; None where it exists already."""
    line = (annotator, request, picture, answer)
    entered = db.execute(
        "insert or ignore into history (annotator, request, picture, answer, at) values (?, ?, ?,"
        " ?, ?)",
        (*line, at),
    )
    if entered.rowcount:
        return entered.lastrowid
    there = db.execute(
        "select picture, answer from history where annotator = ? and request = ?",
        (annotator, request),
    ).fetchone()
    if there != (picture, answer):
        raise ConflictError("this request came before, with another picture or answer")
    return None
