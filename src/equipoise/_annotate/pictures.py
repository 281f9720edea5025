"""The pictures of a folder: those that its manifest names, or all that lie in it.

A picture is shown without what its bytes tell of it.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from equipoise._artefact import NOT_WHOLE, parse_json
from equipoise._paths import inside, open_regular
from equipoise.datasets._table import SUFFIXES
from equipoise.encoders._images import UnreadableImageError, jpeg
from equipoise.errors import InputError

# One line per image, as ``equipoise generate`` writes it.
MANIFESTS = ("manifest.jsonl", "manifest.parquet")
LONGEST = 1600  # pixels of a side, as the page shows it
QUALITY = 95


class GoneError(InputError):
    """The file is not there any more, or holds something else now."""


@dataclass(frozen=True)
class ListedPicture:
    """A picture by its path in the folder, with what the manifest says of it."""

    path: str
    prompt: str = ""
    method: str = ""
    asked: bool = True  # part of the study, and not only a check of annotators
    gold: str | None = None


def find(
    folder: Path, prompts: Iterable[str] = (), gold: Mapping[str, str] | None = None
) -> list[ListedPicture]:
    """Return the pictures to label, in the order of their paths.

    prompts: only pictures of these prompts. gold: the known answers of some.
    """
    gold = gold or {}
    if not folder.is_dir():
        raise InputError(
            f"{folder} is not a folder; pass the folder of a run, or any folder of pictures"
        )
    manifest = next((folder / name for name in MANIFESTS if (folder / name).is_file()), None)
    if manifest is not None:
        found = _listed(folder, manifest, set(prompts), gold)
    elif set(prompts):
        raise InputError(
            f"{folder} has no {' or '.join(MANIFESTS)}, so nothing is known of prompts; leave"
            " `prompt` out"
        )
    else:
        found = _unlisted(folder, gold)
    for path, answer in gold.items():
        inside(folder, path)
        found.setdefault(path, ListedPicture(path, asked=False, gold=answer))
    return [found[path] for path in sorted(found)]


def _unlisted(folder: Path, gold: Mapping[str, str]) -> dict[str, ListedPicture]:
    """Return the pictures that lie in a folder, by path."""
    found = {}
    for path in _in_folder(folder):
        found[path] = ListedPicture(path, asked=path not in gold, gold=gold.get(path))
    return found


def _listed(
    folder: Path, manifest: Path, wanted: set[str], gold: Mapping[str, str]
) -> dict[str, ListedPicture]:
    """Return the pictures that a manifest names, by path; only those of the wanted prompts."""
    rows = _rows(manifest)
    known = {row.prompt for row in rows}
    unknown = sorted(wanted - known)
    if unknown:
        raise InputError(
            f"{manifest} has no picture of {unknown[0]!r}; its prompts are"
            f" {', '.join(sorted(known)[:10])}"
        )
    found = {}
    for row in rows:
        if not wanted or row.prompt in wanted:
            inside(folder, row.path)
            found[row.path] = ListedPicture(
                row.path, row.prompt, row.method, True, gold.get(row.path)
            )
    return found


def find_some(
    folder: Path, prompts: Iterable[str] = (), gold: Mapping[str, str] | None = None
) -> list[ListedPicture]:
    """Return what ``find`` returns; raise where it is nothing."""
    if not (found := find(folder, prompts, gold)):
        raise InputError(
            f"{folder} holds no picture ({', '.join(sorted(SUFFIXES))}), or only links that lead"
            " out of it"
        )
    return found


def has_manifest(folder: Path) -> bool:
    """Return whether a manifest lists the pictures; without one, all of the folder count."""
    return any((folder / name).is_file() for name in MANIFESTS)


def read(folder: Path, path: str, stamp: tuple[int, int]) -> bytes:
    """Return the file as it was when the project was last looked through.

    stamp: its size and time of change then.
    """
    try:
        with open_regular(inside(folder, path)) as file:
            if stamp_of(os.fstat(file.fileno())) != stamp:
                raise GoneError(f"{path} holds something else now")
            return file.read()
    except OSError as error:
        raise GoneError(f"{path} cannot be read ({error.strerror})") from None


def stamp_of(stat: os.stat_result) -> tuple[int, int]:
    """Return what changes when a file is written again."""
    return stat.st_size, stat.st_mtime_ns


def shown(data: bytes) -> bytes:
    """Return a JPEG of the pixels alone.

    Prompt and method, which a generated PNG carries in its text, are left out.
    """
    return jpeg(data, LONGEST, QUALITY)


def _in_folder(folder: Path) -> list[str]:
    paths = []
    for path in sorted(folder.rglob("*")):
        hidden = path.name.startswith(".")
        if path.suffix.lower() in SUFFIXES and path.is_file() and not hidden:
            paths.append(path.relative_to(folder).as_posix())
    inside = [path for path in paths if _is_inside(folder, path)]
    if left_out := len(paths) - len(inside):
        warnings.warn(
            f"{left_out} files are left out: links that lead out of {folder}, or names that are not"
            " UTF-8",
            stacklevel=2,
        )
    return inside


def _is_inside(folder: Path, path: str) -> bool:
    try:
        inside(folder, path)
    except InputError:
        return False
    return True


def _rows(manifest: Path) -> list[ListedPicture]:
    """Return the pictures of a manifest.

    Of several attempts at the picture of one method, prompt and number the last one counts.
    """
    lines = _parquet(manifest) if manifest.suffix == ".parquet" else _json_lines(manifest)
    latest: dict[tuple, tuple[int, ListedPicture]] = {}
    for line in lines:
        row = _picture_of(line, manifest)
        slot: tuple[str, ...] = (row.path,)
        if "number" in line:
            slot = (row.prompt, row.method, str(line["number"]))
        attempt = line["attempt"] if isinstance(line.get("attempt"), int) else 0
        if slot not in latest or latest[slot][0] <= attempt:
            latest[slot] = attempt, row
    return [row for _, row in latest.values()]


def _picture_of(line: Any, manifest: Path) -> ListedPicture:
    """Return the picture that a line of the manifest names."""
    image = line.get("image") if isinstance(line, dict) else None
    if not isinstance(image, str) or not image:
        raise InputError(
            f"a line of {manifest} has no image: {str(line)[:100]}; each line needs the path of"
            " its image in the folder"
        )
    return ListedPicture(image, str(line.get("prompt") or ""), str(line.get("method") or ""))


def _json_lines(manifest: Path) -> Iterable[Any]:
    try:
        lines = manifest.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{manifest} cannot be read ({error})") from None
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            yield parse_json(line, infinite=True)
        except ValueError as error:
            # The last line is being written, or was cut off by a kill: its run goes on from there.
            if number == len(lines):
                return
            raise InputError(f"line {number} of {manifest} is not JSON ({error})") from None


def _parquet(manifest: Path) -> Iterable[Any]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.read_table(manifest).to_pylist()
    except (OSError, pa.ArrowException, *NOT_WHOLE) as error:
        raise InputError(f"{manifest} cannot be read as parquet: {error}") from None


__all__ = [
    "GoneError",
    "ListedPicture",
    "UnreadableImageError",
    "find",
    "find_some",
    "has_manifest",
    "read",
    "shown",
    "stamp_of",
]
