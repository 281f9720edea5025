"""Files: arrays and metadata in one safetensors file, written atomically, read back with clear
errors. Never pickle.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from equipoise.errors import ArtefactError

FORMAT = 1
RANDOM = 8  # bytes in a temporary name
_KEY = "equipoise"


def save(
    path: str | os.PathLike,
    kind: str,
    arrays: Mapping[str, np.ndarray],
    metadata: Mapping[str, Any],
) -> None:
    """Write under a temporary name, flush to disk, then rename: the file is whole or absent."""
    from safetensors.numpy import save as to_bytes

    document = {"kind": kind, "format": FORMAT, **metadata}
    data = to_bytes(
        {k: np.ascontiguousarray(v) for k, v in arrays.items()},
        {_KEY: json.dumps(document, sort_keys=True)},
    )
    write_atomically(Path(path), data)


def require_format(
    path: str | os.PathLike, version: int, newest: int, word: str = "format"
) -> None:
    """Raise for a file of a newer equipoise."""
    if version > newest:
        raise ArtefactError(
            f"{path} has {word} {version} and this equipoise reads up to {newest}; type: pip"
            " install -U equipoise"
        )


def digest(arrays: Mapping[str, np.ndarray], metadata: Mapping[str, Any]) -> str:
    """A hash that tells arrays and metadata from others."""
    parts = [json.dumps(metadata, sort_keys=True)]
    parts += [
        f"{name} {array.shape} {hashlib.sha256(np.ascontiguousarray(array).data).hexdigest()}"
        for name, array in sorted(arrays.items())
    ]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def cache_folder() -> Path:
    """Return the cache folder: EQUIPOISE_CACHE, or the one that the system keeps for programs."""
    given = os.environ.get("EQUIPOISE_CACHE")
    if given:
        return Path(given)
    from platformdirs import user_cache_path

    return user_cache_path("equipoise", appauthor=False)


def sha256(path: str | os.PathLike) -> str:
    """Of a file's bytes."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_atomically(path: Path, data: bytes) -> None:
    """The whole file or, after a kill at any moment, the one that was there before."""
    _write(path, data, keep=True)


def clear_torn(folder: Path, *patterns: str) -> None:
    """Remove what kills left of files that were being written atomically, and that would match."""
    for pattern in patterns:
        head, _, last = pattern.rpartition("/")
        for path in folder.glob(f"{head}/.{last}.{'[0-9a-f]' * 2 * RANDOM}"):
            path.unlink(missing_ok=True)


def require_writable(path: Path) -> None:
    """Raise now what ``write_atomically`` would raise later, after long work.

    Nothing stays behind.
    """
    made = [folder for folder in path.parents if not folder.exists()]
    try:
        _write(path, b"", keep=False)
    finally:
        for folder in made:
            with suppress(OSError):
                folder.rmdir()


def _write(path: Path, data: bytes, keep: bool) -> None:
    if path.is_dir():
        raise ArtefactError(f"{path} is a folder; pass the name of a file to write")
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(RANDOM)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if keep:
            os.replace(temporary, path)
    except OSError as error:
        raise ArtefactError(
            f"{path} cannot be written ({error.strerror or error}); pass another place, or free"
            " some space"
        ) from None
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def load(path: str | os.PathLike, kind: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays and the metadata of a file that ``save`` wrote."""
    from safetensors import SafetensorError, safe_open

    path = Path(path)
    if path.is_dir():
        raise ArtefactError(f"{path} is a folder; pass the file in it")
    if not path.is_file():
        raise ArtefactError(
            f"there is no file {path}; check the path, or fit and save {_article(kind)} {kind}"
            " first"
        )
    try:
        with safe_open(path, framework="np") as file:
            metadata = (file.metadata() or {}).get(_KEY)
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, ValueError, OSError) as error:
        raise ArtefactError(
            f"{path} is not a safetensors file, or a truncated one ({error}); pass another, or copy"
            " or fit it again"
        ) from None
    if metadata is None:
        raise ArtefactError(
            f"{path} is a safetensors file, but equipoise did not write it; pass a file that"
            f" {_article(kind)} {kind} was saved to"
        )
    try:
        document = json.loads(metadata)
        found, version = str(document.pop("kind")), int(document.pop("format"))
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise ArtefactError(
            f"the metadata of {path} cannot be read ({error!r}); the file is damaged, so copy or"
            " fit it again"
        ) from None
    require_format(path, version, FORMAT)
    if found != kind:
        raise ArtefactError(
            f"{path} holds {_article(found)} {found}, and {_article(kind)} {kind} was asked for"
        )
    return arrays, document


def _article(noun: str) -> str:
    return "an" if noun[:1] in "aeiou" else "a"
