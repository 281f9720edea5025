"""``equipoise bench apply``: a streaming apply beside cp and sync, and beside a script."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from equipoise._cli.bench.showing import Rounds, print_json, show
from equipoise._cli.options import Json
from equipoise._cli.printing import table_console


def apply(
    count: Annotated[
        list[int] | None,
        typer.Option(
            help="How many rows the store has; repeat for several, to see how time grows."
        ),
    ] = None,
    dim: Annotated[int, typer.Option(help="Width of the embeddings.")] = 512,
    rank: Annotated[int, typer.Option(help="Rank of the attribute space.")] = 1,
    rounds: Rounds = 5,
    folder: Annotated[
        Path | None,
        typer.Option(
            help="The folder to write to; by default, the system's folder for temporary files."
        ),
    ] = None,
    script: Annotated[
        bool,
        typer.Option(
            "--script/--no-script", help="Also time a numpy script such as a user would write."
        ),
    ] = True,
    as_json: Json = False,
) -> None:
    """Time a streaming apply of float16 .npy shards, as ratios to cp and sync of the same files
    and to a numpy script.
    """
    from equipoise._bench import apply as apply_bench

    console = table_console()
    with console.status("measuring"):
        measured = list(
            apply_bench.run(count or [apply_bench.ROWS], dim, rank, rounds, folder, script)
        )
    if as_json:
        print_json(measured, "over_copy", "over_script")
        return
    table = Table(
        "rows",
        "GB",
        "s",
        "core-s",
        "start-up s",
        "cp + sync s",
        "script s",
        "time / cp + sync",
        "times faster than the script",
        "MiB",
    )
    table.title = "equipoise bench apply"
    for row in measured:
        seconds = (
            f"{value:.2f}"
            for value in (
                row.seconds,
                row.core_seconds,
                row.startup_seconds,
                row.copy_seconds,
                row.script_seconds,
            )
        )
        table.add_row(
            f"{row.rows:,}",
            f"{row.gigabytes:.2f}",
            *seconds,
            f"{row.over_copy:.2f}",
            f"{row.over_script:.1f}",
            f"{row.mebibytes:.0f}",
        )
    show(console, table)
