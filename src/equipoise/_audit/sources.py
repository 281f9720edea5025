"""The photographs of an audit: a folder, a table, a store or an array of embeddings.

A table holds the paths of the pictures; a parquet table may hold the pictures themselves.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from equipoise import datasets
from equipoise._audit.results import ClassifierFigure
from equipoise._paths import is_below
from equipoise._stores import Store
from equipoise.datasets._dataset import existing
from equipoise.datasets._named import made_of, open_embeddings, read_dataset, require_apart, rows_of
from equipoise.errors import InputError

MANIFEST = "equipoise.json"
NAMES = ("name", "path", "file", "filename", "file_name", "id")


@dataclass(frozen=True)
class ImageSource:
    """Images, with what is known of each.

    table: a row per image, with the columns asked for. pictures: a path or bytes per image, None
    for each whose file is gone; None where there are only embeddings. embeddings: a store or an
    array, in the order of the table; None where the pictures must be encoded. generated: for
    pictures of people who do not exist, how often the classifier that named their groups is right
    on photographs, by column.
    """

    name: str
    table: Any
    pictures: list[Any] | None = None
    embeddings: Any = None
    dropped: dict[str, int] = field(default_factory=dict)
    generated: dict[str, ClassifierFigure] | None = None

    @property
    def names(self) -> list[str]:
        """Return the path of each image."""
        return [str(path) for path in self.table["path"]]


@dataclass(frozen=True)
class _Columns:
    """The columns that the user asked for."""

    label_column: str | None
    group_columns: Sequence[str]
    caption_column: str | None

    def given(self) -> list[str]:
        """Return the names that are given."""
        names = [*self.group_columns, self.label_column, self.caption_column]
        return [name for name in names if name is not None]


def read_images(
    images: Path,
    embeddings: Path | None = None,
    *,
    root: Path | None = None,
    label_column: str | None = None,
    group_columns: Sequence[str] = (),
    caption_column: str | None = None,
) -> ImageSource:
    """Return the images that a path names, with the columns asked for, one row per image.

    embeddings: a store or a .npy file that holds the rows of the images.
    """
    columns = _Columns(label_column, group_columns, caption_column)
    return one_row_per_image(_read(images, embeddings, root, columns))


def _read(
    images: Path, embeddings: Path | None, root: Path | None, columns: _Columns
) -> ImageSource:
    stored = None if embeddings is None else open_embeddings(embeddings)
    if holds_embeddings(images):
        if stored is not None:
            raise InputError(
                f"{images} holds embeddings already; pass a table or a folder of pictures with"
                " `embeddings`"
            )
        if images.suffix == ".npy":
            return _read_array(images, columns)
        return _read_store(images, columns)
    if not images.exists():
        raise InputError(
            f"there is no {images}; pass a folder of pictures, a .csv or .parquet table, a store's"
            " folder or a .npy file"
        )
    if images.is_dir():
        found = _read_folder(images, columns)
    else:
        picture_column = _picture_column(images) if images.suffix == ".parquet" else None
        if picture_column is not None:
            return _read_pictures(images, picture_column, columns, stored)
        found = datasets.table(
            images,
            images=root,
            label_column=columns.label_column,
            group_columns=columns.group_columns,
            caption_column=columns.caption_column,
            on_missing="keep",
        )
        if stored is None:
            _require_files(images, found.table["path"].tolist())
    return ImageSource(found.name, found.table, found.table["path"].tolist(), stored, found.dropped)


def one_row_per_image(source: ImageSource) -> ImageSource:
    """Return the source with each image once; raise where two rows of one image differ.

    An image is one file, whatever path names it. Rows that differ in their caption alone are one
    image with several captions, of which the first counts.
    """
    keys = [_file_key(name) for name in source.names]
    first: dict[str, int] = {}
    for place, key in enumerate(keys):
        first.setdefault(key, place)
    if len(first) == len(keys):
        return source
    about = source.table.drop(columns=["path", "caption"], errors="ignore").astype(str)
    for place, key in enumerate(keys):
        here, before = about.iloc[place], about.iloc[first[key]]
        for column in about.columns:
            if here[column] != before[column]:
                raise InputError(
                    f"{source.name} has rows of one image that differ: {source.names[place]} is"
                    f" {before[column]} and {here[column]} by {column}; an audit takes one row per"
                    " image. equipoise annotate export --consensus writes one answer per image"
                )
    kept = sorted(first.values())
    dropped = source.dropped | {"rows that repeat an image": len(keys) - len(kept)}
    return replace(
        source,
        table=source.table.iloc[kept].reset_index(drop=True),
        pictures=None if source.pictures is None else [source.pictures[i] for i in kept],
        embeddings=_rows_kept(source.embeddings, kept, len(keys)),
        dropped=dropped,
    )


def _file_key(name: str) -> str:
    """Return what is the same for all paths of one file."""
    return os.path.realpath(name) if os.path.exists(name) else os.path.normpath(name)


def _rows_kept(embeddings: Any, kept: list[int], count: int) -> Any:
    """Return the rows of an array that stand beside the kept ones; a store finds them by name."""
    if isinstance(embeddings, np.ndarray) and len(embeddings) == count:
        return embeddings[kept]
    return embeddings


def holds_embeddings(path: Path) -> bool:
    """Return whether a path is a store or an array of embeddings."""
    return path.suffix == ".npy" or (path / MANIFEST).is_file()


def rows(source: ImageSource, encoder: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the unit rows of the images that have one, and which images those are."""
    if source.embeddings is not None:
        found, there = rows_of(source.embeddings, source.names)
        found = found.load() if isinstance(found, Store) else np.asarray(found)
    else:
        found = np.asarray(encoder.encode_images(source.pictures))
        there = np.ones(len(source.table), bool)
    if found.dtype == np.float16:
        found = found.astype(np.float32)
    with np.errstate(invalid="ignore", divide="ignore"):
        norms = np.sqrt(np.einsum("ij,ij->i", found, found, dtype=np.float64))
    good = np.isfinite(norms) & (norms > 0)
    there[np.flatnonzero(there)[~good]] = False
    if not there.any():
        raise InputError(
            f"not one of the {len(there)} images of {source.name} can be read; the first is"
            f" {source.names[0]}"
        )
    return (found[good] / norms[good, None]).astype(found.dtype), there


