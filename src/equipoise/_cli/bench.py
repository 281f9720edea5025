"""``equipoise bench``: the table of ratios, for people or as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from equipoise._bench import apply as apply_bench
from equipoise._bench import bootstrap as bootstrap_bench
from equipoise._bench import kernel as kernel_bench
from equipoise._bench import machine
from equipoise._cli.grammar import Verb
from equipoise._cli.options import Batch, Device, Dtype, Json, Model, Workers
from equipoise._cli.printing import table_console

app = typer.Typer(
    pretty_exceptions_show_locals=False,
    help="Measure speed on this machine, as ratios to a plain copy and to the obvious way.",
    no_args_is_help=True,
)


@app.command(cls=Verb)
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
    rounds: Annotated[
        int, typer.Option(help="How many rounds to run; the median counts.", min=1)
    ] = 7,
    as_json: Json = False,
) -> None:
    """Time the debiasing kernel, as ratios to a plain copy of the same array and to the paper's
    formula written straight down.
    """
    rows = kernel_bench.run(
        device, dim or kernel_bench.DIMS, rank or kernel_bench.RANKS, dtype, mebibytes, rounds
    )
    if as_json:
        measured = [
            asdict(row) | {"over_copy": row.over_copy, "over_transcription": row.over_transcription}
            for row in rows
        ]
        typer.echo(json.dumps({"machine": machine.describe(), "rows": measured}, indent=1))
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
    _show(console, table)


@app.command(cls=Verb)
def encode(
    model: Model = "mini",
    count: Annotated[int, typer.Option(help="How many files of each size.", min=1)] = 2000,
    size: Annotated[
        list[int] | None, typer.Option(help="Width of the pictures; repeat for several.")
    ] = None,
    rounds: Annotated[
        int, typer.Option(help="How many rounds to run; the median counts.", min=1)
    ] = 3,
    device: Device = None,
    dtype: Dtype = None,
    batch_size: Batch = None,
    workers: Workers = None,
    as_json: Json = False,
) -> None:
    """Time an encoder on JPEG files beside the model alone on pixels that are already decoded."""
    from equipoise._bench import encode as encode_bench
    from equipoise.encoders import load_encoder

    encoder = load_encoder(
        model or "mini", device=device, dtype=dtype, batch_size=batch_size, workers=workers
    )
    rows = encode_bench.run(
        encoder, images=count, sizes=tuple(size or encode_bench.SIZES), rounds=rounds
    )
    if as_json:
        typer.echo(
            json.dumps(
                {
                    "machine": machine.describe(),
                    "rows": [asdict(row) | {"share": row.share} for row in rows],
                },
                indent=1,
            )
        )
        return
    console = table_console()
    table = Table(
        "runs",
        "files",
        "batch",
        "workers",
        "model alone",
        "from files",
        "share",
        "texts",
        title=f"equipoise bench encode {model}",
    )
    with console.status("measuring"):
        for row in rows:
            rates = (
                f"{row.model_alone:,.0f}/s",
                f"{row.from_files:,.0f}/s",
                f"{row.share:.0%}",
                f"{row.texts:,.0f}/s",
            )
            table.add_row(
                row.runs,
                f"{row.images:,} x {row.pixels} px",
                str(row.batch),
                str(row.workers),
                *rates,
            )
    _show(console, table)


@app.command(cls=Verb)
def bootstrap(
    samples: Annotated[
        int, typer.Option(help="Images of the classification task.")
    ] = bootstrap_bench.SAMPLES,
    groups: Annotated[int, typer.Option(help="Groups.")] = bootstrap_bench.GROUPS,
    resamples: Annotated[int, typer.Option(help="Resamples.")] = bootstrap_bench.RESAMPLES,
    rounds: Annotated[
        int, typer.Option(help="How many rounds to run; the median counts.", min=1)
    ] = 3,
    as_json: Json = False,
) -> None:
    """Time the interval of equal opportunity from cell counts, as a ratio to
    scipy.stats.bootstrap on the rows.
    """
    console = table_console()
    with console.status("measuring"):
        row = bootstrap_bench.run(samples, groups, resamples, rounds)
    if as_json:
        typer.echo(
            json.dumps(
                {
                    "machine": machine.describe(),
                    "rows": [asdict(row) | {"over_scipy": row.over_scipy}],
                },
                indent=1,
            )
        )
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
    _show(console, table)


@app.command(cls=Verb)
def apply(
    count: Annotated[
        list[int] | None,
        typer.Option(
            help="How many rows the store has; repeat for several, to see how time grows."
        ),
    ] = None,
    dim: Annotated[int, typer.Option(help="Width of the embeddings.")] = apply_bench.DIM,
    rank: Annotated[int, typer.Option(help="Rank of the attribute space.")] = 1,
    rounds: Annotated[
        int, typer.Option(help="How many rounds to run; the median counts.", min=1)
    ] = 5,
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
    console = table_console()
    with console.status("measuring"):
        measured = list(
            apply_bench.run(count or [apply_bench.ROWS], dim, rank, rounds, folder, script)
        )
    if as_json:
        lines = [
            asdict(row) | {"over_copy": row.over_copy, "over_script": row.over_script}
            for row in measured
        ]
        typer.echo(json.dumps({"machine": machine.describe(), "rows": lines}, indent=1))
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
    _show(console, table)


@app.command(cls=Verb)
def retrieval(
    count: Annotated[int, typer.Option(help="How many images to search.")] = 1_000_000,
    queries: Annotated[int, typer.Option(help="Texts to search for.")] = 1000,
    dim: Annotated[int, typer.Option(help="Width of the embeddings.")] = 512,
    k: Annotated[
        list[int] | None,
        typer.Option("-k", "--depth", help="Images to find for each text; repeat for several."),
    ] = None,
    block: Annotated[int | None, typer.Option(help="Images scored at once.")] = None,
    rounds: Annotated[
        int, typer.Option(help="How many rounds to run; the median counts.", min=1)
    ] = 3,
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
        measured = [
            asdict(row) | {"over_faiss": row.over_faiss, "over_product": row.over_product}
            for row in rows
        ]
        typer.echo(json.dumps({"machine": machine.describe(), "rows": measured}, indent=1))
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
    _show(console, table)


@app.command(cls=Verb)
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
    rounds: Annotated[
        int, typer.Option(help="How many rounds to run; the median counts.", min=1)
    ] = 3,
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
        measured = [
            asdict(row) | {"added_seconds": row.added_seconds, "share": row.share, "aim": row.aim}
            for row in rows
        ]
        typer.echo(json.dumps({"machine": machine.describe(), "rows": measured}, indent=1))
        return
    console = table_console()
    table = Table(
        "groups",
        "k",
        "search, ms a query",
        "balanced, ms a query",
        "added, ms",
        "added / search",
        "aim: under",
        title=f"equipoise bench balance: {queries:,} queries at once, {count:,} x {dim} images",
    )
    with console.status("measuring"):
        for row in rows:
            seconds = row.search_seconds, row.balanced_seconds, row.added_seconds
            times = (f"{value * 1e3:.1f}" for value in seconds)
            table.add_row(str(row.groups), str(row.k), *times, f"{row.share:.0%}", row.aim)
    _show(console, table)


@app.command(cls=Verb)
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
    rounds: Annotated[
        int, typer.Option(help="How many rounds to run; the median counts.", min=1)
    ] = 5,
    as_json: Json = False,
) -> None:
    """Time the fitting and applying of methods on the same rows, as ratios to the closed form."""
    from equipoise._bench import methods as methods_bench

    measured = methods_bench.run(tuple(method or methods_bench.METHODS), count, dim, groups, rounds)
    if as_json:
        lines = [asdict(row) | {"over_closed_form": row.over_closed_form} for row in measured]
        typer.echo(json.dumps({"machine": machine.describe(), "rows": lines}, indent=1))
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
    _show(console, table)


@app.command(cls=Verb)
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
        typer.echo(json.dumps({"machine": machine.describe(), "rows": [asdict(row)]}, indent=1))
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
    _show(console, table)


@app.command(cls=Verb)
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
    _machine(console)


@app.command(cls=Verb)
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
        document = {"machine": machine.describe(), "rows": [asdict(row) for row in rows]}
        typer.echo(json.dumps(document | {"crowd": many}, indent=1))
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
    _machine(console)


def _show(console: Console, table: Table) -> None:
    console.print(table)
    _machine(console)


def _machine(console: Console) -> None:
    console.print(
        " · ".join(f"{k} {v}" for k, v in machine.describe().items()), style="dim", soft_wrap=True
    )
