"""``eq.apply``: debias a store of embeddings, of files or of a database, into another."""

from __future__ import annotations

import os
from typing import Any, Literal

from equipoise import methods
from equipoise._applying.files import Engine, Options, apply_files
from equipoise._applying.lance import apply_lance
from equipoise._applying.postgres import SCHEMES, apply_column
from equipoise._applying.report import ApplyReport
from equipoise._applying.vector_databases import SCHEMES as COLLECTIONS
from equipoise._applying.vector_databases import apply_collection
from equipoise._engines import threads
from equipoise._engines.transform import Transform
from equipoise._space import AttributeSpace
from equipoise.errors import InputError
from equipoise.methods import Operator

# What databases have no use for.
FOR_FILES = ("rows", "metadata", "device", "ray", "address", "verify", "dry_run")


def apply(
    source: str | os.PathLike[str],
    destination: str | os.PathLike[str],
    *,
    space: AttributeSpace | str | os.PathLike[str] | None = None,
    operator: Operator | str | os.PathLike[str] | None = None,
    kappa: Any = None,
    norm: Literal["unit", "keep"] = "unit",
    on_invalid: Literal["raise", "keep"] = "raise",
    rows: str | None = None,
    metadata: str | None = None,
    column: str | None = None,
    modality: Literal["image", "text"] | None = None,
    key: str | None = None,
    resume: bool = False,
    device: str = "cpu",
    engine: Engine = threads.run,
) -> ApplyReport:
    """Debias a store of any size into another.

    source: a folder of .npy or .parquet files, or one of them, here or behind a URL. space,
    operator: objects or their files; with both, the operator is certified in the space. rows,
    metadata: globs below ``source`` where its layout is not a known one. column: the one with
    embeddings, of a parquet file that has several. resume: go on with a run that was stopped.

    A column of PostgreSQL (``postgresql://user@host/database#table.column``) or of Lance
    (``photos.lance#column``) is debiased into a new column beside it, whose name is the
    destination. key: the unique column that orders a PostgreSQL table, its primary key by default.

    A collection of Qdrant, Chroma or Milvus (``qdrant:folder#photos``, ``chroma:folder#photos``,
    ``milvus:photos.db#photos``) is debiased into a new one of the same database, whose name is the
    destination. column: the vector, where a row has several.
    """
    legal = {
        "norm": (norm, ["unit", "keep"]),
        "on_invalid": (on_invalid, ["raise", "keep"]),
        "modality": (modality, [None, "image", "text"]),
    }
    for name, (given, choices) in legal.items():
        if given not in choices:
            raise InputError(f"{name}={given!r} is not legal; pass one of {choices}")
    transform = read_transform(space, operator, kappa, norm, device)
    if in_database(source):
        options = {
            "modality": modality or "image",
            "keep_invalid": on_invalid == "keep",
            "resume": resume,
        }
        if is_postgres(source):
            return apply_column(str(source), str(destination), transform, key=key, **options)
        if is_collection(source):
            return apply_collection(
                str(source), str(destination), transform, column=column, **options
            )
        return apply_lance(str(source), str(destination), transform, **options)
    options = Options(rows, metadata, column, modality, on_invalid == "keep")
    return apply_files(source, destination, transform, options, engine=engine, resume=resume)


def require_fitting(source: str | os.PathLike[str], **given: Any) -> None:
    """Raise for options that would do nothing. given: by name, None or False where nothing was."""
    idle: list[str] = []
    kind = "files on this machine's threads"
    if in_database(source):
        kind = "such a database"
        idle.extend(FOR_FILES)
        if not is_collection(source):
            idle.append("column")
    elif not given["ray"]:
        idle.append("address")
    if not is_postgres(source):
        idle.append("key")
    found = ["engine" if name == "ray" else name for name in idle if given[name]]
    if found:
        told = ", ".join(f"`{name}`" for name in found)
        # The source is not named: it may hold a password.
        raise InputError(f"{told} would do nothing for {kind}; leave it out")


def in_database(source: str | os.PathLike[str]) -> bool:
    """Return whether a source is a column or a collection of a database."""
    return is_postgres(source) or is_collection(source) or ".lance#" in os.fspath(source)


def is_collection(source: str | os.PathLike[str]) -> bool:
    """Return whether a source is a collection of a vector database."""
    return os.fspath(source).startswith(COLLECTIONS)


def is_postgres(source: str | os.PathLike[str]) -> bool:
    """Return whether a source is a PostgreSQL address."""
    return os.fspath(source).startswith(SCHEMES)


def find_engine(name: str, address: str | None = None) -> tuple[Engine, str]:
    """Return the engine called "threads" or "ray", and the device that it computes on by default.

    address: of the Ray cluster.
    """
    if name == "threads":
        return threads.run, "cpu"
    from equipoise._engines import ray

    return ray.engine(address), ray.device(address)


def read_transform(
    space: Any,
    operator: Any,
    kappa: Any = None,
    norm: Literal["unit", "keep"] = "unit",
    device: str = "cpu",
) -> Transform:
    """Return what is done to rows. space, operator: objects or their files."""
    if isinstance(space, str | os.PathLike):
        space = AttributeSpace.load(space)
    if isinstance(operator, str | os.PathLike):
        operator = methods.load(operator)
    return Transform.of(space, operator, kappa, norm=norm, device=device)
