"""``equipoise evaluate``: one model, one dataset, one task, any methods."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from equipoise.cli import evaluating as options
from equipoise.cli.options import Batch, Device, Dtype, Json, Offline, Workers


def evaluate(
    dataset: options.Dataset = None,
    task: options.Task = "classification",
    method: options.Methods = None,
    model: options.Model = None,
    vectors: options.Vectors = None,
    embeddings: options.Embeddings = None,
    root: options.Root = None,
    images: options.Images = None,
    label_column: options.LabelColumn = None,
    group_columns: options.GroupColumns = None,
    caption_column: options.CaptionColumn = None,
    attribute: options.Attribute = None,
    book: Annotated[str | None, typer.Option("--book", "-b", help="A book's file, a curated one, or grammar. Found by default.")] = None,
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
    out: Annotated[Path | None, typer.Option("--out", "-o", help="The JSON file of the run; tables can be made from it again.")] = None,
    export: options.Export = None,
    device: Device = None,
    dtype: Dtype = None,
    batch_size: Batch = None,
    workers: Workers = None,
    offline: Offline = None,
    as_json: Json = False,
) -> None:
    """Measure methods on labelled images, with intervals and the paired difference from no debiasing."""
    from equipoise.tasks import Settings, parse, tables
    from equipoise.tasks.commands import Request
    from equipoise.tasks.document import write

    settings = Settings(protocol, m, tuple(k or (5, 10)), gate, over, resamples, interval=interval, seed=seed)
    columns = {"label_column": label_column, "group_columns": group_columns or (), "caption_column": caption_column}
    sources = {"root": root, "images": images, "model": model, "vectors": vectors, "embeddings": embeddings, "one_person": one_person}
    wording = {"attribute": attribute, "book": book, "prompts": prompts, "template": template, "positive": positive}
    request = Request(task, dataset, on_missing=on_missing, on_unreadable=on_unreadable, **columns, **sources, **wording)
    specs = parse(method or ["closed-form"])
    tables.check_paths(export or [])
    loading = {"device": device, "dtype": dtype, "batch_size": batch_size, "workers": workers, "offline": offline}
    run = request.evaluation(settings, **loading).run(specs)
    if out is not None:
        write(out, run)
    for path in export or []:
        tables.export([run], path)
    if as_json:
        typer.echo(json.dumps(run, indent=1, ensure_ascii=False))
        return
    console = Console()
    console.print(tables.summary(run), markup=False, highlight=False, soft_wrap=True)
    for table in tables.rich_tables([run]):
        console.print(table)
