"""Finding the files of a dataset, in the layouts they are distributed in, plain or gzipped."""

from __future__ import annotations

import gzip
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from equipoise.datasets._dataset import Frame
from equipoise.errors import InputError

Where = str | os.PathLike[str]
Choice = TypeVar("Choice")


def root_of(root: Where, name: str, download: str) -> Path:
    """Return the folder; raise unless it is one."""
    folder = Path(root)
    if not folder.is_dir():
        raise InputError(f"{name}: {folder} is not a folder. {download}")
    return folder


def find(root: Path, names: Sequence[str], name: str, download: str) -> Path:
    """Return the first of ``names`` that is under ``root``, plain or gzipped."""
    for candidate in names:
        for path in (root / candidate, root / f"{candidate}.gz"):
            if path.exists():
                return path
    raise InputError(f"{name}: none of {', '.join(names)} is in {root}. {download}")


def folder_of(root: Path, names: Sequence[str]) -> Path:
    """Return the first of ``names`` that is a folder under ``root``.

    Where none is, return the first name, because the images may not be needed.
    """
    for name in names:
        if (root / name).is_dir():
            return root / name
    return root / names[0]


def text(path: Path) -> str:
    """Return the text of a file, gzipped or not."""
    try:
        with opened(path) as file:
            return file.read()
    except UnicodeDecodeError as error:
        raise InputError(f"{path} cannot be read as text: {error}; save it as UTF-8") from None
    except (OSError, EOFError) as error:
        raise InputError(f"{path} cannot be read as text: {error}") from None


def opened(path: Path) -> Any:
    """Return a text file opened to read, gzipped or not, without its byte-order mark."""
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig")
    return open(path, encoding="utf-8-sig")


def csv(path: Path, columns: Sequence[str | int], **options: Any) -> Frame:
    """Return the table of a csv file; raise unless it has these columns."""
    import pandas as pd

    try:
        table = pd.read_csv(path, **options)
    except UnicodeDecodeError as error:
        raise InputError(f"{path} cannot be read as csv: {error}; save it as UTF-8") from None
    except (OSError, EOFError, ValueError) as error:
        raise InputError(f"{path} cannot be read as csv: {error}") from None
    missing = [column for column in columns if column not in table.columns]
    if missing:
        raise InputError(
            f"{path} has no column {', '.join(map(str, missing))}; it has"
            f" {', '.join(map(str, table.columns[:20]))}"
        )
    return table


def mapped(column: Frame, names: dict[Any, str], what: str) -> Frame:
    """Return codes as words; raise for a code that has no word."""
    strange = sorted(set(column.dropna()) - set(names), key=str)
    if strange:
        raise InputError(f"{what} holds {strange[:5]}; legal are {list(names)}")
    return column.map(names)


def require_once(names: Frame, path: Path) -> None:
    """Raise where an image has two rows, which may say different things."""
    twice = list(names[names.duplicated()])
    if twice:
        raise InputError(
            f"{path} has {len(twice)} rows of images that it had before, first {twice[0]}; keep"
            " one row per image"
        )


def chosen(wanted: Sequence[str], legal: Mapping[str, Choice], what: str) -> list[Choice]:
    """Return the values of the wanted names."""
    if isinstance(wanted, str) or not wanted or any(name not in legal for name in wanted):
        raise InputError(
            f"{what}={wanted!r} is not legal; pass one or more of {', '.join(legal)} in a tuple"
        )
    return [legal[name] for name in wanted]
