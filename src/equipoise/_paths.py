"""The check of paths that all readers and writers share: what may be read, written and printed.

A file may name only files below its own folder. Links are followed first, so a link that leads out
of the folder is refused, while the folder itself may be a link.

Two kinds of folder may hold such links. A model folder names plain files beside it, and the hub's
cache is made of links. A folder of pictures that was embedded is the user's own, links and all. A
table on the command line is the user's own too, and may name files anywhere.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path, PurePosixPath
from typing import BinaryIO
from urllib.parse import unquote

from equipoise.errors import ArtefactError, InputError

TAKEN = "a folder of pictures, a .csv or .parquet table, a store or a .npy file"
RANDOM = 8  # bytes in a temporary name
HIDDEN = "***"
LONGEST = 255  # bytes of a file's name
_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)
_NO_WAIT = getattr(os, "O_NONBLOCK", 0)
_BINARY = getattr(os, "O_BINARY", 0)
_SCHEME = re.compile(r"[A-Za-z][\w+.-]*:/{1,3}")
_PLAIN = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^:/\[\]]*)(:\d{1,5})?(?=[/#]|$)[^:]*$")
_ASSIGNED = re.compile(
    r"(?i)\b((?:ssl)?(?:password|passwd|pwd|secret|token)\s*=\s*)('[^']*'|[^\s&]+)"
)


def inside(folder: str | os.PathLike[str], name: str) -> Path:
    """Return the path of a file that another file names; raise unless it is inside the folder."""
    there = _followed(Path(folder), name) if is_below(name) else None
    if there is None:
        raise InputError(
            f"{name!r} is not inside {folder}, links followed; a file may name only files of its"
            " own folder"
        )
    return there


def is_below(name: str) -> bool:
    """Return whether a name, without following links, is that of a file below some folder."""
    pure = PurePosixPath(name)
    if not pure.parts or pure.is_absolute() or ".." in pure.parts or not is_utf8(name):
        return False
    return all(len(part.encode()) <= LONGEST for part in pure.parts)


def _followed(folder: Path, name: str) -> Path | None:
    try:
        root = os.path.realpath(folder)
        there = os.path.realpath(folder / name)
        if there == root or os.path.commonpath([root, there]) != root:
            return None
    except (OSError, ValueError):  # a name that no file can have; another drive
        return None
    return Path(there)


def is_utf8(name: str) -> bool:
    """Return whether a name can be written as UTF-8.

    Python reads bytes that are not UTF-8 as surrogates, which cannot be written.
    """
    return not any("\ud800" <= letter <= "\udfff" for letter in name)


def kind_of(mode: int) -> str:
    """Return in words what a file of this mode is; "" for a regular file."""
    if stat.S_ISREG(mode):
        return ""
    return next((words for fits, words in _KINDS if fits(mode)), "no regular file")


def open_regular(path: str | os.PathLike[str]) -> BufferedReader:
    """Open a file to read; raise OSError for other than regular files, which might never end."""
    _require_regular(os.stat(path), path)  # opening a device may already do something
    descriptor = os.open(path, os.O_RDONLY | _NO_WAIT | _BINARY)
    file = os.fdopen(descriptor, "rb")
    try:
        _require_regular(os.fstat(descriptor), path)
    except OSError:
        file.close()
        raise
    return file


def _require_regular(found: os.stat_result, path: str | os.PathLike[str]) -> None:
    kind = kind_of(found.st_mode)
    if kind:
        raise OSError(errno.EINVAL, f"{kind} and not a regular file", os.fspath(path))


def target_of(path: Path) -> Path:
    """Return the file to write, which a link may lead to; raise where it is not a regular file."""
    target = Path(os.path.realpath(path))
    try:
        kind = kind_of(target.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return target
    if kind:
        raise ArtefactError(f"{path} is {kind}; pass the name of a file to write")
    return target


@contextmanager
def replacing(path: Path, ending: str = "", *, keep: bool = True) -> Iterator[BinaryIO]:
    """Open a file to write from start to end; it gets its name when it is whole, or never.

    The temporary file lies beside the one it replaces, and ``ending`` ends its name. A link stays a
    link. keep: False tries whether a file could be written, and leaves nothing.
    """
    target = target_of(path)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(RANDOM)}{ending}")
    target.parent.mkdir(parents=True, exist_ok=True)
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | _BINARY
    try:
        with open(os.open(temporary, flags, 0o666), "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if keep:
            os.replace(temporary, target)
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def open_part(path: Path) -> int:
    """Return a descriptor to write at any place of a temporary file of a known name.

    Somebody else may have put a link or a FIFO there: those are refused.
    """
    flags = os.O_CREAT | os.O_WRONLY | _NO_WAIT | _BINARY | getattr(os, "O_NOFOLLOW", 0)
    descriptor = os.open(path, flags, 0o666)
    try:
        _require_regular(os.fstat(descriptor), path)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def add_to(path: Path, data: bytes) -> None:
    """Add to the end of a file; the bytes are on the disk when this returns."""
    target = target_of(path)
    flags = os.O_CREAT | os.O_APPEND | os.O_WRONLY | _NO_WAIT | _BINARY
    with open(os.open(target, flags, 0o666), "ab") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def without_secrets(address: str | os.PathLike[str]) -> str:
    """Return an address as it may be printed and kept: no user, no password, no query.

    Whatever stands before the last @ is hidden: in a malformed address any of it may belong to the
    password.
    """
    text = os.fspath(address)
    scheme, rest = _split_scheme(text)
    if scheme:
        text = scheme + _shown_rest(rest)
    elif re.search(":.*@", text):  # an address whose scheme is missing or mistyped
        text = f"{HIDDEN}@{text.rpartition('@')[2]}"
    return _ASSIGNED.sub(rf"\1{HIDDEN}", text)


def _split_scheme(address: str) -> tuple[str, str]:
    found = _SCHEME.search(address)
    if found is None:
        return "", address
    return address[: found.end()], address[found.end() :]


def _split_query(rest: str) -> tuple[str, str]:
    head, _, query = rest.partition("?")
    if "=" in query:
        return head, query
    return rest, ""


def _shown_rest(rest: str) -> str:
    head, query = _split_query(rest)
    _, at, after = head.rpartition("@")
    if at:
        shown = f"{HIDDEN}@{after}"
    elif ":" in head and not _PLAIN.match(head):  # a password without a host looks like a port
        shown = f"{head.partition(':')[0]}:{HIDDEN}"
    else:
        shown = head
    return f"{shown}?{HIDDEN}" if query else shown


def hide_secrets(text: str, address: str | os.PathLike[str]) -> str:
    """Return a message about an address, without the secrets that the address holds."""
    given = os.fspath(address)
    text = text.replace(given, without_secrets(given))
    for secret in sorted(_secrets(given), key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return text


def _secrets(address: str) -> set[str]:
    _, rest = _split_scheme(address)
    head, query = _split_query(rest)
    user, colon, password = head.rpartition("@")[0].partition(":")
    pieces = [password, *re.split("[:@/?#&]", password)] if colon else [user]
    pieces += [part.partition("=")[2] for part in query.split("&")]
    pieces += [value for _, value in _ASSIGNED.findall(address)]
    if "@" not in head and not _PLAIN.match(head):
        pieces.append(head.partition(":")[2])
    forms = {*pieces, *map(unquote, pieces)}
    return {form for form in forms if len(form) > 2}


def path_of(given: object, name: str, legal: str = TAKEN) -> Path:
    """Return a path that a user typed; raise for what is none, with what to do about it."""
    if isinstance(given, str | os.PathLike):
        return Path(given)
    kind = type(given).__name__
    advice = ""
    if hasattr(given, "to_parquet"):
        advice = "; a table is written by frame.to_parquet(path)"
    elif isinstance(given, list | tuple):
        advice = "; write the pictures into a folder, or encode them by encoder.encode_images"
    raise InputError(f"`{name}` is of type {kind}; pass the path of {legal}{advice}")
