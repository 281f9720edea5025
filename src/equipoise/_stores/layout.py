"""The files of a source: which hold rows, and which are carried along.

A source is a store, a clip-retrieval folder, any pair of globs, or one file.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

from pydantic import BaseModel

from equipoise._documents import Document
from equipoise._paths import is_utf8, without_secrets
from equipoise._space import EncoderRef
from equipoise._stores import npy, parquet
from equipoise._stores.folder import MANIFEST, PREFIX, StoreManifest, parse_manifest
from equipoise._stores.locations import Place, place, split
from equipoise.errors import InputError, ServiceError

LOOKS_AT_ONCE = 16


class SourceFile(Document):
    """One file: what it holds, and what would show that it was changed."""

    name: str
    kind: Literal["npy", "parquet", "copy"]
    modality: Literal["image", "text"] = "image"
    rows: int = 0
    dim: int = 0
    dtype: str = ""
    column: str = ""
    size: int
    stamp: str
    group_bytes: int = 0


class Layout(BaseModel):
    """The files of a source, those with rows first, and the encoder that a store names.

    single: one file was named.
    """

    files: list[SourceFile]
    single: bool = False
    encoder: EncoderRef = EncoderRef()
    store: StoreManifest | None = None

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    @property
    def bytes(self) -> int:
        return sum(file.size for file in self.files)

    @property
    def modalities(self) -> set[Literal["image", "text"]]:
        return {file.modality for file in self.files if file.kind != "copy"}

    @property
    def first(self) -> SourceFile:
        """Return the first file that holds rows (all are like it), or the first file of all."""
        return next((file for file in self.files if file.rows), self.files[0])


def look_at(
    source: str | os.PathLike[str],
    *,
    rows: str | None = None,
    metadata: str | None = None,
    column: str | None = None,
    modality: Literal["image", "text"] | None = None,
) -> tuple[Place, Layout]:
    """Find the files, and check each before any work.

    rows and metadata are globs below ``source``, for layouts that are not known.
    """
    where, single = _open(source)
    store = None
    if not single and where.is_file(MANIFEST):
        store = parse_manifest(where.read(MANIFEST), f"{where}/{MANIFEST}")
    if store and not store.done:
        raise InputError(f"{where} is unfinished; go on with equipoise embed --resume first")
    pairs = _pairs(where, single, rows, metadata)
    _check_names(where, pairs)
    with ThreadPoolExecutor(LOOKS_AT_ONCE) as pool:
        names = [name for name, _ in pairs]
        files = list(pool.map(lambda name: _describe(where, name, column, modality), names))
        lines = [(file, other) for file, (_, other) in zip(files, pairs, strict=True) if other]
        others = [other for _, other in lines]
        counts = list(pool.map(lambda other: parquet.count_rows(where, other), others))
    for (file, other), count in zip(lines, counts, strict=True):
        if count != file.rows:
            raise InputError(
                f"{file.name} has {file.rows:,} rows and {other} has {count:,} lines; pair each"
                " file of rows with its own metadata"
            )
    _check_alike(where, [file for file in files if file.rows])
    files += [_carried(where, name) for name in sorted(set(others))]
    return where, Layout(
        files=files,
        single=bool(single),
        encoder=store.encoder if store else EncoderRef(),
        store=store,
    )


def _open(source: str | os.PathLike[str]) -> tuple[Place, str]:
    """Return the folder, and the one file in it that was named, or ""."""
    if not os.fspath(source):
        raise InputError("the source is empty; pass a .npy or .parquet file, or a folder of them")
    text = os.fspath(source).rstrip("/") or "/"
    if text.endswith((".npy", ".parquet")):
        where, name = split(text)
        if where.is_file(name):
            return where, name
    where = place(text)
    try:
        found = where.glob("**/*")
    except OSError as error:
        raise ServiceError(
            f"{without_secrets(source)} cannot be read ({error}); check the address and the"
            " connection"
        ) from None
    if not found:
        raise InputError(
            f"there are no stored embeddings at {without_secrets(source)}; pass a .npy or .parquet"
            " file, or a folder of them"
        )
    return where, ""


def _pairs(
    where: Place, single: str, rows: str | None, metadata: str | None
) -> list[tuple[str, str]]:
    """Return each file with rows, and its file of metadata or ""."""
    if single:
        return [(single, "")]
    if rows:
        return _paired(where, rows, where.glob(rows), metadata)
    known = [f"{folder}/*.npy" for folder in PREFIX.values() if where.glob(f"{folder}/*.npy")]
    if known:
        if not metadata and where.glob("metadata/*.parquet"):
            metadata = "metadata/*.parquet"
        pairs = []
        for pattern in known:
            pairs += _paired(where, pattern, where.glob(pattern), metadata or None)
        return pairs
    found = {suffix: where.glob(f"**/*.{suffix}") for suffix in ("npy", "parquet")}
    if all(found.values()):
        raise InputError(
            f"{where} holds .npy and .parquet files; say which hold rows, and which their metadata,"
            " with `rows` and `metadata`"
        )
    names = found["npy"] or found["parquet"]
    if not names:
        raise InputError(
            f"{where} holds no .npy and no .parquet file; pass a folder of stored embeddings, as"
            " equipoise embed makes one of pictures or texts"
        )
    return _paired(where, "**/*.npy or **/*.parquet", names, metadata)


def _paired(
    where: Place, pattern: str, names: list[str], metadata: str | None
) -> list[tuple[str, str]]:
    if not names:
        raise InputError(f"no file of {where} matches {pattern}; pass another pattern with `rows`")
    if metadata is None:
        return [(name, "") for name in names]
    others = where.glob(metadata)
    if len(others) != len(names):
        raise InputError(
            f"{len(names)} files match {pattern} and {len(others)} match {metadata} in {where};"
            " there must be one for each"
        )
    return list(zip(names, others, strict=True))


def _check_names(where: Place, pairs: list[tuple[str, str]]) -> None:
    rows = {name for name, _ in pairs if name}
    lines = {other for _, other in pairs if other}
    both = sorted(rows & lines)
    if both:
        raise InputError(
            f"{both[0]} in {where} matches `rows` and `metadata`; it cannot be debiased and copied"
            " as it is: narrow one of them"
        )
    garbled = [name for name in rows | lines if not is_utf8(f"{where}/{name}")]
    if garbled:
        raise InputError(
            f"{len(garbled)} file names in {where} are not UTF-8, first {garbled[0]!r}; rename them"
            " (convmv does it)"
        )


def _describe(
    where: Place, name: str, column: str | None, modality: Literal["image", "text"] | None
) -> SourceFile:
    size, stamp = _stamp(where, name)
    kind = modality or ("text" if name.startswith(PREFIX["text"]) else "image")
    if name.endswith(".npy"):
        found = npy.read_header(where, name)
        return SourceFile(
            name=name,
            kind="npy",
            modality=kind,
            rows=found.rows,
            dim=found.dim,
            dtype=found.dtype,
            size=size,
            stamp=stamp,
        )
    if name.endswith(".parquet"):
        about = parquet.describe(where, name, column)
        return SourceFile(
            name=name, kind="parquet", modality=kind, size=size, stamp=stamp, **vars(about)
        )
    raise InputError(
        f"{name} in {where} is neither a .npy nor a .parquet file; narrow the pattern of `rows`"
    )


def _carried(where: Place, name: str) -> SourceFile:
    size, stamp = _stamp(where, name)
    return SourceFile(name=name, kind="copy", size=size, stamp=stamp)


def _stamp(where: Place, name: str) -> tuple[int, str]:
    try:
        return where.stamp(name)
    except OSError as error:
        raise InputError(
            f"{name} in {where} cannot be read ({error.strerror or error}); if it is a link, fetch"
            " what it leads to"
        ) from None


def _check_alike(where: Place, files: list[SourceFile]) -> None:
    for file in files:
        if file.dim != files[0].dim:
            raise InputError(
                f"{file.name} in {where} is {file.dim} wide and {files[0].name} {files[0].dim};"
                " rows of one encoder have one width, so apply to them one by one, with `rows`"
            )
        if file.dtype != files[0].dtype:
            raise InputError(
                f"{file.name} in {where} holds {file.dtype} and {files[0].name} {files[0].dtype};"
                " apply to them one by one, with `rows`"
            )
