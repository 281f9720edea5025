"""``equipoise bench retrieval``: exact search beside faiss's flat index and the bare product."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from equipoise._cli.bench.showing import Rounds, print_json, show
from equipoise._cli.options import Json
from equipoise._cli.printing import table_console


def retrieval(
    count: Annotated[int, typer.Option(help="How many images to search.")] = 1_000_000,
    queries: Annotated[int, typer.Option(help="Texts to search for.")] = 1000,
    dim: Annotated[int, typer.Option(help="Width of the embeddings.")] = 512,
    k: Annotated[
        list[int] | None,
        typer.Option("-k", "--depth", help="Images to find for each text; repeat for several."),
    ] = None,
    block: Annotated[int | None, typer.Option(help="Images scored at once.")] = None,
    rounds: Rounds = 3,
    clock: Annotated[
        str,
        typer.Option(
            help=(
                "wall, or cpu: the processor's seconds, which neighbours on the machine disturb"
                " less."
            )
        ),
    ] = "wall",
    as_json: Json = False,
) -> None:
    """Time exact search, as ratios to faiss's flat index and to the bare matrix product."""
    from equipoise._bench import retrieval as retrieval_bench
    from equipoise._search import BLOCK

    depths = tuple(k or retrieval_bench.DEPTHS)
    rows = retrieval_bench.run(
        count, queries, dim, depths, BLOCK if block is None else block, rounds, clock
    )
    if as_json:
        print_json(rows, "over_faiss", "over_product")
        return
    console = table_console()
    title = f"equipoise bench retrieval: {queries:,} queries, {count:,} x {dim} images"
    table = Table(
        "k",
        "kernel",
        "seconds",
        "product alone",
        "faiss",
        "time / faiss",
        "time / product",
        "MiB",
        "agreement",
        title=title,
    )
    with console.status("measuring"):
        for row in rows:
            seconds = f"{row.seconds:.2f}", f"{row.product_seconds:.2f}", f"{row.faiss_seconds:.2f}"
            ratios = f"{row.over_faiss:.2f}", f"{row.over_product:.2f}"
            table.add_row(
                str(row.k),
                row.kernel,
                *seconds,
                *ratios,
                f"{row.mebibytes:.0f}",
                f"{row.agreement:.2%}",
            )
            table.caption = f"product: {row.product_blas} · faiss: {row.faiss_blas}"
    show(console, table)
