"""``equipoise bench explore``: the explore page, from a keystroke to both rows."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer
from rich.table import Table

from equipoise._cli.bench.showing import print_json, show_machine
from equipoise._cli.options import Json
from equipoise._cli.printing import table_console


def explore(
    count: Annotated[int, typer.Option(help="How many photographs; 0 for none.", min=0)] = 5000,
    vectors: Annotated[
        int, typer.Option(help="How many stored vectors; 0 for none.", min=0)
    ] = 1_000_000,
    dim: Annotated[int, typer.Option(help="Width of the vectors: a multiple of 256.")] = 512,
    text_count: Annotated[int, typer.Option(help="How many texts are typed.", min=1)] = 100,
    browsers: Annotated[
        int, typer.Option(help="How many browsers at once; 0 for none.", min=0)
    ] = 50,
    seconds: Annotated[float, typer.Option(help="For how many seconds they browse.")] = 60.0,
    as_json: Json = False,
) -> None:
    """Time the explore page from a keystroke to both rows, and with many browsers at once."""
    from equipoise._bench import explore as explore_bench

    console = table_console()
    rows, crowd = [], None
    with console.status("measuring"):
        if count:
            rows.append(explore_bench.measure_photographs(count, text_count))
        if vectors:
            rows.append(explore_bench.measure_vectors(vectors, dim, text_count))
        if browsers:
            crowd = explore_bench.measure_crowd(browsers, seconds)
    if as_json:
        many = None if crowd is None else asdict(crowd)
        print_json(rows, crowd=many)
        return
    table = Table(
        "images",
        "d",
        "texts",
        "first row, ms",
        "95 %",
        "both rows, ms",
        "95 %",
        "to start, s",
        title="equipoise bench explore",
    )
    for row in rows:
        times = (row.first, row.first_p95, row.both, row.both_p95)
        sizes = f"{row.images:,}", str(row.dim), str(row.texts)
        table.add_row(*sizes, *(f"{value:.0f}" for value in times), f"{row.seconds_to_start:.1f}")
    console.print(table)
    if crowd is not None:
        console.print(
            f"{crowd.browsers} browsers, {crowd.seconds:.0f} s: {crowd.searches:,} searches"
            f" ({crowd.both:.0f} ms, 95 % {crowd.both_p95:.0f} ms), {crowd.pictures:,} pictures,"
            f" {crowd.errors} errors, {crowd.megabytes_before:.0f} to"
            f" {crowd.megabytes_after:.0f} MiB",
            soft_wrap=True,
            highlight=False,
        )
    show_machine(console)
