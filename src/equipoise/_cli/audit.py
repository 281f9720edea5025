"""``equipoise audit``: from a model and photographs to a report worth sharing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from equipoise._cli import options
from equipoise._cli.printing import Console, say

FAILED = 3


def audit(
    images: Annotated[
        Path | None,
        typer.Argument(
            help=(
                "Photographs: a folder, a .csv or .parquet table, a store or a .npy file; gallery"
                " for mini's own; none for texts only."
            ),
            show_default=False,
        ),
    ] = None,
    model: options.Model = None,
    attribute: options.Attributes = None,
    prompts: options.Prompts = None,
    method: options.Methods = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder to write.")] = Path("audit"),
    force: options.Force = False,
    fail_above: Annotated[
        float | None,
        typer.Option(
            help="Exit with 3 where the first method's mean skew (texts only: lean) exceeds this.",
            min=0,
        ),
    ] = None,
    as_json: options.Json = False,
    group_columns: options.GroupColumns = None,
    label_column: options.LabelColumn = None,
    caption_column: options.CaptionColumn = None,
    embeddings: options.Embeddings = None,
    root: options.Root = None,
    book: options.BookOrGrammar = None,
    kappa: options.Kappa = None,
    skew_at: options.SkewAt = None,
    resamples: options.Resamples = 1000,
    seed: options.Seed = 0,
    first: Annotated[
        int,
        typer.Option(help='Places of "who comes first".', min=1, rich_help_panel=options.PAGE),
    ] = 20,
    gallery: Annotated[
        int,
        typer.Option(
            help="Pictures in each row of the galleries.", min=1, rich_help_panel=options.PAGE
        ),
    ] = 12,
    gallery_prompts: Annotated[
        int,
        typer.Option(
            help="Prompts that get a gallery, those of largest skew.",
            min=1,
            rich_help_panel=options.PAGE,
        ),
    ] = 12,
    pictures: Annotated[
        bool,
        typer.Option(
            "--pictures/--no-pictures",
            help="Whether the page holds small copies of the photographs.",
            rich_help_panel=options.PAGE,
        ),
    ] = True,
    vectors: options.Vectors = None,
    device: options.Device = None,
    dtype: options.Dtype = None,
    batch_size: options.Batch = None,
    workers: options.Workers = None,
    offline: options.Offline = None,
) -> None:
    """Measure how far a model leans to groups, before and after debiasing, and write one report.

    Without arguments: a demonstration, the embedded model on pictures of people who do not exist.
    """
    from equipoise._audit import AuditSettings
    from equipoise._audit.documents import RESULTS
    from equipoise._verbs.audit import AuditRequest, run_plans
    from equipoise._verbs.destinations import require_free_folder

    require_free_folder(out, force, RESULTS)
    request = AuditRequest(
        images=images,
        model=model,
        vectors=vectors,
        embeddings=embeddings,
        root=root,
        attributes=attribute or (),
        group_columns=group_columns or (),
        label_column=label_column,
        caption_column=caption_column,
        prompts=prompts,
        book=book,
        methods=method or (),
        kappa=kappa,
    )
    settings = AuditSettings(
        m=skew_at,
        places=first,
        gallery=gallery,
        gallery_prompts=gallery_prompts,
        resamples=resamples,
        seed=seed,
    )
    plans = request.plans(
        settings,
        device=device,
        dtype=dtype,
        batch_size=batch_size,
        workers=workers,
        offline=offline,
    )
    found = run_plans(plans, out, pictures)
    documents = [audited.results for _, audited in found]
    if as_json:
        shown = documents if len(documents) > 1 else documents[0]
        say(json.dumps(shown, ensure_ascii=False, indent=1))
    else:
        _show(found)
    if fail_above is not None:
        _judge(documents, fail_above)


def _show(found: list[Any]) -> None:
    from equipoise.report._terminal import summary

    console = Console()
    for folder, audited in found:
        console.print(summary(audited.results))
        page = escape(str(folder / "report.html"))
        console.print(f"Report: [bold]{page}[/bold]", soft_wrap=True, highlight=False)


def _judge(documents: list[dict[str, Any]], limit: float) -> None:
    worst = max(_first(results) for results in documents)
    if worst > limit:
        typer.secho(f"equipoise: {worst:.4f} is above {limit:g}", err=True, fg=typer.colors.RED)
        raise typer.Exit(FAILED)


def _first(results: dict[str, Any]) -> float:
    """Return the first method's mean skew or lean; the model's own where there is no method."""
    values = results["summary"][results["verdict"]["row"]]["values"]
    return values[min(1, len(values) - 1)]["value"]
