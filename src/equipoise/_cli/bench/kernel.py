"""``equipoise bench kernel``: the kernel beside a copy of the array and the paper's formula."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from equipoise._cli.bench.showing import Rounds, print_json, show
from equipoise._cli.options import Json
from equipoise._cli.printing import table_console


def kernel(
    device: Annotated[str, typer.Option(help="cpu or cuda")] = "cpu",
    dim: Annotated[
        list[int] | None, typer.Option(help="Width of the embeddings; repeat for several.")
    ] = None,
    rank: Annotated[
        list[int] | None, typer.Option(help="Rank of the attribute space; repeat for several.")
    ] = None,
    dtype: Annotated[
        list[str] | None,
        typer.Option(help="float64 (cpu), float32, float16, bfloat16 (cuda); repeat for several."),
    ] = None,
    mebibytes: Annotated[
        int | None, typer.Option(help="MiB of each array; default 256 on the CPU, 2048 on CUDA.")
    ] = None,
    rounds: Rounds = 7,
    as_json: Json = False,
) -> None:
    """Time the debiasing kernel, as ratios to a plain copy of the same array and to the paper's
    formula written straight down.
    """
    from equipoise._bench import kernel as kernel_bench

    rows = kernel_bench.run(
        device, dim or kernel_bench.DIMS, rank or kernel_bench.RANKS, dtype, mebibytes, rounds
    )
    if as_json:
        print_json(rows, "over_copy", "over_transcription")
        return
    console = table_console()
    table = Table(
        "dtype",
        "d",
        "r",
        "kernel",
        "ms",
        "GB/s",
        "time / copy",
        "times faster than the paper's formula",
        title="equipoise bench kernel",
    )
    with console.status("measuring"):
        for row in rows:
            milliseconds, speed = f"{row.seconds * 1e3:.2f}", f"{row.gigabytes_per_second:.1f}"
            ratios = f"{row.over_copy:.2f}", f"{row.over_transcription:.1f}"
            table.add_row(
                row.dtype, str(row.dim), str(row.rank), row.kernel, milliseconds, speed, *ratios
            )
    show(console, table)
