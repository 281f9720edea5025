"""``equipoise bench balance``: what a balanced search adds to the exact one."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from equipoise._cli.bench.showing import Rounds, print_json, show
from equipoise._cli.options import Json
from equipoise._cli.printing import table_console


def balance(
    count: Annotated[int, typer.Option(help="How many images to search.")] = 1_000_000,
    dim: Annotated[int, typer.Option(help="Width of the embeddings.")] = 512,
    queries: Annotated[int, typer.Option(help="Texts to search for at once.")] = 1,
    k: Annotated[
        list[int] | None,
        typer.Option("-k", "--depth", help="Images of a page; repeat for several."),
    ] = None,
    groups: Annotated[
        list[int] | None, typer.Option(help="Groups of the attribute; repeat for several.")
    ] = None,
    rounds: Rounds = 15,
    as_json: Json = False,
) -> None:
    """Measure the time that a balanced search adds to the exact search of the same texts."""
    from equipoise._bench import balance as balance_bench

    rows = balance_bench.run(
        count,
        dim,
        queries,
        tuple(groups or balance_bench.GROUPS),
        tuple(k or balance_bench.DEPTHS),
        rounds,
    )
    if as_json:
        print_json(rows, "share", "aim")
        return
    console = table_console()
    table = Table(
        "groups",
        "k",
        "search, ms per query",
        "balanced, ms per query",
        "added, ms",
        "added / search",
        "aim: under",
        title=f"equipoise bench balance: {queries:,} queries at once, {count:,} x {dim} images",
    )
    with console.status("measuring"):
        for row in rows:
            times = [f"{value * 1e3:.1f}" for value in (row.search_seconds, row.balanced_seconds)]
            bounds = f"[{row.added_low * 1e3:.1f}, {row.added_high * 1e3:.1f}]"
            added = f"{row.added_seconds * 1e3:.1f} {bounds}"
            table.add_row(
                str(row.groups), str(row.k), *times, escape(added), f"{row.share:.0%}", row.aim
            )
    show(console, table)
