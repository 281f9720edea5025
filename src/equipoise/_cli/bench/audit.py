"""``equipoise bench audit``: a whole audit of stored embeddings."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from equipoise._cli.bench.showing import print_json, show
from equipoise._cli.options import Json
from equipoise._cli.printing import table_console


def audit(
    count: Annotated[int, typer.Option(help="How many stored embeddings.", min=200)] = 100_000,
    prompt_count: Annotated[int, typer.Option(help="How many prompts.", min=2)] = 500,
    dim: Annotated[int, typer.Option(help="Width of the embeddings.", min=2)] = 512,
    resamples: Annotated[int, typer.Option(help="Resamples of the bootstrap.", min=1)] = 1000,
    as_json: Json = False,
) -> None:
    """Time a whole audit of stored embeddings, intervals and page included."""
    from equipoise._bench import audit as audit_bench

    row = audit_bench.measure(count, prompt_count, dim, resamples)
    if as_json:
        print_json([row])
        return
    console = table_console()
    table = Table(
        "images",
        "prompts",
        "d",
        "resamples",
        "seconds",
        "processor's seconds",
        "page, MB",
        title="equipoise bench audit",
    )
    sizes = f"{row.images:,}", f"{row.prompts:,}", str(row.dim), f"{row.resamples:,}"
    table.add_row(
        *sizes, f"{row.seconds:.1f}", f"{row.processor_seconds:.1f}", f"{row.page_megabytes:.1f}"
    )
    show(console, table)
