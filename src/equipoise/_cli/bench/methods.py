"""``equipoise bench methods``: methods beside the closed form."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from equipoise._cli.bench.showing import Rounds, print_json, show
from equipoise._cli.options import Json
from equipoise._cli.printing import table_console


def methods(
    method: Annotated[
        list[str] | None,
        typer.Option(
            help=(
                "A method; repeat for several. By default, all methods that are fitted"
                " without gradients."
            )
        ),
    ] = None,
    count: Annotated[int, typer.Option(help="How many rows to apply each to.")] = 200_000,
    dim: Annotated[int, typer.Option(help="Width of the embeddings.")] = 512,
    groups: Annotated[int, typer.Option(help="Groups of the attribute.")] = 2,
    rounds: Rounds = 5,
    as_json: Json = False,
) -> None:
    """Time the fitting and applying of methods on the same rows, as ratios to the closed form."""
    from equipoise._bench import methods as methods_bench

    measured = methods_bench.run(tuple(method or methods_bench.METHODS), count, dim, groups, rounds)
    if as_json:
        print_json(measured, "over_closed_form")
        return
    console = table_console()
    table = Table(
        "method",
        "form",
        "rank",
        "fit, s",
        "apply, ms",
        "apply / closed-form",
        title=f"equipoise bench methods, {count:,} x {dim} float32",
    )
    with console.status("measuring"):
        for row in measured:
            rank = "" if row.rank is None else str(row.rank)
            table.add_row(
                row.method,
                row.form,
                rank,
                f"{row.fit_seconds:.3f}",
                f"{row.seconds * 1e3:.1f}",
                f"{row.over_closed_form:.2f}",
            )
    show(console, table)
