"""``equipoise generate``: prompts x methods x seeds, drawn, labelled and measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from equipoise._cli.options import Device, Dtype, Json, Offline
from equipoise._cli.printing import say, table_console


def generate(
    out: Annotated[
        Path, typer.Argument(help="The run's folder; the same command goes on where it was.")
    ],
    model: Annotated[
        str,
        typer.Option(
            help="A diffusers pipeline by its id or folder, or mini, the embedded generator."
        ),
    ] = "mini",
    prompts: Annotated[
        str | None,
        typer.Option(
            "--prompts", "-p", help="A text file, one a line, a prompt book, or a prompt."
        ),
    ] = None,
    attribute: Annotated[
        str, typer.Option("--attribute", "-a", help='gender, age, "gender&age", or a .toml file.')
    ] = "gender",
    method: Annotated[
        list[str] | None,
        typer.Option(
            "--method",
            help=(
                "closed-form:kappa=2, orth-proj, orth-cali:projection=false, sfid:on=unet; none is"
                " always drawn."
            ),
        ),
    ] = None,
    images: Annotated[
        int | None,
        typer.Option(
            "--images", "-n", help="Pictures of each prompt and method; 8 by default.", min=1
        ),
    ] = None,
    preset: Annotated[
        str | None, typer.Option(help="paper: its prompts, methods, 100 pictures of each, no gate.")
    ] = None,
    seed: Annotated[
        int, typer.Option(help="Of the first picture; the same noise for all methods.", min=0)
    ] = 0,
    gate: Annotated[
        bool | None,
        typer.Option(
            "--gate/--no-gate", help="Leave prompts that name a group alone; on by default."
        ),
    ] = None,
    tokens: Annotated[
        str, typer.Option(help="after-sos edits padding too, unpadded does not.")
    ] = "after-sos",
    book: Annotated[
        str | None,
        typer.Option("--book", "-b", help="The prompt book to fit with; a curated one by default."),
    ] = None,
    steps: Annotated[
        int | None, typer.Option(help="Of the denoising; the model's own by default.", min=1)
    ] = None,
    guidance: Annotated[
        float | None, typer.Option(help="Of the prompt; the model's own by default.")
    ] = None,
    size: Annotated[
        int | None, typer.Option(help="Of a picture's side in pixels; the model's own by default.")
    ] = None,
    batch_size: Annotated[
        int | None,
        typer.Option(help="Pictures at once; 8 by default, fewer where memory is short.", min=1),
    ] = None,
    annotator: Annotated[
        str | None,
        typer.Option(
            help="Who labels: blip2:ID-or-folder, encoder:SPEC (encoder:mini) or llm:MODEL."
        ),
    ] = None,
    base_url: Annotated[
        str | None, typer.Option(help="Of the language model's server; OpenAI's by default.")
    ] = None,
    labels: Annotated[
        Path | None, typer.Option(help="People's answers: the CSV that equipoise annotate exports.")
    ] = None,
    people: Annotated[
        int | None,
        typer.Option(help="Answers that a picture needs; 3 with the preset, else 1.", min=1),
    ] = None,
    replace: Annotated[
        bool,
        typer.Option("--replace", help="Draw again what --labels disagree on or are unsure of."),
    ] = False,
    clip_score: Annotated[
        str | None,
        typer.Option(help="An encoder for the CLIP score, another than the generator's."),
    ] = None,
    same_encoder: Annotated[
        bool, typer.Option("--same-encoder", help="Score with the generator's own all the same.")
    ] = False,
    resamples: Annotated[int, typer.Option(help="Resamples of the bootstrap.", min=1)] = 1000,
    device: Device = None,
    dtype: Dtype = None,
    offline: Offline = None,
    as_json: Json = False,
) -> None:
    """Draw pictures with and without debiasing, from the same noise; label and measure them where
    asked.
    """
    from equipoise.generation._commands import Request
    from equipoise.generation._table import rich_table
    from equipoise.report._generation import perform

    drawing = {
        "steps": steps,
        "guidance": guidance,
        "size": size,
        "batch_size": batch_size,
        "seed": seed,
        "tokens": tokens,
        "book": book,
    }
    judging = {
        "annotator": annotator,
        "labels": labels,
        "people": people,
        "replace": replace,
        "clip_score": clip_score,
    }
    judging |= {
        "same_encoder": same_encoder,
        "resamples": resamples,
        "server": {"base_url": base_url},
    }
    asked = {
        "prompts": prompts,
        "methods": tuple(method or ()),
        "images": images,
        "preset": preset,
        "gate": gate,
        "attribute": attribute,
    }
    loading = {"device": device, "dtype": dtype, "offline": offline}
    manifest, results = perform(Request(out, model, **asked, **drawing, **judging, loading=loading))
    if as_json:
        say(
            json.dumps(
                results or {"pictures": len(manifest.pictures), "folder": str(out)},
                ensure_ascii=False,
                indent=1,
            )
        )
        return
    console = table_console()
    if results is not None:
        console.print(rich_table(results))
        console.print(
            f"Report: [bold]{escape(str(out / 'report.html'))}[/bold]",
            soft_wrap=True,
            highlight=False,
        )
    console.print(
        f"{len(manifest.pictures):,} pictures in {escape(str(out))}, contact sheets in sheets/",
        soft_wrap=True,
        highlight=False,
    )
