"""Tar files as webdataset lays them out: images, with the caption and JSON that share their key."""

from __future__ import annotations

import tarfile
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from equipoise.errors import InputError

TEXTS = {"txt": "caption", "json": "json"}  # the suffix of a text -> its column


class Member(NamedTuple):
    """Where the bytes of an image lie."""

    tar: Path
    offset: int
    size: int


def read_index(
    tars: Sequence[Path], suffixes: set[str]
) -> tuple[list[dict[str, str]], list[Member]]:
    """Return a line for each image, and where its bytes lie; only headers and texts are read.

    A line has a path, and a caption and json where the file holds them.
    """
    lines, members = [], []
    for path in tars:
        images, said = _contents(path, suffixes)
        size = path.stat().st_size
        for key, info in images:
            if info.offset_data + info.size > size:
                raise InputError(
                    f"{path} is truncated: {info.name} ends after the file does; copy it again"
                )
            lines.append({"path": f"{path.name}/{info.name}", **said.get(key, {})})
            members.append(Member(path, info.offset_data, info.size))
    return lines, members


def _contents(
    path: Path, suffixes: set[str]
) -> tuple[list[tuple[str, tarfile.TarInfo]], dict[str, dict[str, str]]]:
    """Return the images of a tar file, each with its key; and key -> its caption and json."""
    images: list[tuple[str, tarfile.TarInfo]] = []
    said: dict[str, dict[str, str]] = {}
    try:
        with tarfile.open(path, "r:") as tar:
            for info in tar:
                if not info.isfile():
                    continue
                key, suffix = _key_of(info.name)
                if f".{suffix}" in suffixes:
                    images.append((key, info))
                elif suffix in TEXTS and (file := tar.extractfile(info)):
                    said.setdefault(key, {})[TEXTS[suffix]] = file.read().decode("utf-8", "replace")
            _check_end(path, tar.offset)
    except (tarfile.TarError, EOFError, OSError) as error:
        raise InputError(
            f"{path} is not a tar file, or a truncated one ({error}); copy it again, or unpack"
            " a compressed one"
        ) from None
    return images, said


def _key_of(name: str) -> tuple[str, str]:
    """Return what the files of one sample have in common, up to the first dot; and the rest."""
    folder, _, last = name.rpartition("/")
    key, _, suffix = last.partition(".")
    return f"{folder}/{key}", suffix.lower()


def _check_end(path: Path, offset: int) -> None:
    """Raise where tarfile stopped early: it takes whatever is no header for the end.

    An empty block is the end; what follows anything else would be lost.
    """
    with path.open("rb") as file:
        file.seek(offset)
        block = file.read(tarfile.BLOCKSIZE)
    if not block:
        warnings.warn(
            f"{path} lacks the empty blocks that end a tar file; if it is truncated, images are"
            " missing",
            stacklevel=2,
        )
    elif len(block) < tarfile.BLOCKSIZE or any(block):
        raise tarfile.ReadError(f"the block at byte {offset:,} is no header")


def read_members(members: Sequence[Member]) -> Iterator[bytes]:
    """Yield the bytes of each image when they are asked for."""
    file, opened = None, None
    try:
        for member in members:
            if opened != member.tar:
                if file is not None:
                    file.close()
                file, opened = member.tar.open("rb"), member.tar
            if file is not None:
                file.seek(member.offset)
                yield file.read(member.size)
    finally:
        if file is not None:
            file.close()
