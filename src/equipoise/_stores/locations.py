"""Places: a folder on this machine, or any that fsspec reaches (s3://, gs://, memory://), with
whole files in it or none.
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
WHOLE_ON_CLOSE = {
    "s3",
    "s3a",
    "gs",
    "gcs",
    "abfs",
    "abfss",
    "az",
}  # an object appears there when its upload is complete, and not before


class Place(ABC):
    """A folder; names are relative to it, with forward slashes."""

    @abstractmethod
    def glob(self, pattern: str) -> list[str]:
        """Names of files, 2 before 10; hidden ones left out."""

    @abstractmethod
    def is_file(self, name: str) -> bool:
        """Whether there is such a file."""

    @abstractmethod
    def stamp(self, name: str) -> tuple[int, str]:
        """Bytes, and what changes when the file does."""

    @abstractmethod
    def open(self, name: str) -> BinaryIO:
        """The file, to read and seek in."""

    @abstractmethod
    def writing(self, name: str) -> Any:
        """Context of a file to write from start to end; it appears under its name whole, or not at
        all.
        """

    @abstractmethod
    def remove(self, name: str) -> None:
        """No error where there is none."""

    @abstractmethod
    def absolute(self) -> str:
        """The one way to write where it is, so that places can be compared."""

    @abstractmethod
    def address(self) -> str:
        """What ``place`` takes; it may hold a password, which ``str`` of a place never does."""

    def read(self, name: str) -> bytes:
        """A small file."""
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
            found = [
                path.relative_to(self.folder).as_posix()
                for path in self.folder.glob(pattern)
                if path.is_file() or is_broken_link(path)
            ]
        except (ValueError, NotImplementedError) as error:
            raise InputError(
                f"{pattern!r} is not a pattern of names below {self.folder} ({error}); write for"
                " example 'emb/*.npy'"
            ) from None
        except OSError as error:
            raise InputError(
                f"{self.folder} cannot be read ({error.strerror}: {error.filename}); mend it, or"
                " pass another"
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
        return _in_order(
            [str(path)[start:] for path, about in found.items() if about["type"] == "file"]
        )

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
        part = (
            path
            if self.url.split("://")[0] in WHOLE_ON_CLOSE
            else f"{folder}/.{last}.{secrets.token_hex(4)}{PART}"
        )
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
        """What the file system says of its address, without the secrets in it."""
        try:
            yield
        except OSError as error:
            kind = FileNotFoundError if isinstance(error, FileNotFoundError) else OSError
            raise kind(hide_secrets(str(error), self.url)) from None
        except EquipoiseError:
            raise
        except Exception as error:  # each file system has errors of its own
            said = hide_secrets(f"{type(error).__name__}: {error}", self.url)
            raise ServiceError(f"{self} does not answer ({said}); mend the address") from None

    def __str__(self) -> str:
        return without_secrets(self.url)


def place(where: str | os.PathLike) -> Place:
    """The folder that a path or a URL names."""
    text = os.fspath(where).removeprefix("file://")
    return RemotePlace(text) if "://" in text else LocalPlace(Path(text))


def split(where: str | os.PathLike) -> tuple[Place, str]:
    """The folder of a file, and the file's name in it."""
    folder, _, name = os.fspath(where).rpartition("/")
    return place(folder or ("." if not os.fspath(where).startswith("/") else "/")), name


@contextmanager
def unwritable(what: str) -> Iterator[None]:
    """A full disk or a missing permission, in words."""
    try:
        yield
    except OSError as error:
        raise ArtefactError(
            f"{what} cannot be written ({error.strerror or error}); free some space or mend the"
            " place, then go on with `resume`"
        ) from None


def is_broken_link(path: Path) -> bool:
    """Whether it is a link to what is not there: named with the files, so that it is missed and not
    left out.
    """
    return path.is_symlink() and not path.exists()


def _in_order(names: list[str]) -> list[str]:
    shown = (name for name in names if not any(part.startswith(".") for part in name.split("/")))
    return sorted(
        shown,
        key=lambda name: [
            (int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)
        ],
    )
