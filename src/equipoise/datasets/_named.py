"""What to evaluate on, from names and files: a known dataset, a folder, a table, a store's own
metadata; and stored embeddings.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from equipoise import datasets
from equipoise._stores import Store, open_store
from equipoise.datasets import Dataset
from equipoise.errors import InputError

KNOWN: dict[str, Callable[..., Dataset]] = {
    "celeba": datasets.celeba,
    "facet": datasets.facet,
    "flickr30k": datasets.flickr30k,
    "coco2017": datasets.coco2017,
    "fairface": datasets.fairface,
    "utkface": datasets.utkface,
    "waterbirds": datasets.waterbirds,
}
TABLES = (".csv", ".tsv", ".parquet", ".gz")


def read_dataset(
    name: str | None,
    root: Path | None = None,
    *,
    embeddings: Path | None = None,
    path_column: str | None = None,
    label_column: str | None = None,
    group_columns: Sequence[str] = (),
    caption_column: str | None = None,
    one_person: Path | None = None,
    crops: Path | None = None,
    on_missing: str = "raise",
) -> Dataset:
    """Return a known dataset, a csv or parquet table, a folder, or (name None) a store's metadata.

    root: the folder of a known dataset, or the one that a table's file names are relative to (its
    own by default).
    """
    on_missing = "keep" if embeddings is not None else on_missing
    if name is None:
        if embeddings is None:
            raise InputError(
                f"no dataset was given; pass one of {', '.join(KNOWN)}, a table, a folder, or a"
                " store with `embeddings`"
            )
        return _of_store(open_store(embeddings), label_column, group_columns, caption_column)
    if name.lower() in KNOWN:
        if root is None:
            raise InputError(f"{name} needs the folder it lies in; pass `root` FOLDER")
        options: dict[str, Any] = {"on_missing": on_missing}
        if name.lower() == "flickr30k":
            options["one_person"] = one_person
        found = _chosen(KNOWN[name.lower()](root, **options), label_column, group_columns)
        if name.lower() != "facet" or on_missing == "keep":  # no picture is opened then
            return found
        return datasets.write_crops(found, crops or root / "crops")
    path = Path(name)
    if path.is_dir():
        if list(group_columns) != ["label"]:
            raise InputError(
                f"{path} is a folder, whose images have no groups. Write a csv with a row an image"
                f" and pass that, with `root` {path}; or, where its subfolders are the groups,"
                " pass `group_columns` label"
            )
        return replace(datasets.folder(path), groups=("label",))
    if path.suffix not in TABLES:
        raise InputError(
            f"there is no dataset {name!r}; pass one of {', '.join(KNOWN)}, or a .csv, .tsv or"
            " .parquet table"
        )
    columns = {
        "path_column": path_column,
        "label_column": label_column,
        "group_columns": group_columns,
        "caption_column": caption_column,
    }
    return datasets.table(path, images=root, on_missing=on_missing, **columns)


def _chosen(found: Dataset, label: str | None, groups: Sequence[str]) -> Dataset:
    """A known dataset with other columns as label and groups than its usual ones."""
    if missing := [
        name for name in (label, *groups) if name is not None and name not in found.table.columns
    ]:
        raise InputError(
            f"{found.name} has no column {missing[0]}; it has"
            f" {', '.join(map(str, found.table.columns))}"
        )
    table = found.table if label is None else found.table.assign(label=found.table[label])
    return replace(found, table=table, groups=tuple(groups) or found.groups)


def _of_store(
    store: Store, label: str | None, groups: Sequence[str], caption: str | None
) -> Dataset:
    table = store.metadata()
    wanted = {"label": label, "caption": caption} | {name: name for name in groups}
    if missing := [
        name for name in wanted.values() if name is not None and name not in table.columns
    ]:
        raise InputError(
            f"{store.folder} has no column {', '.join(missing)}; it has"
            f" {', '.join(map(str, table.columns))}"
        )
    require_apart(groups, label, caption, store.folder)
    path = next((name for name in datasets.PATH_COLUMNS if name in table.columns), None)
    paths = table[path].astype(str) if path else [str(i) for i in range(len(table))]
    columns = {name: table[column] for name, column in wanted.items() if column is not None}
    result = type(table)({"path": paths, **columns})
    return Dataset(
        store.folder.name,
        result.reset_index(drop=True),
        tuple(groups),
        {"unreadable": len(store.skipped)},
    )


def require_apart(
    groups: Sequence[str], label: str | None, caption: str | None, where: Path
) -> None:
    """Raise where a group column would take the place of the paths, or of the column that was asked
    for as label or caption.
    """
    taken = {
        "path",
        *(
            name
            for name, column in (("label", label), ("caption", caption))
            if column not in (None, name)
        ),
    }
    if clash := taken & set(groups):
        raise InputError(
            f"group columns may not be named {', '.join(sorted(clash))} beside these; rename them"
            f" in {where}"
        )


def open_embeddings(path: Path) -> Any:
    """A store's folder, or a .npy file of one row an image."""
    if path.is_dir():
        return open_store(path)
    if path.suffix != ".npy" or not path.is_file():
        raise InputError(
            f"{path} holds no embeddings; pass a store's folder (equipoise embed writes one) or a"
            " .npy file, a row an image"
        )
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read as .npy: {error}") from None


