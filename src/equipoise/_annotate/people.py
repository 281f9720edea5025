"""The annotators: the token in the link of each, and the sessions of browsers that came by it.

Of a token only a hash is kept.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time

from equipoise._annotate.database import Database, number
from equipoise.errors import InputError

REMEMBERED = 90 * 24 * 3600  # seconds that a browser knows its annotator
MOST_SESSIONS = 20  # of one annotator; the oldest ends when another begins
NAME = re.compile(r"\w[\w .@+-]{0,59}")


def names(database: Database, invited: bool = False) -> list[str]:
    """Return everyone who answers, here or elsewhere. invited: only those with a link."""
    with database.reading() as db:
        rows = db.execute(
            "select name from annotators where token is not null or not ? order by name",
            (invited,),
        )
        return [name for (name,) in rows]


def require_name(name: str) -> str:
    """Return the name; raise where it is not a legal one."""
    if not NAME.fullmatch(name):
        raise InputError(
            f"{name!r} is not a name; pass up to 60 letters, digits, spaces and . @ + - _,"
            " beginning with a letter or a digit"
        )
    return name


def invite(database: Database, name: str, renew: bool = False) -> str | None:
    """Return a token for someone who has none; None for someone who has.

    renew: a new one for them too. The old one opens nothing any more, and its sessions end.
    """
    require_name(name)
    with database.writing() as db:
        db.execute("insert or ignore into annotators values (?, null, ?)", (name, number(name)))
        (kept,) = db.execute("select token from annotators where name = ?", (name,)).fetchone()
        if kept and not renew:
            return None
        token = secrets.token_urlsafe(24)
        db.execute("update annotators set token = ? where name = ?", (_hash(token), name))
        db.execute("delete from sessions where annotator = ?", (name,))
        return token


def who(database: Database, token: str) -> str | None:
    """Return whose token it is; None where it is nobody's.

    It takes the same time in every case.
    """
    given, found = _hash(token), None
    with database.reading() as db:
        rows = db.execute("select name, token from annotators where token is not null").fetchall()
    for name, kept in rows:
        if hmac.compare_digest(kept, given):
            found = name
    return found


def begin_session(database: Database, name: str) -> str:
    """Return the token of a new session, which a browser keeps in place of the link's."""
    token, now = secrets.token_urlsafe(24), int(time.time())
    with database.writing() as db:
        db.execute("delete from sessions where began <= ?", (now - REMEMBERED,))
        db.execute(
            "delete from sessions where token in (select token from sessions where annotator = ?"
            " order by began desc limit -1 offset ?)",
            (name, MOST_SESSIONS - 1),
        )
        db.execute("insert into sessions values (?, ?, ?)", (_hash(token), name, now))
    return token


def whose_session(database: Database, token: str) -> str | None:
    """Return the annotator whose session it is; None where it has ended or never began."""
    with database.reading() as db:
        found = db.execute(
            "select annotator from sessions where token = ? and began > ?",
            (_hash(token), int(time.time()) - REMEMBERED),
        ).fetchone()
    return found[0] if found else None


def end_session(database: Database, token: str) -> None:
    """Make the token of a session worth nothing."""
    with database.writing() as db:
        db.execute("delete from sessions where token = ?", (_hash(token),))


def _hash(token: str) -> bytes:
    """Return the plain sha256: a token is 24 random bytes, which nobody guesses."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
