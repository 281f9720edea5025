"""``equipoise bench encode``: an encoder on picture files beside the model alone."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from equipoise._cli.bench.showing import Rounds, print_json, show
from equipoise._cli.options import Batch, Device, Dtype, Json, Model, Workers
from equipoise._cli.printing import table_console


def encode(
    model: Model = "mini",
    count: Annotated[int, typer.Option(help="How many files of each size.", min=1)] = 2000,
    size: Annotated[
        list[int] | None, typer.Option(help="Width of the pictures; repeat for several.")
    ] = None,
    rounds: Rounds = 3,
    device: Device = None,
    dtype: Dtype = None,
    batch_size: Batch = None,
    workers: Workers = None,
    as_json: Json = False,
) -> None:
    """Time an encoder on JPEG files beside the model alone on pixels that are already decoded."""
    from equipoise._bench import encode as encode_bench
    from equipoise.encoders import load_encoder

    encoder = load_encoder(
        model or "mini", device=device, dtype=dtype, batch_size=batch_size, workers=workers
    )
    rows = encode_bench.run(
        encoder, images=count, sizes=tuple(size or encode_bench.SIZES), rounds=rounds
    )
    if as_json:
        print_json(rows, "share")
        return
    console = table_console()
    table = Table(
        "runs",
        "files",
        "batch",
        "workers",
        "model alone",
        "from files",
        "share",
        "texts",
        title=f"equipoise bench encode {model}",
    )
    with console.status("measuring"):
        for row in rows:
            rates = (
                f"{row.model_alone:,.0f}/s",
                f"{row.from_files:,.0f}/s",
                f"{row.share:.0%}",
                f"{row.texts:,.0f}/s",
            )
            table.add_row(
                row.runs,
                f"{row.images:,} x {row.pixels} px",
                str(row.batch),
                str(row.workers),
                *rates,
            )
    show(console, table)
