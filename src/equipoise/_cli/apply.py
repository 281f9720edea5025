"""``equipoise apply``: a store of embeddings debiased into another."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.markup import escape
from rich.table import Table

from equipoise._cli import options
from equipoise._cli.printing import Console


def apply(
    source: Annotated[
        str,
        typer.Argument(
            help=(
                "A .npy or .parquet file, or a folder of them (of clip-retrieval, of"
                " equipoise embed, or any other), a path or a URL; or a column or collection of a"
                " database, such as qdrant:FOLDER#NAME."
            )
        ),
    ],
    out: Annotated[
        str,
        typer.Option(
            "--out",
            "-o",
            help="The file or folder to write; the new column or collection of a database.",
        ),
    ],
    space: Annotated[
        Path | None, typer.Option(help="An attribute space that equipoise fit wrote.")
    ] = None,
    operator: Annotated[
        Path | None,
        typer.Option(
            help=(
                "The operator of a fitted method, in place of a space. Add --space to"
                " certify it in that space."
            )
        ),
    ] = None,
    kappa: Annotated[
        float | None,
        typer.Option(
            help=(
                "The strength of debiasing: 0 changes nothing, 1 is the paper's balance,"
                " inf is the projection."
            )
        ),
    ] = None,
    norm: Annotated[
        Literal["unit", "keep"],
        typer.Option(help="unit: rows of length 1. keep: rows of the length that they had."),
    ] = "unit",
    rows: Annotated[
        str | None, typer.Option(help="Which files hold rows: a glob below SOURCE.")
    ] = None,
    metadata: Annotated[
        str | None,
        typer.Option(help="Which files of metadata to copy along: a glob below SOURCE."),
    ] = None,
    column: options.Column = None,
    modality: options.Modality = None,
    on_invalid: Annotated[
        Literal["raise", "keep"],
        typer.Option(help="Zero, NaN and infinite rows stop the run, or pass unchanged."),
    ] = "raise",
    key: Annotated[
        str | None,
        typer.Option(
            help="The unique column that orders a PostgreSQL table; its primary key by default."
        ),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(help="cpu, or cuda for the closed form; on Ray, the cluster's GPUs first."),
    ] = None,
    engine: Annotated[
        Literal["threads", "ray"],
        typer.Option(help="This machine's threads, or Ray Data on a cluster."),
    ] = "threads",
    address: Annotated[
        str | None,
        typer.Option(
            help=(
                "The address of the Ray cluster: auto, host:6379 or ray://host:10001; by"
                " default, a cluster on this machine."
            )
        ),
    ] = None,
    resume: options.Resume = False,
    verify: Annotated[
        bool,
        typer.Option(
            "--verify",
            help=(
                "Read what was written again and check it. If the run is finished, do only that."
            ),
        ),
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Say what the run would take, and write nothing. In rows, bytes and seconds.",
        ),
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Debias any number of stored embeddings, in bounded memory.

    The source is never changed; a killed run goes on with --resume.
    """
    from equipoise import _applying as applying
    from equipoise._verbs.apply import (
        apply,
        find_engine,
        in_database,
        read_transform,
        require_fitting,
    )

    require_fitting(
        source,
        rows=rows,
        metadata=metadata,
        column=column,
        key=key,
        ray=engine == "ray",
        device=device,
        address=address,
        verify=verify,
        dry_run=dry_run,
    )
    if in_database(source):
        report = apply(
            source,
            out,
            space=space,
            operator=operator,
            kappa=kappa,
            column=column,
            modality=modality,
            on_invalid=on_invalid,
            key=key,
            resume=resume,
            norm=norm,
        )
        _show(report.to_json(), as_json)
        return
    run, usual = find_engine(engine, address)
    transform = read_transform(space, operator, kappa, norm, device or usual)
    reading = applying.Options(rows, metadata, column, modality, on_invalid == "keep")
    if dry_run:
        estimate = applying.estimate(source, out, transform, reading)
        _show(asdict(estimate), as_json)
        return
    if verify and not resume and applying.is_finished(source, out, transform, reading):
        manifest = applying.verify(source, out, transform, reading)
        checked = sum(part.stop - part.start for part in manifest.shards)
        _show({"verified": len(manifest.shards), "rows": checked}, as_json)
        return
    report = applying.apply_files(source, out, transform, reading, engine=run, resume=resume)
    document = report.to_json()
    if verify:
        document["verified"] = len(applying.verify(source, out, transform, reading).shards)
    _show(document, as_json)


def _show(document: dict[str, Any], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(document, indent=1))
        return
    console = Console()
    if document.get("shards") == 0:
        console.print("nothing was left to write")
    certificate = document.pop("certificate", {})
    for name, value in document.items():
        console.print(f"{name:12} {escape(_number(value))}", highlight=False, soft_wrap=True)
    if certificate:
        console.print(_table(certificate))


def _number(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.1f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _table(certificate: dict[str, Any]) -> Table:
    columns = ("", "rows", "invalid", "leakage before", "leakage", "p95")
    table = Table(*columns, "self-utility loss", "p95", title="certificate (means)")
    for modality, found in certificate.items():
        cells = [modality, f"{found['n']:,}", f"{found['invalid']:,}"]
        if "leakage" in found:
            leakage, loss = found["leakage"], found["self_loss"]
            means = [found["leakage_before"]["mean"], leakage["mean"], leakage["p95"]]
            means += [loss["mean"], loss["p95"]]
            cells += [f"{number:.4f}" for number in means]
        table.add_row(*cells)
    return table
