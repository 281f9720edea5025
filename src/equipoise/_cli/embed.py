"""``equipoise embed``: pictures or texts into a store of embeddings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.markup import escape

from equipoise._cli import options
from equipoise._cli.printing import Console


def embed(
    source: Annotated[
        Path,
        typer.Argument(
            help="A folder of pictures or webdataset .tar files, or a .txt, .csv or .parquet file."
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", help="The folder to write: .npy shards beside parquet metadata."
        ),
    ],
    model: options.Model = None,
    column: options.Column = None,
    modality: options.Modality = None,
    store_dtype: Annotated[
        Literal["float32", "float16"], typer.Option(help="How rows are stored.")
    ] = "float32",
    shard: Annotated[
        int,
        typer.Option(
            help="Items per shard. A killed run loses at most the shard that it was writing.",
            min=1,
        ),
    ] = 10_000,
    resume: options.Resume = False,
    no_cache: Annotated[
        bool, typer.Option("--no-cache", help="Do not use the cache of embeddings.")
    ] = False,
    as_json: options.Json = False,
    device: options.Device = None,
    dtype: options.Dtype = None,
    batch_size: options.Batch = None,
    workers: options.Workers = None,
    offline: options.Offline = None,
) -> None:
    """Encode pictures or texts into a store. What cannot be read is left out and listed."""
    from equipoise._verbs.embed import embed as run
    from equipoise.errors import InputError

    if model is None:
        raise InputError("no encoder was given; pass `model`, for example mini")
    store = run(
        source,
        out,
        model=model,
        column=column,
        modality=modality,
        store_dtype=store_dtype,
        shard=shard,
        resume=resume,
        cache=not no_cache,
        device=device,
        dtype=dtype,
        batch_size=batch_size,
        workers=workers,
        offline=offline,
    )
    if as_json:
        typer.echo(json.dumps(_document(store, out), indent=1))
    else:
        _show(store, out)


def _document(store: Any, out: Path) -> dict[str, Any]:
    return {
        "store": str(out),
        "rows": len(store),
        "dim": store.dim,
        "encoder": store.encoder._asdict(),
        "skipped": [item._asdict() for item in store.skipped],
    }


def _show(store: Any, out: Path) -> None:
    made_by, place = escape(str(store.encoder)), escape(str(out))
    Console().print(f"[bold]{len(store):,}[/] rows of {store.dim} from {made_by} in {place}")
