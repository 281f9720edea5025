"""Places: a folder on this machine, or any that fsspec reaches (s3://, gs://, memory://).

A file in a place is whole, or does not exist.
"""

from __future__ import annotations

import os
import re
import secrets
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from glob import escape
from pathlib import Path
from typing import Any, BinaryIO

from equipoise._paths import hide_secrets, replacing, without_secrets
from equipoise.errors import (
    ArtefactError,
    EquipoiseError,
    InputError,
    MissingExtraError,
    ServiceError,
)

PART = ".part"  # ends the temporary name of a file that is being written
# Here an object appears when its upload is complete, and not before.
WHOLE_ON_CLOSE = {"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az"}


class Place(ABC):
    """A folder; names are relative to it, with forward slashes."""

    @abstractmethod
    def glob(self, pattern: str) -> list[str]:
        """Return the names of files, 2 before 10, without hidden ones."""

    @abstractmethod
    def is_file(self, name: str) -> bool:
        """Return whether there is such a file."""

    @abstractmethod
    def stamp(self, name: str) -> tuple[int, str]:
        """Return how many bytes a file has, and a mark that changes when the file does."""

    @abstractmethod
    def open(self, name: str) -> BinaryIO:
        """Open a file to read and seek in."""

    @abstractmethod
    def writing(self, name: str) -> Any:
        """Return the context of a file to write from start to end.

        The file appears under its name whole, or not at all.
        """

    @abstractmethod
    def remove(self, name: str) -> None:
        """Remove a file; do nothing where there is none."""

    @abstractmethod
    def absolute(self) -> str:
        """Return the one way to write where the place is, so that places can be compared."""

    @abstractmethod
    def address(self) -> str:
        """Return what ``place`` takes; it may hold a password, which ``str`` of a place hides."""

    def read(self, name: str) -> bytes:
        """Return the bytes of a small file."""
        with self.open(name) as file:
            return file.read()


class LocalPlace(Place):
    """A folder on this machine."""

    def __init__(self, folder: Path):
        self.folder = folder

    def path(self, name: str) -> Path:
        return self.folder / name

    def glob(self, pattern: str) -> list[str]:
        try:
            found = []
            for path in self.folder.glob(pattern):
                if path.is_file() or is_broken_link(path):
                    found.append(path.relative_to(self.folder).as_posix())
        except (ValueError, NotImplementedError) as error:
            raise InputError(
                f"{pattern!r} is not a pattern of names below {self.folder} ({error}); write for"
                " example 'emb/*.npy'"
            ) from None
        except OSError as error:
            raise InputError(
                f"{self.folder} cannot be read ({error.strerror}: {error.filename}); make it"
                " readable, or pass another"
            ) from None
        return _in_order(found)

    def is_file(self, name: str) -> bool:
        return self.path(name).is_file()

    def stamp(self, name: str) -> tuple[int, str]:
        info = self.path(name).stat()
        return info.st_size, str(info.st_mtime_ns)

    def open(self, name: str) -> BinaryIO:
        return self.path(name).open("rb", buffering=0)  # pyright: ignore[reportReturnType]

    @contextmanager
    def writing(self, name: str) -> Iterator[BinaryIO]:
        with replacing(self.path(name), PART) as file:
            yield file

    def remove(self, name: str) -> None:
        self.path(name).unlink(missing_ok=True)

    def absolute(self) -> str:
        return str(self.folder.resolve())

    def address(self) -> str:
        return str(self.folder)

    def __str__(self) -> str:
        return str(self.folder)


