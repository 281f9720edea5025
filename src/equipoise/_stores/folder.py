"""A store in a folder: shards of .npy beside parquet metadata, as clip-retrieval lays them out.

img_emb/img_emb_00000.npy         rows of the first shard (text_emb/text_emb_... for texts)
metadata/metadata_00000.parquet   one line per row, in the same order
equipoise.json                    encoder, source, shards and what could not be read
"""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from pydantic import Field

from equipoise._artefact import sha256, write_atomically
from equipoise._documents import Document, read_document
from equipoise._space import EncoderRef
from equipoise._version import __version__
from equipoise.errors import ArtefactError, InputError

FORMAT = 1
MANIFEST = "equipoise.json"
PREFIX = {"image": "img_emb", "text": "text_emb"}


class Skipped(NamedTuple):
    """An item of the source that has no row, and why."""

    name: str
    reason: str


class Shard(Document):
    """A shard: how many items of the source went in, and how many rows came out.

    skipped: items that have no row.
    """

    items: int
    rows: int
    sha256: str
    skipped: list[Skipped] = Field(default=[])


class StoreManifest(Document):
    """What equipoise.json holds.

    debiased: what ``equipoise apply`` did to the rows, if it did anything.
    """

    format: int = FORMAT
    version: str = __version__
    encoder: EncoderRef
    modality: Literal["image", "text"]
    dim: int
    dtype: Literal["float32", "float16"]
    source: str
    source_sha256: str
    items: int
    shard_items: int
    debiased: str = ""
    shards: list[Shard] = Field(default=[])

    @property
    def done(self) -> bool:
        return sum(shard.items for shard in self.shards) == self.items


class Store:
    """Embeddings in a folder, read shard by shard, and the encoder that made them."""

    def __init__(self, folder: Path, manifest: StoreManifest):
        self.folder: Path = folder
        self.manifest: StoreManifest = manifest
        self.encoder: EncoderRef = manifest.encoder
        self.dim: int = manifest.dim

    def __len__(self) -> int:
        return sum(shard.rows for shard in self.manifest.shards)

    @property
    def skipped(self) -> list[Skipped]:
        """Return the items that could not be read."""
        items = []
        for shard in self.manifest.shards:
            items += shard.skipped
        return items

    def shards(self) -> Iterator[np.ndarray]:
        """Yield the rows of each shard as a read-only memory map."""
        for i, shard in enumerate(self.manifest.shards):
            path = shard_path(self.folder, self.manifest.modality, i)
            try:
                rows = np.load(path, mmap_mode="r", allow_pickle=False)
            except (OSError, ValueError) as error:
                raise ArtefactError(
                    f"{path} is not a whole .npy file ({error}); embed again with `resume`"
                ) from None
            if rows.shape != (shard.rows, self.dim):
                raise ArtefactError(
                    f"{path} has shape {rows.shape} and the manifest says {(shard.rows, self.dim)};"
                    " embed it again"
                )
            yield rows

    @property
    def done(self) -> bool:
        """Return whether the run that writes this store has come to its end."""
        return self.manifest.done

    def load(self, *, partial: bool = False) -> np.ndarray:
        """Return all rows in memory; for an unfinished store, pass ``partial=True``."""
        if not self.done and not partial:
            have = sum(shard.items for shard in self.manifest.shards)
            raise InputError(
                f"{self.folder} is unfinished: {have} of {self.manifest.items} items; go on with"
                " `resume`, or pass partial=True"
            )
        shards = list(self.shards())
        if not shards:
            return np.empty((0, self.dim), self.manifest.dtype)
        return np.concatenate(shards)

    def damaged(self) -> int | None:
        """Return the first shard that is missing or was changed; None where all are as written."""
        for i, shard in enumerate(self.manifest.shards):
            path = shard_path(self.folder, self.manifest.modality, i)
            if _lines(metadata_path(self.folder, i)) != shard.rows or not path.is_file():
                return i
            if sha256(path) != shard.sha256:
                return i
        return None

    def metadata(self) -> Any:
        """Return all lines of metadata as a pandas DataFrame."""
        import pandas as pd

        try:
            paths = [metadata_path(self.folder, i) for i in range(len(self.manifest.shards))]
            lines = [pd.read_parquet(path) for path in paths]
        except (OSError, ValueError) as error:
            raise ArtefactError(
                f"the metadata of {self.folder} cannot be read ({error}); embed again with `resume`"
            ) from None
        if not lines:
            return pd.DataFrame()
        return pd.concat(lines, ignore_index=True)

    def __repr__(self) -> str:
        state = "" if self.done else ", unfinished"
        return (
            f"Store({str(self.folder)!r}, {len(self)} {self.manifest.modality} rows,"
            f" dim={self.dim}, encoder={str(self.encoder)!r}{state})"
        )


class StoreWriter:
    """A writer that adds shards to a store.

    Each shard appears whole or not at all, and the manifest after it.
    """

    def __init__(self, folder: Path, manifest: StoreManifest):
        self.folder, self.manifest = folder, manifest

    def add(self, rows: np.ndarray, metadata: Any, skipped: Sequence[Skipped], items: int) -> None:
        """Add rows (n, dim) and the DataFrame of their n lines."""
        i = len(self.manifest.shards)
        data, lines = io.BytesIO(), io.BytesIO()
        np.save(data, rows.astype(self.manifest.dtype), allow_pickle=False)
        metadata.to_parquet(lines, index=False)
        write_atomically(metadata_path(self.folder, i), lines.getvalue())
        write_atomically(shard_path(self.folder, self.manifest.modality, i), data.getvalue())
        digest = hashlib.sha256(data.getvalue()).hexdigest()
        shard = Shard(items=items, rows=len(rows), sha256=digest, skipped=list(skipped))
        self.manifest.shards.append(shard)
        self.write_manifest()

    def write_manifest(self) -> None:
        """Write the manifest; before the first shard too, so that a folder says what it is."""
        write_atomically(self.folder / MANIFEST, self.manifest.model_dump_json(indent=1).encode())


def open_store(folder: str | os.PathLike[str]) -> Store:
    """Return the store in a folder that ``equipoise embed`` wrote."""
    folder = Path(folder)
    path = folder / MANIFEST
    if not path.is_file():
        raise InputError(
            f"{folder} holds no store: there is no {MANIFEST} in it; equipoise embed writes one"
        )
    return Store(folder, read_manifest(path))


def read_manifest(path: Path) -> StoreManifest:
    """Return the manifest of a file, checked."""
    return parse_manifest(path.read_bytes(), path)


def parse_manifest(data: bytes, path: str | Path) -> StoreManifest:
    """Return the manifest that the bytes of a file hold, checked."""
    remedy = "embed again, or pass another folder"
    return read_document(StoreManifest, data, path, "a store's manifest", remedy, newest=FORMAT)


def _lines(path: Path) -> int:
    """Return how many lines a file of metadata has; -1 where it cannot be read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.read_metadata(path).num_rows
    except (OSError, pa.ArrowException):
        return -1


def shard_path(folder: Path, modality: str, i: int) -> Path:
    """Return the path of the rows of shard i."""
    return folder / PREFIX[modality] / f"{PREFIX[modality]}_{i:05d}.npy"


def metadata_path(folder: Path, i: int) -> Path:
    """Return the path of the lines of shard i."""
    return folder / "metadata" / f"metadata_{i:05d}.parquet"
