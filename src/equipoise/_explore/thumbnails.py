"""Small pictures, made once and kept in the cache folder; large ones are made when asked for."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from equipoise._artefact import cache_folder, clear_torn, write_atomically
from equipoise.encoders._images import jpeg
from equipoise.errors import ArtefactError

SMALL, LARGE = 240, 1600  # pixels of the longest side
QUALITY = 88
LIMIT = 512 << 20  # bytes of small pictures that are kept
PRUNE_TO = 0.8  # of the limit, so that pruning is rare


def default_folder() -> Path:
    """Return where small pictures are kept."""
    return cache_folder() / "thumbnails"


class Thumbnails:
    """Small JPEGs by what they were made of: the bytes of a picture, or a file as it was then.

    Above ``limit`` bytes, those made longest ago are removed when the page starts.
    """

    def __init__(self, folder: Path | None = None, limit: int = LIMIT):
        self.folder = folder or default_folder()
        clear_torn(self.folder, "*/*.jpg")
        self._prune(limit)

    def small(self, picture: Any) -> bytes:
        """Return a small JPEG of a picture, kept or made now."""
        name = _digest(picture)
        path = self.folder / name[:2] / f"{name[2:]}.jpg"
        with suppress(OSError):
            return path.read_bytes()
        made = jpeg(picture, SMALL, QUALITY)
        with suppress(ArtefactError, OSError):  # a full disk costs time, and nothing else
            write_atomically(path, made)
        return made

    def _prune(self, limit: int) -> None:
        kept = sorted(_files(self.folder), key=lambda file: file[1].st_mtime_ns)
        size = sum(about.st_size for _, about in kept)
        if size <= limit:
            return
        for path, about in kept:
            if size <= PRUNE_TO * limit:
                return
            with suppress(OSError):
                path.unlink()
                size -= about.st_size


class ThumbnailUsage(NamedTuple):
    """How much disk space small pictures take."""

    path: str
    pictures: int
    bytes: int


def usage(folder: Path | None = None) -> ThumbnailUsage:
    """Return how many small pictures are kept, and how many bytes they take."""
    folder = folder or default_folder()
    sizes = [about.st_size for _, about in _files(folder)]
    return ThumbnailUsage(str(folder), len(sizes), sum(sizes))


def clear(folder: Path | None = None) -> int:
    """Remove all small pictures; return how many. They are made again when they are needed."""
    folder = folder or default_folder()
    clear_torn(folder, "*/*.jpg")
    removed = 0
    for path, _ in _files(folder):
        with suppress(OSError):
            path.unlink()
            removed += 1
    return removed


def large(picture: Any) -> bytes:
    """Return a JPEG of a picture that fills a screen."""
    return jpeg(picture, LARGE, QUALITY)


def _digest(picture: Any) -> str:
    if isinstance(picture, bytes):
        return hashlib.sha256(picture).hexdigest()
    about = os.stat(picture)
    told = f"{os.path.realpath(picture)}\0{about.st_size}\0{about.st_mtime_ns}\0{SMALL}"
    return hashlib.sha256(told.encode("utf-8", "surrogatepass")).hexdigest()


def _files(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    for path in folder.glob("*/*.jpg"):
        with suppress(OSError):
            yield path, path.stat()