class RemotePlace(Place):
    """A folder of any file system that fsspec knows."""

    def __init__(self, url: str):
        self.url = url.rstrip("/")
        try:
            import fsspec
        except ImportError:
            raise MissingExtraError(f"reading {self}", "fsspec", "fsspec") from None
        try:
            self.system, self.root = fsspec.core.url_to_fs(self.url)
        except Exception as error:  # each file system has errors of its own
            said = hide_secrets(str(error), self.url)
            raise InputError(f"{self} cannot be reached through fsspec ({said})") from None

    def path(self, name: str) -> str:
        return f"{self.root.rstrip('/')}/{name}"

    def glob(self, pattern: str) -> list[str]:
        start = len(self.root.rstrip("/")) + 1
        with self._answering():
            self.system.invalidate_cache()
            found = self.system.glob(f"{escape(self.root.rstrip('/'))}/{pattern}", detail=True)
        files = [str(path) for path, about in found.items() if about["type"] == "file"]
        return _in_order([path[start:] for path in files])

    def is_file(self, name: str) -> bool:
        with self._answering():
            return self.system.isfile(self.path(name))

    def stamp(self, name: str) -> tuple[int, str]:
        path = self.path(name)
        with self._answering():
            return int(self.system.size(path)), str(self.system.ukey(path))

    def open(self, name: str) -> BinaryIO:
        with self._answering():
            return self.system.open(self.path(name), "rb")

    @contextmanager
    def writing(self, name: str) -> Iterator[BinaryIO]:
        path = self.path(name)
        folder, _, last = path.rpartition("/")
        part = path
        if self.url.split("://")[0] not in WHOLE_ON_CLOSE:
            part = f"{folder}/.{last}.{secrets.token_hex(4)}{PART}"
        with self._answering():
            self.system.makedirs(folder, exist_ok=True)
            file = self.system.open(part, "wb")
        try:
            yield file
        except BaseException:
            getattr(file, "discard", lambda: None)()  # drops an upload that is not complete
            if part != path:
                file.close()
                self.system.rm(part)
            raise
        with self._answering():
            file.close()
            if part != path:
                self.system.mv(part, path)

    def remove(self, name: str) -> None:
        if self.is_file(name):
            self.system.rm(self.path(name))

    def absolute(self) -> str:
        return f"{self.url.partition('://')[0]}://{self.root.strip('/')}"

    def address(self) -> str:
        return self.url

    @contextmanager
    def _answering(self) -> Iterator[None]:
        """Raise what the file system says of its address, without the secrets in it."""
        try:
            yield
        except OSError as error:
            kind = FileNotFoundError if isinstance(error, FileNotFoundError) else OSError
            raise kind(hide_secrets(str(error), self.url)) from None
        except EquipoiseError:
            raise
        except Exception as error:  # each file system has errors of its own
            said = hide_secrets(f"{type(error).__name__}: {error}", self.url)
            raise ServiceError(f"{self} does not answer ({said}); correct the address") from None

    def __str__(self) -> str:
        return without_secrets(self.url)


def place(where: str | os.PathLike[str]) -> Place:
    """Return the folder that a path or a URL names."""
    text = os.fspath(where).removeprefix("file://")
    if "://" in text:
        return RemotePlace(text)
    return LocalPlace(Path(text))


def split(where: str | os.PathLike[str]) -> tuple[Place, str]:
    """Return the folder of a file, and the file's name in it."""
    folder, slash, name = os.fspath(where).rpartition("/")
    if not folder:
        folder = slash or "."
    return place(folder), name


@contextmanager
def unwritable(what: str) -> Iterator[None]:
    """Raise an ArtefactError where a disk is full or a permission is missing."""
    try:
        yield
    except OSError as error:
        raise ArtefactError(
            f"{what} cannot be written ({error.strerror or error}); free some space, or allow"
            " writing there, then go on with `resume`"
        ) from None


def is_broken_link(path: Path) -> bool:
    """Return whether a path is a link to nothing.

    Such a link is listed with the files, so that a reader raises for it and does not skip it.
    """
    return path.is_symlink() and not path.exists()


def _in_order(names: list[str]) -> list[str]:
    shown = [name for name in names if not _is_hidden(name)]
    return sorted(shown, key=_with_numbers)


def _is_hidden(name: str) -> bool:
    return any(part.startswith(".") for part in name.split("/"))


def _with_numbers(name: str) -> list[tuple[int, str]]:
    """Return a key that sorts numbers in names by their value."""
    key = []
    for part in re.split(r"(\d+)", name):
        if part.isdecimal():
            key.append((int(part), ""))
        else:
            key.append((-1, part))
    return key
