"""Datasets and stored embeddings by name: known datasets, folders, tables and stores."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
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
    "fiftyone": datasets.fiftyone,
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
    # no picture is opened where embeddings are stored
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
        found = _known(name.lower(), root, one_person, on_missing)
        found = _chosen(found, label_column, group_columns)
        if name.lower() == "facet" and on_missing != "keep":
            return datasets.write_crops(found, crops or root / "crops")
        return found
    path = Path(name)
    if path.is_dir():
        return _of_folder(path, group_columns)
    if path.suffix not in TABLES:
        raise InputError(
            f"there is no dataset {name!r}; pass one of {', '.join(KNOWN)}, or a .csv, .tsv or"
            " .parquet table"
        )
    return datasets.table(
        path,
        images=root,
        path_column=path_column,
        label_column=label_column,
        group_columns=group_columns,
        caption_column=caption_column,
        on_missing=on_missing,
    )


def _known(name: str, root: Path, one_person: Path | None, on_missing: str) -> Dataset:
    if name == "flickr30k":
        return datasets.flickr30k(root, one_person=one_person, on_missing=on_missing)
    return KNOWN[name](root, on_missing=on_missing)


def _chosen(found: Dataset, label: str | None, groups: Sequence[str]) -> Dataset:
    """Return a known dataset with the label and groups that were asked for, if any."""
    for name in (label, *groups):
        if name is not None and name not in found.table.columns:
            raise InputError(
                f"{found.name} has no column {name}; it has"
                f" {', '.join(map(str, found.table.columns))}"
            )
    table = found.table
    if label is not None:
        table = table.assign(label=table[label])
    return replace(found, table=table, groups=tuple(groups) or found.groups)


def _of_folder(path: Path, groups: Sequence[str]) -> Dataset:
    """Return the images of a folder, whose subfolders are their groups."""
    if list(groups) != ["label"]:
        raise InputError(
            f"{path} is a folder, whose images have no groups. Write a csv with one row per image"
            f" and pass that, with `root` {path}; or, where its subfolders are the groups,"
            " pass `group_columns` label"
        )
    return replace(datasets.folder(path), groups=("label",))


def _of_store(
    store: Store, label: str | None, groups: Sequence[str], caption: str | None
) -> Dataset:
    """Return the images of a store, with the columns that were asked for."""
    table = store.metadata()
    asked = [name for name in (label, caption, *groups) if name is not None]
    missing = [name for name in asked if name not in table.columns]
    if missing:
        raise InputError(
            f"{store.folder} has no column {', '.join(missing)}; it has"
            f" {', '.join(map(str, table.columns))}"
        )
    require_apart(groups, label, caption, store.folder)
    path = _path_column(table)
    columns: dict[str, Iterable[Any]] = {}
    if path is None:
        columns["path"] = [str(i) for i in range(len(table))]
    else:
        columns["path"] = table[path].astype(str)
    if label is not None:
        columns["label"] = table[label]
    if caption is not None:
        columns["caption"] = table[caption]
    for group in groups:
        columns[group] = table[group]
    result = type(table)(columns).reset_index(drop=True)
    return Dataset(store.folder.name, result, tuple(groups), {"unreadable": len(store.skipped)})


def _path_column(table: Any) -> str | None:
    """Return the column that names the images."""
    return next((name for name in datasets.PATH_COLUMNS if name in table.columns), None)


def require_apart(
    groups: Sequence[str], label: str | None, caption: str | None, where: Path
) -> None:
    """Raise where a group column would take the place of the paths, labels or captions."""
    taken = {"path"}
    if label not in (None, "label"):
        taken.add("label")
    if caption not in (None, "caption"):
        taken.add("caption")
    clash = taken & set(groups)
    if clash:
        raise InputError(
            f"group columns may not be named {', '.join(sorted(clash))} beside these; rename them"
            f" in {where}"
        )


def open_embeddings(path: Path) -> Any:
    """Return a store, or the array of a .npy file with one row per image."""
    if path.is_dir():
        return open_store(path)
    if path.suffix != ".npy" or not path.is_file():
        raise InputError(
            f"{path} holds no embeddings; pass a store's folder (equipoise embed writes one) or a"
            " .npy file with one row per image"
        )
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read as .npy: {error}") from None


def rows_of(embeddings: Any, paths: list[str]) -> tuple[Any, np.ndarray]:
    """Return the rows of these images, and which of the images have one.

    An array is matched by position. A store is matched by the paths as they are written, by where
    the files lie, then by file name.
    """
    if not isinstance(embeddings, Store):
        check_array(embeddings, len(paths))
        return np.asarray(embeddings), np.ones(len(paths), bool)
    places = _places(embeddings, paths)
    there = places >= 0
    if not there.any():
        raise InputError(
            f"none of the {len(paths)} images is in {embeddings.folder}; embed this dataset,"
            " or pass another store"
        )
    if len(places) == len(embeddings) and (places == np.arange(len(places))).all():
        return embeddings, there
    return embeddings.load()[places[there]], there


def made_of(store: Store) -> Path:
    """Return the folder that the names in a store are relative to.

    That is the folder that was embedded, or the folder of the table that was.
    """
    source = Path(store.manifest.source)
    return source if source.is_dir() else source.parent


def check_array(embeddings: Any, images: int) -> None:
    """Raise unless there is one row per image."""
    rows = np.asarray(embeddings)
    if rows.ndim != 2 or rows.dtype.kind != "f" or len(rows) != images:
        raise InputError(
            f"the embeddings are {rows.dtype} of shape {rows.shape} and there are {images} images;"
            " pass one row per image, in order"
        )


def _places(store: Store, paths: list[str]) -> np.ndarray:
    """Return the row of each path in a store; -1 where it has none."""
    table = store.metadata()
    column = _path_column(table)
    if column is None:
        if len(paths) == len(store):
            return np.arange(len(paths))
        raise InputError(
            f"{store.folder} does not name its images and has {len(store)} rows for {len(paths)}"
            " images; embed the dataset again"
        )
    names = table[column].astype(str).tolist()
    base = made_of(store)
    as_written = _matched(names, paths)
    if (as_written >= 0).any():
        return as_written
    lying = [os.path.abspath(base / name) for name in names]
    by_place = _matched(lying, [os.path.abspath(path) for path in paths])
    if (by_place >= 0).any():
        return by_place
    names_of_files = [Path(name).name for name in names]
    wanted = [Path(path).name for path in paths]
    if len(set(names_of_files)) < len(names) or len(set(wanted)) < len(set(paths)):
        raise InputError(
            f"{store.folder} or the dataset has images of the same file name, and their paths are"
            " not the same; embed the dataset's table"
        )
    return _matched(names_of_files, wanted)


def _matched(names: list[str], wanted: list[str]) -> np.ndarray:
    """Return the place of each wanted name; -1 where it is not among the names."""
    places = {name: i for i, name in enumerate(names)}
    return np.array([places.get(name, -1) for name in wanted])
