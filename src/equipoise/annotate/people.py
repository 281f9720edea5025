"""The annotators, and the token by which each is known. Of a token only a hash is kept."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets

from equipoise.annotate.database import Database, number
from equipoise.errors import InputError

NAME = re.compile(r"\w[\w .@+-]{0,59}")


def names(database: Database, invited: bool = False) -> list[str]:
    """Everyone who answers, here or elsewhere. invited: only those with a link."""
    with database.reading() as db:
        return [
            name
            for (name,) in db.execute(
                "select name from annotators where token is not null or not ? order by name",
                (invited,),
            )
        ]


def require_name(name: str) -> str:
    """The name, once it is one."""
    if not NAME.fullmatch(name):
        raise InputError(
            f"{name!r} is not a name; pass up to 60 letters, digits, spaces and . @ + - _,"
            " beginning with a letter or a digit"
        )
    return name


def invite(database: Database, name: str, renew: bool = False) -> str | None:
    """A token for someone who has none; None for someone who has.

    renew: a new one, and the old one opens nothing any more.
    """
    require_name(name)
    with database.writing() as db:
        db.execute("insert or ignore into annotators values (?, null, ?)", (name, number(name)))
        (kept,) = db.execute("select token from annotators where name = ?", (name,)).fetchone()
        if kept and not renew:
            return None
        token = secrets.token_urlsafe(24)
        db.execute("update annotators set token = ? where name = ?", (_hash(token), name))
        return token


def who(database: Database, token: str) -> str | None:
    """Whose token it is. Takes the same time whoever's it is, and if it is nobody's."""
    given, found = _hash(token), None
    with database.reading() as db:
        rows = db.execute("select name, token from annotators where token is not null").fetchall()
    for name, kept in rows:
        if hmac.compare_digest(kept, given):
            found = name
    return found


def _hash(token: str) -> bytes:
    """Plain sha256: a token is 24 random bytes, which nobody guesses."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
