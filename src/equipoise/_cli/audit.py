"""``equipoise audit``: from a model and photographs to a report worth sharing."""

from __future__ import annotations

import json
import math
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from equipoise._cli import options
from equipoise._cli.printing import Console, say

if TYPE_CHECKING:
    from equipoise._audit import AuditPlan
    from equipoise._audit.results import AuditDocument
    from equipoise._verbs.audit import AuditResults

FAILED = 3
RECORD = "For the record"


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
            help=(
                "Exit with status 3 if the mean skew (without images, the mean lean)"
                " exceeds this. It judges the recommended method or, if there is none,"
                " the model as it is."
            ),
            min=0,
        ),
    ] = None,
    fail_on: Annotated[
        str | None,
        typer.Option(
            help=(
                "The method that --fail-above judges, by its name in the report; none"
                " for the model as it is."
            ),
            show_default=False,
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
    m: options.SkewAt = None,
    resamples: options.Resamples = 1000,
    seed: options.Seed = 0,
    first: Annotated[
        int,
        typer.Option(
            help='How many results "who comes first" shows.', min=1, rich_help_panel=options.PAGE
        ),
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
            help="How many prompts get a gallery, from the largest skew down.",
            min=1,
            rich_help_panel=options.PAGE,
        ),
    ] = 12,
    organisation: Annotated[
        str | None,
        typer.Option(help="Whose model it is, for the record.", rich_help_panel=RECORD),
    ] = None,
    auditor: Annotated[
        str | None, typer.Option(help="Who audits, for the record.", rich_help_panel=RECORD)
    ] = None,
    purpose: Annotated[
        str | None,
        typer.Option(help="What the audit is for, for the record.", rich_help_panel=RECORD),
    ] = None,
    pictures: Annotated[
        bool,
        typer.Option(
            "--pictures/--no-pictures",
            help="Whether to keep small copies of the photographs, and their embeddings.",
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

    Without arguments it is a demonstration: the embedded model, on pictures of people who do not
    exist.
    """
    from equipoise._audit import AuditSettings
    from equipoise._audit.documents import RESULTS
    from equipoise._audit.record import AuditOrder
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
        m=m,
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
    if fail_on is not None:
        _require_method(plans, fail_on)
    typed = shlex.join(["equipoise", *sys.argv[1:]])
    order = AuditOrder(organisation, auditor, purpose, typed)
    found = run_plans(plans, out, pictures, request, order)
    if as_json:
        documents = [audited.results for _, audited in found]
        shown = documents if len(documents) > 1 else documents[0]
        say(json.dumps(shown, ensure_ascii=False, indent=1))
    else:
        _show(found)
    if fail_above is not None:
        _judge([audited.document for _, audited in found], fail_above, fail_on)


def _show(found: list[tuple[Path, AuditResults]]) -> None:
    from equipoise.report._terminal import summary

    console = Console()
    for folder, audited in found:
        console.print(summary(audited.document), crop=False)  # lines to copy stay whole
        page = escape(str(folder / "report.html"))
        console.print(f"Report: [bold]{page}[/bold]", soft_wrap=True, highlight=False)


def _require_method(plans: list[AuditPlan], name: str) -> None:
    """Raise before the long work where no method has this name."""
    from equipoise.errors import InputError

    for plan in plans:
        labels = [spec.label for spec in plan.all_specs]
        if name not in labels:
            raise InputError(f"`fail_on` is {name!r}; pass one of {', '.join(labels)}")


def _judge(documents: list[AuditDocument], limit: float, name: str | None) -> None:
    """Exit with 3 where a method's mean skew or lean is above the limit."""
    judged = [_judged(document, name) for document in documents]
    label, worst = max(judged, key=lambda pair: pair[1])
    if worst > limit:
        said = f"equipoise: {worst:.4f} with {label} is above {limit:g}"
        typer.secho(said, err=True, fg=typer.colors.RED)
        raise typer.Exit(FAILED)


def _judged(document: AuditDocument, name: str | None) -> tuple[str, float]:
    """Return the method judged and its mean: the one named, the one recommended, or none."""
    from equipoise.errors import InputError

    labels = [method.label for method in document.methods]
    if name is not None and name not in labels:
        raise InputError(f"{name} was left out of the audit: {' '.join(document.notes)}")
    place = document.recommendation.method or 0
    if name is not None:
        place = labels.index(name)
    mean = document.summary[document.verdict.row].values[place].value
    return labels[place], math.nan if mean is None else mean
