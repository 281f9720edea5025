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

from equipoise.errors import ArtefactError, InputError, MissingExtraError

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
        path = self.path(name)
        part = path.with_name(f".{path.name}.{secrets.token_hex(4)}{PART}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with part.open("wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, path)
        finally:
            part.unlink(missing_ok=True)

    def remove(self, name: str) -> None:
        self.path(name).unlink(missing_ok=True)

    def absolute(self) -> str:
        return str(self.folder.resolve())

    def __str__(self) -> str:
        return str(self.folder)


class RemotePlace(Place):
    """A folder of any file system that fsspec knows."""

    def __init__(self, url: str):
        self.url = url.rstrip("/")
        try:
            import fsspec
        except ImportError:
            raise MissingExtraError(f"reading {url}", "fsspec", "fsspec") from None
        try:
            self.system, self.root = fsspec.core.url_to_fs(self.url)
        except (ValueError, ImportError) as error:
            raise InputError(f"{url} cannot be reached through fsspec ({error})") from None

    def path(self, name: str) -> str:
        return f"{self.root.rstrip('/')}/{name}"

    def glob(self, pattern: str) -> list[str]:
        start = len(self.root.rstrip("/")) + 1
        self.system.invalidate_cache()
        found = self.system.glob(f"{escape(self.root.rstrip('/'))}/{pattern}", detail=True)
        return _in_order(
            [str(path)[start:] for path, about in found.items() if about["type"] == "file"]
        )

    def is_file(self, name: str) -> bool:
        return self.system.isfile(self.path(name))

    def stamp(self, name: str) -> tuple[int, str]:
        return int(self.system.size(self.path(name))), str(self.system.ukey(self.path(name)))

    def open(self, name: str) -> BinaryIO:
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
        file.close()
        if part != path:
            self.system.mv(part, path)

    def remove(self, name: str) -> None:
        if self.is_file(name):
            self.system.rm(self.path(name))

    def absolute(self) -> str:
        return f"{self.url.partition('://')[0]}://{self.root.strip('/')}"

    def __str__(self) -> str:
        return self.url


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
            " place, then go on with --resume"
        ) from None


def is_broken_link(path: Path) -> bool:
    """Whether it is a link to what is not there: named with the files, so that it is missed and not
    left out.
    """
    return path.is_symlink() and not path.exists()


def is_utf8(name: str) -> bool:
    """Whether a name can be written down: Python reads bytes that are not UTF-8 as surrogates."""
    return not any("\ud800" <= letter <= "\udfff" for letter in name)


def _in_order(names: list[str]) -> list[str]:
    shown = (name for name in names if not any(part.startswith(".") for part in name.split("/")))
    return sorted(
        shown,
        key=lambda name: [
            (int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)
        ],
    )
