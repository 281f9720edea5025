"""The photographs of an audit: a folder, a table of paths, a parquet that holds the pictures, a
store, or an array of embeddings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from equipoise import datasets
from equipoise._paths import is_below
from equipoise._stores import Store
from equipoise.datasets._dataset import existing
from equipoise.datasets._named import made_of, open_embeddings, read_dataset, require_apart, rows_of
from equipoise.errors import InputError

MANIFEST = "equipoise.json"
NAMES = ("name", "path", "file", "filename", "file_name", "id")


@dataclass(frozen=True)
class ImageSource:
    """table: a line an image, with the columns asked for.

    pictures: what opens each, a path or bytes; None where there are only embeddings.

    embeddings: a store or an array, in the order of the table; None where the pictures must be
    encoded. generated: for pictures of nobody, how often the classifier that named their groups is
    right on photographs, by column.
    """

    name: str
    table: Any
    pictures: list[Any] | None = None
    embeddings: Any = None
    dropped: dict[str, int] = field(default_factory=dict)
    generated: dict[str, Any] | None = None

    @property
    def names(self) -> list[str]:
        return [str(path) for path in self.table["path"]]


def read_images(
    images: Path,
    embeddings: Path | None = None,
    *,
    root: Path | None = None,
    label_column: str | None = None,
    group_columns: Sequence[str] = (),
    caption_column: str | None = None,
) -> ImageSource:
    """What ``images`` names, with its columns; ``embeddings``: a store or .npy that holds the rows
    of a table's images.
    """
    stored = None if embeddings is None else open_embeddings(embeddings)
    columns = {
        "label_column": label_column,
        "group_columns": group_columns,
        "caption_column": caption_column,
    }
    if (images.is_dir() and (images / MANIFEST).is_file()) or images.suffix == ".npy":
        if stored is not None:
            raise InputError(
                f"{images} holds embeddings already; pass a table or a folder of pictures with"
                " `embeddings`"
            )
        return _stored(images, columns)
    if images.is_dir():
        found = datasets.folder(images)
        if asked := [
            name
            for name in (*group_columns, label_column, caption_column)
            if name not in (None, "label")
        ]:
            raise InputError(
                f"{images} is a folder, which has no column {', '.join(map(str, asked))}, only"
                " label, the subfolder's name; write a csv with a row an image, and pass that"
            )
    elif images.suffix == ".parquet" and (column := _picture_column(images)):
        return _inside(images, column, columns, stored)
    elif images.exists():
        found = datasets.table(images, images=root, on_missing="keep", **columns)
        if stored is None:
            _require_files(images, found.table["path"].tolist())
    else:
        raise InputError(
            f"there is no {images}; pass a folder of pictures, a .csv or .parquet table, a store's"
            " folder or a .npy file"
        )
    return ImageSource(found.name, found.table, found.table["path"].tolist(), stored, found.dropped)


def rows(source: ImageSource, encoder: Any) -> tuple[np.ndarray, np.ndarray]:
    """Unit rows of the images that have one, and which those are."""
    if source.embeddings is not None:
        found, there = rows_of(source.embeddings, source.names)
        found = found.load() if isinstance(found, Store) else np.asarray(found)
    else:
        found, there = (
            np.asarray(encoder.encode_images(source.pictures)),
            np.ones(len(source.table), bool),
        )
    found = found.astype(np.float32) if found.dtype == np.float16 else found
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


def _require_files(table: Path, paths: list[str]) -> None:
    there = existing(paths)
    if gone := [path for path in paths if path not in there]:
        raise InputError(
            f"{len(gone):,} of the {len(paths):,} images of {table} are not there, first {gone[0]};"
            " take out their rows, or name the folder that file names are relative to with `root`"
        )


def _stored(path: Path, columns: dict[str, Any]) -> ImageSource:
    if path.suffix == ".npy":
        import pandas as pd

        if any(columns.values()):
            raise InputError(
                f"{path} has no columns; pass the table as `images`, and {path} as `embeddings`"
            )
        stored = open_embeddings(path)
        if stored.ndim != 2 or not stored.size:
            raise InputError(
                f"{path} has shape {stored.shape}; pass embeddings, a row an image: (n, d)"
            )
        return ImageSource(
            path.name, pd.DataFrame({"path": [str(i) for i in range(len(stored))]}), None, stored
        )
    stored = open_embeddings(path)
    found = read_dataset(None, embeddings=path, **columns)
    paths = [_picture(stored, name) for name in found.table["path"]]
    return ImageSource(
        found.name,
        found.table,
        paths if all(path is not None for path in paths) else None,
        stored,
        found.dropped,
    )


def _picture(store: Store, name: str) -> str | None:
    """Where the picture of a store's line lies, if it is still there: names are relative to what
    was embedded, and to nothing else.
    """
    if Path(store.manifest.source).is_dir() and not is_below(name):
        return None  # only a table names pictures elsewhere
    path = made_of(store) / name
    return str(path) if path.is_file() else None


def _picture_column(path: Path) -> str | None:
    """The column of a parquet file that holds the bytes of pictures."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        schema = pq.read_schema(path)
    except (OSError, pa.ArrowInvalid) as error:
        raise InputError(f"{path} cannot be read as parquet: {error}") from None
    for column in schema:
        kind = column.type
        if column.name in datasets.PATH_COLUMNS and (
            pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or _is_struct(kind)
        ):
            return column.name
    return None


def _is_struct(kind: Any) -> bool:
    """As the Hugging Face library writes images: bytes and a path."""
    import pyarrow as pa

    return pa.types.is_struct(kind) and kind.get_field_index("bytes") >= 0


def _inside(path: Path, column: str, columns: dict[str, Any], stored: Any) -> ImageSource:
    import pandas as pd

    given = pd.read_parquet(path)
    wanted = {"label": columns["label_column"], "caption": columns["caption_column"]} | {
        name: name for name in columns["group_columns"]
    }
    if missing := [
        name for name in wanted.values() if name is not None and name not in given.columns
    ]:
        raise InputError(
            f"{path} has no column {', '.join(missing)}; it has"
            f" {', '.join(map(str, given.columns))}"
        )
    require_apart(
        columns["group_columns"], columns["label_column"], columns["caption_column"], path
    )
    name = next((name for name in NAMES if name in given.columns and name != column), None)
    names = given[name].astype(str) if name else [str(i) for i in range(len(given))]
    table = pd.DataFrame(
        {"path": names} | {key: given[value] for key, value in wanted.items() if value is not None}
    )
    pictures = [value["bytes"] if isinstance(value, dict) else value for value in given[column]]
    if not pictures:
        raise InputError(f"{path} holds no pictures")
    return ImageSource(path.stem, table, pictures, stored)
