"""``equipoise embed``: pictures or texts into a store of embeddings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.markup import escape

from equipoise._cli.options import Batch, Device, Dtype, Json, Model, Offline, Workers
from equipoise._cli.printing import Console


def embed(
    source: Annotated[
        Path,
        typer.Argument(
            help=(
                "Pictures in a folder or in webdataset .tar files, or a .txt, .csv or .parquet"
                " file."
            )
        ),
    ],
    destination: Annotated[
        Path, typer.Argument(help="The folder to write: .npy shards beside parquet metadata.")
    ],
    model: Model,
    column: Annotated[
        str | None, typer.Option(help="The table's column of paths or texts.")
    ] = None,
    modality: Annotated[
        Literal["image", "text"] | None,
        typer.Option(help="What the column holds, where its name does not say."),
    ] = None,
    store_dtype: Annotated[
        Literal["float32", "float16"], typer.Option(help="How rows are stored.")
    ] = "float32",
    shard: Annotated[
        int, typer.Option(help="Items a shard: what a kill can cost.", min=1)
    ] = 10_000,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with a run that was stopped.")
    ] = False,
    no_cache: Annotated[
        bool, typer.Option("--no-cache", help="Neither look up nor keep single embeddings.")
    ] = False,
    device: Device = None,
    dtype: Dtype = None,
    batch_size: Batch = None,
    workers: Workers = None,
    offline: Offline = None,
    as_json: Json = False,
) -> None:
    """Encode pictures or texts; what cannot be read is left out, counted and listed."""
    from equipoise import _embedding as embedding
    from equipoise.encoders import load_encoder

    items = embedding.read_source(source, modality, column)
    options = {
        "device": device,
        "dtype": dtype,
        "batch_size": batch_size,
        "workers": workers,
        "offline": offline,
    }
    encoder = load_encoder(model, cache=not no_cache, **options)
    store = embedding.embed(
        items, destination, encoder, dtype=store_dtype, shard_items=shard, resume=resume
    )
    skipped = [item._asdict() for item in store.skipped]
    if as_json:
        document = {
            "store": str(destination),
            "rows": len(store),
            "dim": store.dim,
            "encoder": store.encoder._asdict(),
            "skipped": skipped,
        }
        typer.echo(json.dumps(document, indent=1))
        return
    console = Console()
    console.print(
        f"[bold]{len(store):,}[/] rows of {store.dim} from {escape(str(store.encoder))} in"
        f" {escape(str(destination))}"
    )
    if skipped:
        console.print(
            f"[yellow]{len(skipped):,} could not be read[/], and are listed in"
            f" {escape(str(destination))}/equipoise.json:"
        )
        for item in skipped[:5]:
            console.print(f"  {item['name']}: {item['reason']}", highlight=False, markup=False)
