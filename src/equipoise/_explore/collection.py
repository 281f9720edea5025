"""The photographs that are explored: their unit rows, and a picture and a name for each row."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from equipoise import _rows
from equipoise._audit.embedded_gallery import find_gallery, judged, read_gallery
from equipoise._audit.plan import columns_for
from equipoise._audit.sources import ImageSource, read_images, rows
from equipoise._paths import inside
from equipoise._stores import Store
from equipoise.datasets import Dataset
from equipoise.datasets._checks import check_encoder, groups_of
from equipoise.errors import InputError
from equipoise.geometry import limits
from equipoise.prompts._attribute import Attribute

LARGEST = 4 << 30  # bytes of stored rows that are read into memory; more stay on the disk
GALLERY = "gallery"  # in place of a path: the pictures that come with mini


@dataclass(frozen=True, eq=False)
class Collection:
    """Photographs to search.

    rows (n, d): unit rows, in memory or mapped. pictures: a path or bytes per row, None for each
    whose file is gone; None where there are only rows. folder: where the paths must lie, links
    followed; None for paths that a table names. table: what is known of each row, for ``labels``.
    """

    name: str
    rows: np.ndarray
    names: Sequence[str]
    pictures: Sequence[Any] | None = None
    folder: Path | None = None
    table: Any = None
    group_columns: tuple[str, ...] = ()
    generated: bool = False
    left_out: int = 0
    _labels: dict[str, np.ndarray | None] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def missing(self) -> int:
        """Return how many rows have lost the file of their picture."""
        return 0 if self.pictures is None else sum(one is None for one in self.pictures)

    def picture(self, row: int) -> Any:
        """Return what can be decoded for a row: bytes, or a path that lies where it must.

        Raises InputError for a row without a picture.
        """
        if self.pictures is None:
            raise InputError("there are only embeddings, and no pictures")
        found = self.pictures[row]
        if found is None:
            raise InputError(f"the file of {self.names[row]} is gone")
        if self.folder is not None and isinstance(found, str):
            return inside(self.folder, str(Path(found).relative_to(self.folder)))
        return found

    def labels(self, attribute: Attribute) -> np.ndarray | None:
        """Return the labelled group of each row, None where it is unknown; None without labels."""
        if attribute.name not in self._labels:
            self._labels[attribute.name] = self._read_labels(attribute)
        return self._labels[attribute.name]

    def _read_labels(self, attribute: Attribute) -> np.ndarray | None:
        if self.generated:
            columns = judged(attribute)
        else:
            columns = columns_for(attribute, self.group_columns)
        named = {column.replace("_", " ").lower() for column in columns}
        if not columns or named != {part.name.lower() for part in attribute.parts}:
            return None
        return groups_of(self.table, Dataset(self.name, self.table, columns), attribute)


def read_collection(
    images: Path | None,
    encoder: Any,
    *,
    embeddings: Path | None = None,
    root: Path | None = None,
    labels: Path | None = None,
    group_columns: Sequence[str] = (),
) -> Collection:
    """Return the photographs that a path names; those that come with mini where none does.

    labels: a table with one row per image, whose group columns say who is in it.
    """
    if images is None or (str(images) == GALLERY and not images.exists()):
        if labels is not None or embeddings is not None:
            raise InputError("`labels` and `embeddings` are about photographs; pass `images` too")
        source = read_gallery(find_gallery(), group_columns=group_columns)
    elif labels is not None:
        source = _read_labelled(images, labels, embeddings, group_columns)
    else:
        source = read_images(images, embeddings, root=root, group_columns=group_columns)
    check_encoder(encoder, source.embeddings)
    folder = images if images is not None and source.pictures and images.is_dir() else None
    if folder is not None and isinstance(source.embeddings, Store):
        folder = None  # its own manifest says where pictures lie, and was checked
    return _collected(source, encoder, folder, tuple(group_columns))


def collect_rows(index: np.ndarray, pictures: Sequence[Any] | None) -> Collection:
    """Return the collection of rows (n, d), with a path or bytes per row where there are some."""
    if index.ndim != 2 or not len(index) or index.dtype.kind != "f":
        raise InputError(
            f"the index holds {index.dtype} of shape {index.shape}; pass embeddings with one row"
            " per image: (n, d)"
        )
    if pictures is not None and len(pictures) != len(index):
        raise InputError(
            f"there are {len(index)} rows and {len(pictures)} pictures; pass one for each"
        )
    unit_rows = index
    if index.dtype != np.float32 or not _has_unit_rows(index):
        unit_rows = np.concatenate(list(_rows.unit_blocks(index))).astype(np.float32)
    if pictures is None:
        return Collection("rows", unit_rows, [str(i) for i in range(len(index))])
    names, paths = [], []
    for i, picture in enumerate(pictures):
        named = isinstance(picture, str | os.PathLike)
        names.append(Path(picture).name if named else str(i))
        paths.append(os.fspath(picture) if named else picture)
    return Collection("rows", unit_rows, names, paths)


def _read_labelled(
    images: Path, labels: Path, embeddings: Path | None, group_columns: Sequence[str]
) -> ImageSource:
    """Return the images of a folder or a store that a table of labels names."""
    if not group_columns:
        raise InputError(
            f"nothing says which columns of {labels} hold groups; pass `group_columns`, for example"
            " gender"
        )
    if (images / "equipoise.json").is_file() or images.suffix == ".npy":
        return read_images(labels, images, group_columns=group_columns)
    if not images.is_dir():
        raise InputError(
            f"{images} is not a folder of pictures or a store, which `labels` are about; a table"
            " has its labels in columns of its own: name them with `group_columns`"
        )
    return read_images(labels, embeddings, root=images, group_columns=group_columns)


def _collected(
    source: ImageSource, encoder: Any, folder: Path | None, group_columns: tuple[str, ...]
) -> Collection:
    found = _as_they_lie(source)
    if found is None:
        found, there = rows(source, encoder)
        lines = np.flatnonzero(there)
    else:
        lines = np.arange(len(found))
    whole = len(lines) == len(source.table)
    names = _shown_names(source, folder)
    pictures = source.pictures
    table = source.table
    if not whole:
        names = [names[i] for i in lines]
        pictures = None if pictures is None else [pictures[i] for i in lines]
        table = table.iloc[lines].reset_index(drop=True)
    return Collection(
        source.name if folder is None else folder.resolve().name,
        found,
        names,
        pictures,
        folder,
        table,
        group_columns,
        generated=source.generated is not None,
        left_out=len(source.table) - len(lines),
    )


def _shown_names(source: ImageSource, folder: Path | None) -> list[str]:
    """Return how each image is called on the page: its path in the folder, or its file's name."""
    if folder is None:
        return [Path(name).name for name in source.names]
    return [Path(name).relative_to(folder).as_posix() for name in source.names]


def _as_they_lie(source: ImageSource) -> np.ndarray | None:
    """Return stored rows without a copy of them; None where they must be made into unit rows."""
    stored = source.embeddings
    if isinstance(stored, Store):
        if len(stored) != len(source.table):
            return None
        shards = list(stored.shards())
        if len(shards) == 1:
            stored = shards[0]
        elif sum(shard.nbytes for shard in shards) <= LARGEST:
            stored = np.concatenate(shards)
        else:
            return None
    if stored is None or len(stored) != len(source.table) or stored.dtype != np.float32:
        return None
    return stored if _has_unit_rows(stored) else None


def _has_unit_rows(found: np.ndarray) -> bool:
    for block in _rows.blocks_of(found, _rows.BLOCK):
        lengths = np.einsum("ij,ij->i", block, block, dtype=np.float64)
        if not (np.abs(lengths - 1) <= limits("float32").unit).all():
            return False
    return True
