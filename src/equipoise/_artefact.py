"""Files: arrays and metadata in one safetensors file, written atomically. Never pickle."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from equipoise._paths import RANDOM, open_regular, replacing
from equipoise.errors import ArtefactError, EquipoiseError

FORMAT = 1
_KEY = "equipoise"
_LARGEST = 2**64
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
# What reading a document that somebody changed may raise.
NOT_WHOLE = (
    KeyError,
    IndexError,
    TypeError,
    ValueError,
    AttributeError,
    ArithmeticError,
    RecursionError,
    MemoryError,
    StopIteration,
)


def save(
    path: str | os.PathLike[str],
    kind: str,
    arrays: Mapping[str, np.ndarray],
    metadata: Mapping[str, Any],
) -> None:
    """Write under a temporary name, flush to disk, then rename: the file is whole or absent."""
    from safetensors.numpy import save as to_bytes

    document = {"kind": kind, "format": FORMAT, **metadata}
    contiguous = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    data = to_bytes(contiguous, {_KEY: json.dumps(document, sort_keys=True)})
    write_atomically(Path(path), data)


def require_format(
    path: str | os.PathLike[str], version: int, newest: int, word: str = "format"
) -> None:
    """Raise for a file of a newer equipoise."""
    if version > newest:
        raise ArtefactError(
            f"{path} has {word} {version} and this equipoise reads up to {newest}; type: pip"
            " install -U equipoise"
        )


def parse_json(text: str | bytes, *, infinite: bool = False) -> Any:
    """Return what JSON holds; raise ValueError for what the rest of the package cannot take.

    That is text that is not JSON, is nested too deeply or holds half a character, and numbers
    beyond 64 bits. infinite: whether NaN and infinity are legal.
    """
    if isinstance(text, bytes):
        text = text.decode("utf-8")
    options: dict[str, Any] = {"parse_int": _whole}
    if not infinite:
        options.update(parse_float=_finite, parse_constant=_finite)
    try:
        found = json.loads(text, **options)
        if _SURROGATE.search(text):
            json.dumps(found, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return found


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is not a finite number")
    return number


def _whole(text: str) -> int:
    number = int(text)
    if abs(number) >= _LARGEST:
        raise ValueError(f"{text[:24]}... has more than 64 bits")
    return number


@contextmanager
def whole(path: str | os.PathLike[str], what: str, remedy: str) -> Iterator[None]:
    """Raise an ArtefactError in place of what a damaged or altered file makes its reader raise."""
    try:
        yield
    except EquipoiseError:
        raise
    except NOT_WHOLE as error:
        raise ArtefactError(
            f"{path} does not hold {what} ({error!r}); the file is damaged, so {remedy}"
        ) from None


def digest(arrays: Mapping[str, np.ndarray], metadata: Mapping[str, Any]) -> str:
    """Return a hash of arrays and metadata."""
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


def sha256(path: str | os.PathLike[str]) -> str:
    """Return the SHA-256 of a file's bytes."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_atomically(path: Path, data: bytes) -> None:
    """Write a whole file; a kill at any moment leaves the file that existed before.

    A link stays a link, and the file it leads to is replaced. Only regular files are replaced.
    """
    _write(path, data, keep=True)


def clear_torn(folder: Path, *patterns: str) -> None:
    """Remove the temporary files that kills left of files that would match."""
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
    try:
        with replacing(path, keep=keep) as file:
            file.write(data)
    except OSError as error:
        raise ArtefactError(
            f"{path} cannot be written ({error.strerror or error}); pass another place, or free"
            " some space"
        ) from None


def load(path: str | os.PathLike[str], kind: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Return the arrays and the metadata of a file that ``save`` wrote."""
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
        document = parse_json(metadata, infinite=True)  # kappa may be infinite
        found, version = str(document.pop("kind")), int(document.pop("format"))
    except NOT_WHOLE as error:
        raise ArtefactError(
            f"the metadata of {path} cannot be read ({error!r}); the file is damaged, so copy or"
            " fit it again"
        ) from None
    require_format(path, version, FORMAT)
    if found != kind:
        raise ArtefactError(
            f"{path} holds {_article(found)} {found}, and {_article(kind)} {kind} was asked for;"
            f" pass a file that {_article(kind)} {kind} was saved to"
        )
    return arrays, document


def _article(noun: str) -> str:
    return "an" if noun[:1] in "aeiou" else "a"
