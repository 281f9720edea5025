"""Check a destination before long work. Nothing is overwritten unless it was asked for."""

from __future__ import annotations

from pathlib import Path

from equipoise._artefact import require_writable
from equipoise.errors import InputError


def require_free_file(path: Path, force: bool) -> None:
    """Raise if the file exists and ``force`` is off, or if it could not be written."""
    require_writable(path)
    if path.exists() and not force:
        raise InputError(f"{path} exists already; pass another `out`, or `force` to replace it")


def require_free_folder(folder: Path, force: bool, first_file: str) -> None:
    """Raise if the folder holds files and ``force`` is off, or if it could not be written to."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file; pass the name of a folder as `out`")
    occupied = folder.is_dir() and any(folder.iterdir())
    if occupied and not force:
        raise InputError(
            f"{folder} exists already and is not empty; pass another `out`, or `force` to replace"
            " the files of an earlier run"
        )
    require_writable(folder / first_file)
