"""Tar files as webdataset lays them out: images, with the caption and JSON that share their key."""

from __future__ import annotations

import tarfile
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from equipoise.errors import InputError


class Member(NamedTuple):
    """Where the bytes of an image lie."""

    tar: Path
    offset: int
    size: int


def read_index(
    tars: Sequence[Path], suffixes: set[str]
) -> tuple[list[dict[str, Any]], list[Member]]:
    """Return a line for each image, and where its bytes lie; only headers and texts are read.

    A line has a path, and a caption and json where the file holds them.
    """
    lines, members = [], []
    for path in tars:
        said: dict[str, dict[str, Any]] = {}
        found: list[tuple[str, tarfile.TarInfo]] = []
        try:
            with tarfile.open(path, "r:") as tar:
                for info in tar:
                    folder, _, last = info.name.rpartition("/")
                    key, _, suffix = last.partition(".")
                    key = f"{folder}/{key}"
                    if not info.isfile():
                        continue
                    if f".{suffix.lower()}" in suffixes:
                        found.append((key, info))
                    elif suffix.lower() in ("txt", "json") and (file := tar.extractfile(info)):
                        name = "caption" if suffix.lower() == "txt" else "json"
                        said.setdefault(key, {})[name] = file.read().decode("utf-8", "replace")
                _check_end(path, tar.offset)
        except (tarfile.TarError, EOFError, OSError) as error:
            raise InputError(
                f"{path} is not a tar file, or a truncated one ({error}); copy it again, or unpack"
                " a compressed one"
            ) from None
        size = path.stat().st_size
        for key, info in found:
            if info.offset_data + info.size > size:
                raise InputError(
                    f"{path} is truncated: {info.name} ends after the file does; copy it again"
                )
            line = {"path": f"{path.name}/{info.name}"}
            line.update(said.get(key, {}))
            lines.append(line)
            members.append(Member(path, info.offset_data, info.size))
    return lines, members


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
