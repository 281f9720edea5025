"""``equipoise compare``: a grid of methods and parameters, a file a cell, finished ones not computed again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from equipoise.cli import evaluating as options
from equipoise.cli.options import Batch, Device, Dtype, Json, Offline, Workers
from equipoise.progress import tell


def compare(
    folder: Annotated[Path, typer.Argument(help="Where the runs' JSON files go; a run that is there already is not computed again.")],
    dataset: options.Dataset = None,
    task: options.Task = "classification",
    method: options.Methods = None,
    preset: Annotated[str | None, typer.Option(help="table2, table3 or table5: the paper's methods, or its grid of settings.")] = None,
    model: options.Model = None,
    vectors: options.Vectors = None,
    embeddings: options.Embeddings = None,
    root: options.Root = None,
    images: options.Images = None,
    label_column: options.LabelColumn = None,
    group_columns: options.GroupColumns = None,
    caption_column: options.CaptionColumn = None,
    attribute: options.Attribute = None,
    book: Annotated[list[str] | None, typer.Option("--book", "-b", help="A book; several make it a part of the grid.")] = None,
    prompts: options.Prompts = None,
    template: options.Template = None,
    positive: options.Positive = None,
    protocol: options.Protocol = "released",
    m: options.M = None,
    k: options.K = None,
    gate: options.Gate = False,
    over: options.Over = "images",
    resamples: options.Resamples = 1000,
    interval: options.Interval = "percentile",
    seed: options.Seed = 0,
    on_missing: options.OnMissing = "raise",
    on_unreadable: options.OnUnreadable = "skip",
    one_person: options.OnePerson = None,
    export: options.Export = None,
    device: Device = None,
    dtype: Dtype = None,
    batch_size: Batch = None,
    workers: Workers = None,
    offline: Offline = None,
    as_json: Json = False,
) -> None:
    """Measure a grid: closed-form:kappa=0.5|1|inf,modality=image|text is six methods. Stopped, it goes on where it was."""
    from equipoise import tasks
    from equipoise.tasks import Settings, tables
    from equipoise.tasks.commands import Request

    settings = Settings(protocol, m, tuple(k or (5, 10)), gate, over, resamples, interval=interval, seed=seed)
    columns = {"label_column": label_column, "group_columns": group_columns or (), "caption_column": caption_column}
    sources = {"root": root, "images": images, "model": model, "vectors": vectors, "embeddings": embeddings, "one_person": one_person}
    books = list(book or [])
    wording = {"book": books[0] if books else None, "prompts": prompts, "template": template, "positive": positive, "attribute": attribute}
    request = Request(task, dataset, on_missing=on_missing, on_unreadable=on_unreadable, **columns, **sources, **wording)
    specs = tasks.grid(preset, method or [], books, task)
    tables.check_paths(export or [])
    loading = {"device": device, "dtype": dtype, "batch_size": batch_size, "workers": workers, "offline": offline}
    evaluation = request.evaluation(settings, **loading)
    runs, found = tasks.compare(evaluation, specs, folder, progress=tell)
    for path in export or []:
        tables.export(runs, path)
    if as_json:
        typer.echo(json.dumps(runs, indent=1, ensure_ascii=False))
        return
    console = Console()
    console.print(
        f"{len(runs)} runs in {folder}, {found} of them from before. {tables.summary(runs[0])}",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )
    for table in tables.rich_tables(runs):
        console.print(table)
