"""``embed``: images or texts in, a store of embeddings out.

A run that was stopped at any moment and resumed does nothing twice.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np

from equipoise._artefact import clear_torn
from equipoise._paths import is_utf8, path_of
from equipoise._space import EncoderRef
from equipoise._stores import Store, StoreWriter, open_store, tar
from equipoise._stores.folder import MANIFEST, Skipped, StoreManifest
from equipoise._stores.locations import is_broken_link
from equipoise._stores.lock import LOCK, alone_in
from equipoise.encoders import Unreadable
from equipoise.encoders._images import name_of
from equipoise.encoders._towers import Modality
from equipoise.errors import InputError

SHARD_ITEMS = 10_000
SOURCES = "a folder of pictures, or a .tar, .txt, .csv or .parquet file"
BLOCK = 4096  # items at a time for encoders that do not stream
COLUMNS: dict[Modality, tuple[str, ...]] = {
    "image": ("path", "image_path", "image", "file", "filename"),
    "text": ("text", "caption", "prompt"),
}


@dataclass(frozen=True)
class EncodingSource:
    """What to encode: a table with one line per item.

    column: the column that names the image or holds the text.
    """

    name: str
    table: Any
    column: str
    modality: Modality
    root: Path
    members: tuple[tar.Member, ...] = ()  # where the images of tar files lie

    def items(self, start: int) -> Any:
        """Return paths, bytes or texts from line ``start`` on."""
        if self.members:
            return tar.read_members(self.members[start:])
        values = self.table[self.column].tolist()[start:]
        if self.modality == "image":
            return [self.root / value for value in values]
        return values

    def digest(self) -> str:
        """Return a hash of the items, of where they lie and of what is carried along."""
        root = str(self.root.resolve()) if self.modality == "image" else ""
        table = self.table.to_csv(index=False)
        document = json.dumps([self.modality, root, self.column, table])
        return hashlib.sha256(document.encode()).hexdigest()


def read_source(
    path: str | os.PathLike[str], modality: Modality | None = None, column: str | None = None
) -> EncodingSource:
    """Return what a path names as a source.

    It is a folder of images or of .tar files, a .tar file as webdataset lays it out, a .txt file
    with one text per line, or a .csv or .parquet table with a column of paths or texts.
    """
    import pandas as pd

    path = path_of(path, "source", SOURCES)
    if path.is_dir():
        return _read_folder(path, modality)
    if not path.is_file():
        raise InputError(
            f"there is no file or folder {path}; pass a folder of pictures, or a .tar, .txt, .csv"
            " or .parquet file"
        )
    suffix = path.suffix.lower()
    if suffix == ".tar":
        return _read_tars(path, [path])
    if suffix == ".txt":
        lines = [line.strip() for line in _read_text(path).split("\n") if line.strip()]
        table = pd.DataFrame({"text": lines})
        return _checked(EncodingSource(str(path), table, "text", "text", path.parent))
    if suffix not in (".csv", ".parquet"):
        raise InputError(f"{path} is neither a folder nor a .tar, .txt, .csv or .parquet file")
    table = _read_table(path, suffix)
    modality, column = _pick_column(path, list(table.columns), modality, column)
    return _checked(EncodingSource(str(path), table, column, modality, path.parent))


def _read_folder(path: Path, modality: Modality | None) -> EncodingSource:
    import pandas as pd

    if modality == "text":
        raise InputError(
            f"{path} is a folder, and texts were asked for; pass a .txt, .csv or .parquet file"
        )
    tars = sorted(path.glob("*.tar"))
    suffixes = _suffixes()
    names = []
    for file in path.rglob("*"):
        if file.suffix.lower() in suffixes and (file.is_file() or is_broken_link(file)):
            names.append(str(file.relative_to(path)))
    names.sort()
    if tars and names:
        raise InputError(
            f"{path} holds {len(tars):,} .tar files and {len(names):,} pictures beside them;"
            " pass a folder of one or the other"
        )
    if tars:
        return _read_tars(path, tars)
    if not names:
        raise InputError(f"{path} holds no pictures, such as .jpg or .png, and no .tar files")
    garbled = [name for name in names if not is_utf8(name)]
    if garbled:
        raise InputError(
            f"{len(garbled)} file names are not UTF-8, first {garbled[0]!r}; rename them"
            " (convmv does it)"
        )
    return _checked(EncodingSource(str(path), pd.DataFrame({"path": names}), "path", "image", path))


def _read_table(path: Path, suffix: str) -> Any:
    import pandas as pd

    try:
        if suffix == ".parquet":
            return pd.read_parquet(path)
        table = pd.read_csv(path, dtype=str, keep_default_na=False, encoding="utf-8-sig")
    except (ValueError, OSError) as error:  # the errors of pandas and pyarrow derive from these
        raise InputError(f"{path} cannot be read as {suffix} ({error})") from None
    # With too many fields per row, pandas takes the first column for names of rows.
    if not isinstance(table.index, pd.RangeIndex):
        raise InputError(
            f"{path} has rows with more fields than its header names; name every column, or remove"
            " what ends each row"
        )
    return table


def _read_tars(path: Path, tars: list[Path]) -> EncodingSource:
    import pandas as pd

    lines, members = tar.read_index(tars, _suffixes())
    table = pd.DataFrame(lines, columns=None if lines else ["path"])
    return _checked(EncodingSource(str(path), table, "path", "image", path, tuple(members)))


def embed(
    source: EncodingSource,
    destination: str | os.PathLike[str],
    encoder: Any,
    *,
    dtype: Literal["float32", "float16"] = "float32",
    shard_items: int = SHARD_ITEMS,
    resume: bool = False,
) -> Store:
    """Encode every item of ``source`` into the folder ``destination``.

    Items that cannot be read are left out and listed.
    """
    folder = Path(destination)
    with alone_in(folder):
        return _embed(source, folder, encoder, dtype, shard_items, resume)


def _embed(
    source: EncodingSource, folder: Path, encoder: Any, dtype: Any, shard_items: int, resume: bool
) -> Store:
    manifest = StoreManifest(
        encoder=EncoderRef.of(encoder),
        modality=source.modality,
        dim=encoder.dim,
        dtype=dtype,
        source=source.name,
        source_sha256=source.digest(),
        items=len(source.table),
        shard_items=shard_items,
    )
    writer = StoreWriter(folder, _started(folder, manifest, resume))
    clear_torn(folder, "*_emb/*.npy", "metadata/*.parquet")
    writer.write_manifest()
    start = sum(shard.items for shard in writer.manifest.shards)
    rows = iter(_rows(encoder, source, start))
    while start < len(source.table):
        lines = source.table.iloc[start : start + writer.manifest.shard_items]
        results = list(islice(rows, len(lines)))
        kept, skipped = [], []
        for i, row in enumerate(results):
            if isinstance(row, Unreadable):
                skipped.append(Skipped(str(lines[source.column].iloc[i]), row.reason))
            else:
                kept.append(i)
        stacked = np.empty((0, encoder.dim), np.float32)
        if kept:
            stacked = np.stack([results[i] for i in kept])
        writer.add(stacked, lines.iloc[kept], skipped, len(lines))
        start += len(lines)
    store = open_store(folder)
    if not len(store):
        first = store.skipped[0]
        raise InputError(
            f"none of the {len(source.table)} items could be read; the first, {first.name}:"
            f" {first.reason}"
        )
    return store


def _rows(encoder: Any, source: EncodingSource, start: int) -> Iterable[Any]:
    items = source.items(start)
    if source.modality == "image" and hasattr(encoder, "iter_images"):
        return encoder.iter_images(items)
    encode = encoder.encode_images if source.modality == "image" else encoder.encode_text
    return _in_blocks(encode, items)


def _in_blocks(
    encode: Callable[[list[Any]], np.ndarray], items: Iterable[Any]
) -> Iterator[np.ndarray | Unreadable]:
    items = iter(items)
    while block := list(islice(items, BLOCK)):
        for i, row in enumerate(encode(block)):
            if np.isfinite(row).all():
                yield row
            else:
                yield Unreadable(i, name_of(block[i], i), "the encoder gave no row for it")


def _started(folder: Path, manifest: StoreManifest, resume: bool) -> StoreManifest:
    """Return the manifest to go on with."""
    if not any(entry.name != LOCK for entry in folder.iterdir()):
        return manifest
    if not (folder / MANIFEST).is_file():
        raise InputError(f"{folder} exists and holds no store; pass a new folder")
    store = open_store(folder)
    found = store.manifest
    if found.debiased:
        raise InputError(
            f"{folder} holds rows that equipoise apply has debiased, and these would not be; pass a"
            " new folder"
        )
    if found.encoder.differs_from(manifest.encoder):
        raise InputError(
            f"{folder} holds rows of {found.encoder}, and {manifest.encoder} was given; pass a new"
            " folder"
        )
    same = ("modality", "dim", "dtype", "source_sha256", "items")
    different = [
        name.removesuffix("_sha256")
        for name in same
        if getattr(found, name) != getattr(manifest, name)
    ]
    if different:
        raise InputError(
            f"{folder} holds another run (what differs: {', '.join(different)}); pass a new folder"
        )
    if not resume and found.shards:
        raise InputError(
            f"{folder} already holds {len(store):,} embeddings of this very run; pass `resume` to"
            " keep them and go on, or a new folder"
        )
    damaged = store.damaged()
    if damaged is not None:
        del found.shards[damaged:]
    if manifest.encoder.note:
        encoder = found.encoder._replace(note=manifest.encoder.note)
        found = found.model_copy(update={"encoder": encoder})
    return found


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read as UTF-8 text ({error})") from None


def _checked(source: EncodingSource) -> EncodingSource:
    if not len(source.table):
        what = "pictures" if source.modality == "image" else "texts"
        raise InputError(f"{source.name} holds no {what}")
    for line, value in enumerate(source.table[source.column]):
        if not isinstance(value, str) or not value:
            raise InputError(
                f"line {line} of {source.name} has no {source.column}; every line needs one"
            )
    return source


def _pick_column(
    path: Path, columns: list[str], modality: Modality | None, column: str | None
) -> tuple[Modality, str]:
    if column is not None:
        if column not in columns:
            raise InputError(
                f"{path} has no column {column!r}; it has {', '.join(map(str, columns))}"
            )
        if modality is None:
            modality = "text" if column in COLUMNS["text"] else "image"
        return modality, column
    for kind, names in COLUMNS.items():
        for name in names:
            if name in columns and modality in (None, kind):
                return kind, name
    raise InputError(
        f"no column of {path} is called {' or '.join(COLUMNS[modality or 'image'])}; name one with"
        " `column`"
    )


def _suffixes() -> set[str]:
    from PIL import Image

    from equipoise.encoders._images import formats

    return {suffix for suffix, kind in Image.registered_extensions().items() if kind in formats()}
