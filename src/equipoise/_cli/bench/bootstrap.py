"""``equipoise bench bootstrap``: an interval from cell counts beside scipy's bootstrap."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from equipoise._cli.bench.showing import Rounds, print_json, show
from equipoise._cli.options import Json
from equipoise._cli.printing import table_console


def bootstrap(
    samples: Annotated[int, typer.Option(help="Images of the classification task.")] = 39_829,
    groups: Annotated[int, typer.Option(help="Groups.")] = 4,
    resamples: Annotated[int, typer.Option(help="Resamples.")] = 1000,
    rounds: Rounds = 3,
    as_json: Json = False,
) -> None:
    """Time the interval of equal opportunity from cell counts, as a ratio to
    scipy.stats.bootstrap on the rows.
    """
    from equipoise._bench import bootstrap as bootstrap_bench

    console = table_console()
    with console.status("measuring"):
        row = bootstrap_bench.run(samples, groups, resamples, rounds)
    if as_json:
        print_json([row], "over_scipy")
        return
    table = Table(
        "samples",
        "groups",
        "resamples",
        "ms",
        "scipy ms",
        "times faster",
        "interval",
        "scipy's",
        title="equipoise bench bootstrap",
    )
    sizes = (f"{n:,}" for n in (row.samples, row.groups, row.resamples))
    ends = (f"[{low:.4f}, {high:.4f}]" for low, high in (row.interval, row.scipy_interval))
    table.add_row(
        *sizes,
        f"{row.seconds * 1e3:.2f}",
        f"{row.scipy_seconds * 1e3:.0f}",
        f"{row.over_scipy:.0f}",
        *ends,
    )
    show(console, table)