def _read_folder(path: Path, columns: _Columns) -> datasets.Dataset:
    found = datasets.folder(path)
    missing = [name for name in columns.given() if name != "label"]
    if missing:
        raise InputError(
            f"{path} is a folder, which has no column {', '.join(missing)}, only label, the"
            " subfolder's name; write a csv with one row per image, and pass that"
        )
    return found


def _require_files(table: Path, paths: list[str]) -> None:
    there = existing(paths)
    gone = [path for path in paths if path not in there]
    if gone:
        raise InputError(
            f"{len(gone):,} of the {len(paths):,} images of {table} are missing, first {gone[0]};"
            " take out their rows, or name the folder that file names are relative to with `root`"
        )


def _read_array(path: Path, columns: _Columns) -> ImageSource:
    import pandas as pd

    if columns.given():
        raise InputError(
            f"{path} has no columns; pass the table as `images`, and {path} as `embeddings`"
        )
    stored = open_embeddings(path)
    if stored.ndim != 2 or not stored.size:
        raise InputError(
            f"{path} has shape {stored.shape}; pass embeddings with one row per image: (n, d)"
        )
    table = pd.DataFrame({"path": [str(i) for i in range(len(stored))]})
    return ImageSource(path.name, table, None, stored)


def _read_store(path: Path, columns: _Columns) -> ImageSource:
    stored = open_embeddings(path)
    found = read_dataset(
        None,
        embeddings=path,
        label_column=columns.label_column,
        group_columns=columns.group_columns,
        caption_column=columns.caption_column,
    )
    pictures = [picture_of(stored, name) for name in found.table["path"]]
    if not any(pictures):
        pictures = None
    return ImageSource(found.name, found.table, pictures, stored, found.dropped)


def picture_of(store: Store, name: str) -> str | None:
    """Return the path of a picture that a store names; None where the file is gone.

    Names are relative to what was embedded, and to nothing else.
    """
    if Path(store.manifest.source).is_dir() and not is_below(name):
        # only a table may name pictures elsewhere
        return None
    path = made_of(store) / name
    return str(path) if path.is_file() else None


def _picture_column(path: Path) -> str | None:
    """Return the column of a parquet file that holds the bytes of pictures."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        schema = pq.read_schema(path)
    except (OSError, pa.ArrowInvalid) as error:
        raise InputError(f"{path} cannot be read as parquet: {error}") from None
    for column in schema:
        if column.name in datasets.PATH_COLUMNS and _holds_bytes(column.type):
            return column.name
    return None


def _holds_bytes(kind: Any) -> bool:
    """Return whether a column's type is bytes, or the Hugging Face library's bytes and path."""
    import pyarrow as pa

    if pa.types.is_struct(kind):
        return kind.get_field_index("bytes") >= 0
    return pa.types.is_binary(kind) or pa.types.is_large_binary(kind)


def _read_pictures(path: Path, column: str, columns: _Columns, stored: Any) -> ImageSource:
    """Return the images of a parquet file that holds the pictures themselves."""
    import pandas as pd

    given = pd.read_parquet(path)
    missing = [name for name in columns.given() if name not in given.columns]
    if missing:
        raise InputError(
            f"{path} has no column {', '.join(missing)}; it has"
            f" {', '.join(map(str, given.columns))}"
        )
    require_apart(columns.group_columns, columns.label_column, columns.caption_column, path)
    if given.empty:
        raise InputError(f"{path} holds no pictures")
    found: dict[str, Iterable[Any]] = {"path": _names(given, column)}
    if columns.label_column is not None:
        found["label"] = given[columns.label_column]
    if columns.caption_column is not None:
        found["caption"] = given[columns.caption_column]
    for group_column in columns.group_columns:
        found[group_column] = given[group_column]
    pictures = [value["bytes"] if isinstance(value, dict) else value for value in given[column]]
    return ImageSource(path.stem, pd.DataFrame(found), pictures, stored)


def _names(table: Any, picture_column: str) -> Any:
    """Return the name of each row's picture, or its number where no column holds names."""
    for name in NAMES:
        if name in table.columns and name != picture_column:
            return table[name].astype(str)
    return [str(i) for i in range(len(table))]
