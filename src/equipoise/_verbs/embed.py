"""``eq.embed``: encode pictures or texts into a store."""

from __future__ import annotations

import os
import warnings
from typing import Any, Literal

from equipoise import _embedding
from equipoise._stores import Store
from equipoise._stores.folder import MANIFEST
from equipoise._verbs.models import check_encoder_options

NAMED = 5  # items that a warning names


def embed(
    source: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    model: str = "mini",
    column: str | None = None,
    modality: Literal["image", "text"] | None = None,
    store_dtype: Literal["float32", "float16"] = "float32",
    shard: int = _embedding.SHARD_ITEMS,
    resume: bool = False,
    cache: bool = True,
    **encoder_options: Any,
) -> Store:
    """Encode every picture or text of ``source`` into a store at ``out``, and return the store.

    source: a folder of pictures or of webdataset .tar files, or a .txt, .csv or .parquet file.
    model: as ``load_encoder`` takes it. column, modality: what a table holds, where its names do
    not say. shard: items per file. resume: go on with a run that was stopped. encoder_options:
    device, dtype, batch_size, workers, offline.

    What cannot be read is left out and listed in ``store.skipped``; a warning names the first.
    """
    from equipoise.encoders import load_encoder

    check_encoder_options(embed, encoder_options)
    items = _embedding.read_source(source, modality, column)
    encoder = load_encoder(model, cache=cache, **encoder_options)
    store = _embedding.embed(
        items, out, encoder, dtype=store_dtype, shard_items=shard, resume=resume
    )
    if store.skipped:
        warnings.warn(_left_out(store), stacklevel=2)
    return store


def _left_out(store: Store) -> str:
    """Return how many items could not be read, the first of them, and where all are listed."""
    skipped = store.skipped
    named = "; ".join(f"{item.name}: {item.reason}" for item in skipped[:NAMED])
    more = "; ..." if len(skipped) > NAMED else ""
    return (
        f"{len(skipped):,} of {store.manifest.items:,} items could not be read and are left out"
        f" ({named}{more}); {store.folder / MANIFEST} lists them"
    )
