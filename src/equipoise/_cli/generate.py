"""``equipoise generate``: prompts x methods x seeds, drawn, labelled and measured."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from equipoise._cli import options
from equipoise._cli.printing import say, table_console

DRAWING = "Drawing"
JUDGING = "Labels and scores"


def generate(
    prompts: Annotated[
        str | None,
        typer.Argument(
            help="A text file with one prompt per line, a prompt book, or a prompt in words.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            "-o",
            help="The run's folder; the same command, typed again, goes on where it stopped.",
        ),
    ] = Path("pictures"),
    pipeline: Annotated[
        str,
        typer.Option(
            help="A diffusers pipeline by its id or folder, mini, the embedded generator, or"
            " hosted:MODEL behind a server."
        ),
    ] = "mini",
    attribute: options.Attribute = "gender",
    method: options.Methods = None,
    target: Annotated[
        str | None,
        typer.Option(
            help="The shares that balanced aims at: equal (the default), male=0.3,female=0.7,"
            " kay2015 or a file. With --annotator and no --method, a closed loop looks for them.",
            show_default=False,
        ),
    ] = None,
    budget: Annotated[
        int | None,
        typer.Option(
            help="Pictures per prompt of the pilot by which balanced adjusts what it draws; it"
            " needs --annotator. 96 where --target and --annotator alone ask for a closed loop.",
            show_default=False,
            min=1,
        ),
    ] = None,
    per_prompt: Annotated[
        int | None,
        typer.Option(
            "--per-prompt", "-n", help="Pictures per prompt and method; 8 by default.", min=1
        ),
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            help="An experiment of the paper. paper: its prompts, methods and 100 pictures of each."
        ),
    ] = None,
    annotator: Annotated[
        str | None,
        typer.Option(
            help="Who labels: blip2:ID-or-folder, encoder:SPEC (encoder:mini) or llm:MODEL."
        ),
    ] = None,
    labels: Annotated[
        Path | None,
        typer.Option(
            help="Labels of the images: a table with one row per image, such as equipoise annotate"
            " exports."
        ),
    ] = None,
    as_json: options.Json = False,
    gate: options.Gate = None,
    book: options.Book = None,
    tokens: Annotated[
        str,
        typer.Option(
            help="after-sos edits padding too, unpadded does not.", rich_help_panel=DRAWING
        ),
    ] = "after-sos",
    steps: Annotated[
        int | None,
        typer.Option(
            help="Denoising steps; the model's own by default.", min=1, rich_help_panel=DRAWING
        ),
    ] = None,
    guidance: Annotated[
        float | None,
        typer.Option(help="Guidance; the model's own by default.", rich_help_panel=DRAWING),
    ] = None,
    size: Annotated[
        int | None,
        typer.Option(
            help="A picture's side in pixels; the model's own by default.", rich_help_panel=DRAWING
        ),
    ] = None,
    pipeline_url: Annotated[
        str | None,
        typer.Option(
            help="The server of hosted:MODEL: OpenAI's, or any that speaks its protocol.",
            rich_help_panel=DRAWING,
        ),
    ] = None,
    seed: options.Seed = 0,
    people: Annotated[
        int | None,
        typer.Option(
            help="How many answers a picture needs; 3 with the preset, else 1.",
            min=1,
            rich_help_panel=JUDGING,
        ),
    ] = None,
    redraw: Annotated[
        bool,
        typer.Option(
            "--redraw",
            help="Draw the pictures again on which --labels disagree or are unsure.",
            rich_help_panel=JUDGING,
        ),
    ] = False,
    base_url: options.BaseUrl = None,
    clip_score: Annotated[
        str | None,
        typer.Option(
            help="The encoder for the CLIP score; it must not be the generator's own.",
            rich_help_panel=JUDGING,
        ),
    ] = None,
    same_encoder: Annotated[
        bool,
        typer.Option(
            "--same-encoder",
            help="Allow the generator's own encoder for the CLIP score.",
            rich_help_panel=JUDGING,
        ),
    ] = False,
    resamples: options.Resamples = 1000,
    batch_size: options.Batch = None,
    device: options.Device = None,
    dtype: options.Dtype = None,
    offline: options.Offline = None,
) -> None:
    """Draw pictures with and without debiasing, from the same noise; label and measure them."""
    from equipoise._verbs.generate import GenerationRequest
    from equipoise._verbs.generate import generate as run
    from equipoise.generation._loop_table import rich_loops
    from equipoise.generation._table import rich_table

    request = GenerationRequest(
        out,
        pipeline,
        attribute=attribute or "gender",
        prompts=prompts,
        methods=tuple(method or ()),
        per_prompt=per_prompt,
        preset=preset,
        seed=seed,
        gate=gate,
        tokens=tokens,
        book=book,
        steps=steps,
        guidance=guidance,
        size=size,
        target=target,
        budget=budget,
        batch_size=batch_size,
        annotator=annotator,
        labels=labels,
        redraw=redraw,
        people=people,
        clip_score=clip_score,
        same_encoder=same_encoder,
        resamples=resamples,
        loading={
            "device": device,
            "dtype": dtype,
            "offline": offline,
            "base_url": pipeline_url,
        },
        server={"base_url": base_url},
    )
    manifest, results = run(request)
    if as_json:
        say(results.to_text().rstrip("\n"))
        return
    console = table_console()
    console.print(rich_table(results))
    for loop in rich_loops(results):
        console.print(loop)
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
