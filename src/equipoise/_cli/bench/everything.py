"""``equipoise bench`` without a verb: every speed that somebody waits for, in one table."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from equipoise._cli.bench.showing import print_json, show
from equipoise._cli.options import Json
from equipoise._cli.printing import table_console


def everything(
    context: typer.Context,
    share: Annotated[
        float, typer.Option(help="Share of the full sizes, which take many minutes.")
    ] = 1.0,
    as_json: Json = False,
) -> None:
    """Measure speed on this machine, each beside a rival and a floor.

    Without a command, measure every speed that somebody waits for.
    """
    if context.invoked_subcommand is not None:
        return
    from equipoise._bench import everything as whole_bench

    lines = whole_bench.run(share)
    if as_json:
        print_json(lines)
        return
    console = table_console()
    table = Table("what", "measured", "aim", "rival", "floor", title="equipoise bench")
    with console.status("measuring") as status:
        for line in lines:
            table.add_row(line.what, line.measured, line.aim, line.rival, line.floor)
            status.update(f"measuring; done: {line.what}")
    show(console, table)
