"""``equipoise bench annotate``: the annotation page with many people at once."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer
from rich.table import Table

from equipoise._cli.bench.showing import show_machine
from equipoise._cli.options import Json
from equipoise._cli.printing import table_console


def annotate(
    people: Annotated[int, typer.Option(help="How many people answer at once.", min=1)] = 50,
    seconds: Annotated[float, typer.Option(help="For how many seconds.")] = 60.0,
    count: Annotated[int, typer.Option(help="How many pictures the project has.", min=1)] = 2500,
    pause: Annotated[
        float,
        typer.Option(
            help=(
                "Seconds that each looks at a picture; 0 to answer as fast as the server lets them."
            )
        ),
    ] = 1.0,
    as_json: Json = False,
) -> None:
    """Time the annotation page with many people at once, and count labels lost or doubled."""
    from equipoise._bench import annotate as annotate_bench

    console = table_console()
    with console.status("measuring"):
        result = annotate_bench.measure(people, seconds, count, pause)
    if as_json:
        from equipoise._bench import machine

        typer.echo(json.dumps({"machine": machine.describe(), **asdict(result)}, indent=1))
        return
    table = Table(
        "request",
        "count",
        "per second",
        "median, ms",
        "99 %, ms",
        "slowest, ms",
        title="equipoise bench annotate",
    )
    for row in result.rows:
        times = (f"{value:.1f}" for value in (row.median, row.p99, row.slowest))
        table.add_row(row.request, f"{row.count:,}", f"{row.count / result.seconds:,.0f}", *times)
    console.print(table)
    found = f"{result.errors} errors, {result.lost} labels lost, {result.doubled} doubled"
    console.print(f"{result.annotators} annotators, {result.seconds:.0f} s: {found}")
    show_machine(console)