def rows_of(embeddings: Any, paths: list[str]) -> tuple[Any, np.ndarray]:
    """The rows of these images, and which of the images have one; a store is matched by path as it
    is
    written, by where it lies, then by file name, an array by position."""
    if not isinstance(embeddings, Store):
        check_array(embeddings, len(paths))
        return np.asarray(embeddings), np.ones(len(paths), bool)
    places = _places(embeddings, paths)
    there = places >= 0
    if not there.any():
        raise InputError(
            f"none of the {len(paths)} images is in {embeddings.folder}; embed this very dataset,"
            " or pass another store"
        )
    if len(places) == len(embeddings) and (places == np.arange(len(places))).all():
        return embeddings, there
    return embeddings.load()[places[there]], there


def made_of(store: Store) -> Path:
    """The folder that the names in a store are relative to: what was embedded, or where its table
    lay.
    """
    source = Path(store.manifest.source)
    return source if source.is_dir() else source.parent


def check_array(embeddings: Any, images: int) -> None:
    """Raise unless there is a row for each image."""
    rows = np.asarray(embeddings)
    if rows.ndim != 2 or rows.dtype.kind != "f" or len(rows) != images:
        raise InputError(
            f"the embeddings are {rows.dtype} of shape {rows.shape} and there are {images} images;"
            " pass a row for each, in order"
        )


def _places(store: Store, paths: list[str]) -> np.ndarray:
    table = store.metadata()
    column = next((name for name in datasets.PATH_COLUMNS if name in table.columns), None)
    if column is None:
        if len(paths) == len(store):
            return np.arange(len(paths))
        raise InputError(
            f"{store.folder} does not name its images and has {len(store)} rows for {len(paths)}"
            " images; embed the dataset again"
        )
    names = table[column].astype(str).tolist()
    exact = {name: i for i, name in enumerate(names)}
    if any(path in exact for path in paths):
        return np.array([exact.get(path, -1) for path in paths])
    base, whole = made_of(store), [os.path.abspath(path) for path in paths]
    lying = {os.path.abspath(base / name): i for i, name in enumerate(names)}
    if any(path in lying for path in whole):
        return np.array([lying.get(path, -1) for path in whole])
    by_name = {Path(name).name: i for i, name in enumerate(names)}
    if len(by_name) < len(names) or len({Path(path).name for path in paths}) < len(set(paths)):
        raise InputError(
            f"{store.folder} or the dataset has images of the same file name, and their paths are"
            " not the same; embed the dataset's table"
        )
    return np.array([by_name.get(Path(path).name, -1) for path in paths])
