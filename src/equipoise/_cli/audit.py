"""``equipoise audit``: from a model and photographs to a report worth sharing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from equipoise._cli.options import Batch, Device, Dtype, Json, Offline, Workers
from equipoise._cli.printing import Console, say

FAILED = 3


def audit(
    model: Annotated[
        str | None,
        typer.Option(
            help="The encoder, as eq.load_encoder takes it; the embedded mini by default."
        ),
    ] = None,
    images: Annotated[
        Path | None,
        typer.Option(
            help=(
                "Photographs: a folder, a .csv or .parquet table, a store, a .npy file; gallery:"
                " mini's; none: texts only."
            )
        ),
    ] = None,
    attribute: Annotated[
        list[str] | None,
        typer.Option(
            "--attribute",
            "-a",
            help='gender, age, "gender&age", or a .toml file; repeat for several audits.',
        ),
    ] = None,
    group_columns: Annotated[
        list[str] | None,
        typer.Option(
            help=(
                "The table's column of groups; repeat for several. Without: perceived by zero-shot."
            )
        ),
    ] = None,
    prompts: Annotated[
        str | None,
        typer.Option(
            "--prompts",
            "-p",
            help="A text file, one a line, or a prompt book; curated ones by default.",
        ),
    ] = None,
    method: Annotated[
        list[str] | None,
        typer.Option(
            "--method", help="closed-form, adapted:kappa=inf, ... or none; repeat for several."
        ),
    ] = None,
    kappa: Annotated[
        float | None,
        typer.Option(help="Of every method that has one: 1 is the paper, inf the projection."),
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder to write.")] = Path("audit"),
    force: Annotated[
        bool, typer.Option("--force", help="Replace the files of an audit that is there already.")
    ] = False,
    fail_above: Annotated[
        float | None,
        typer.Option(
            help=(
                "Exit with 3 where the first method's mean skew (texts only: lean) exceeds this;"
                " for CI."
            ),
            min=0,
        ),
    ] = None,
    book: Annotated[
        str | None,
        typer.Option(
            "--book", "-b", help="The prompt book to fit with, where it is not that of the prompts."
        ),
    ] = None,
    vectors: Annotated[
        Path | None, typer.Option(help="In place of a model: a file of text vectors.")
    ] = None,
    embeddings: Annotated[
        Path | None,
        typer.Option(help="Stored embeddings of a table's images: a store or a .npy file."),
    ] = None,
    root: Annotated[
        Path | None, typer.Option(help="The folder that a table's file names are relative to.")
    ] = None,
    label_column: Annotated[
        str | None,
        typer.Option(help="The table's column of classes, for zero-shot classification."),
    ] = None,
    caption_column: Annotated[
        str | None, typer.Option(help="The table's column of captions, for recall.")
    ] = None,
    m: Annotated[
        int | None,
        typer.Option(
            "-m",
            help="Places that skew looks at; a tenth of the images, 20 to 1000, by default.",
            min=1,
        ),
    ] = None,
    places: Annotated[int, typer.Option(help='Places of "who comes first".', min=1)] = 20,
    gallery: Annotated[
        int, typer.Option(help="Pictures in each row of the galleries.", min=1)
    ] = 12,
    gallery_prompts: Annotated[
        int, typer.Option(help="Prompts that get a gallery, those of largest skew.", min=1)
    ] = 12,
    pictures: Annotated[
        bool,
        typer.Option(
            "--pictures/--no-pictures",
            help="Whether the report holds small copies of the photographs.",
        ),
    ] = True,
    resamples: Annotated[int, typer.Option(help="Resamples of the bootstrap.", min=1)] = 1000,
    seed: Annotated[int, typer.Option(help="Of everything random.")] = 0,
    device: Device = None,
    dtype: Dtype = None,
    batch_size: Batch = None,
    workers: Workers = None,
    offline: Offline = None,
    as_json: Json = False,
) -> None:
    """Measure how far a model leans to groups, before and after debiasing, and write one report.

    Without arguments: a demonstration, the embedded model on pictures of people who do not exist.
    """
    from equipoise._audit import Settings
    from equipoise._audit.commands import Request, prepare
    from equipoise.report._commands import perform
    from equipoise.report._terminal import summary

    prepare(out, force)
    columns = {
        "group_columns": group_columns or (),
        "label_column": label_column,
        "caption_column": caption_column,
    }
    sources = {
        "model": model,
        "vectors": vectors,
        "images": images,
        "embeddings": embeddings,
        "root": root,
    }
    wanted = {
        "attributes": attribute or (),
        "prompts": prompts,
        "book": book,
        "methods": method or (),
        "kappa": kappa,
    }
    settings = Settings(
        m=m,
        places=places,
        gallery=gallery,
        gallery_prompts=gallery_prompts,
        resamples=resamples,
        seed=seed,
    )
    loading = {
        "device": device,
        "dtype": dtype,
        "batch_size": batch_size,
        "workers": workers,
        "offline": offline,
    }
    plans = Request(**sources, **columns, **wanted).plans(settings, **loading)
    found = perform(plans, out, pictures)
    if as_json:
        say(
            json.dumps(
                [results for _, results in found] if len(found) > 1 else found[0][1],
                ensure_ascii=False,
                indent=1,
            )
        )
    else:
        console = Console()
        for folder, results in found:
            console.print(summary(results))
            console.print(
                f"Report: [bold]{escape(str(folder / 'report.html'))}[/bold]",
                soft_wrap=True,
                highlight=False,
            )
    if fail_above is not None and (
        above := [v for _, results in found if (v := _first(results)) > fail_above]
    ):
        typer.secho(
            f"equipoise: {max(above):.4f} is above {fail_above:g}", err=True, fg=typer.colors.RED
        )
        raise typer.Exit(FAILED)


def _first(results: dict) -> float:
    """The mean skew or lean of the first method asked for; of the model as it is, where that was
    all.
    """
    values = results["summary"][results["verdict"]["row"]]["values"]
    return values[min(1, len(values) - 1)]["value"]
