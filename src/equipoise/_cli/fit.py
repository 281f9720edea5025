"""``equipoise fit``: attribute, book and encoder in, an attribute space out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from equipoise._artefact import require_writable
from equipoise._cli.options import Json
from equipoise._cli.printing import Console
from equipoise._progress import reporting


def fit(
    attribute: Annotated[
        str,
        typer.Option(
            "--attribute",
            "-a",
            help='gender, age, "skin tone", race, joined with &, or a .toml file of your own.',
        ),
    ],
    book: Annotated[
        str,
        typer.Option(
            "--book",
            "-b",
            help="A book's file, or the name of a curated one (equipoise prompts show).",
        ),
    ],
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="The encoder, as eq.load_encoder takes it.")
    ] = None,
    vectors: Annotated[
        Path | None,
        typer.Option(help="Instead: a .parquet, .npz or .safetensors file of text vectors."),
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="The file to write.")] = Path(
        "space.safetensors"
    ),
    scope: Annotated[
        str, typer.Option(help="shared: one space for everything. per-prompt: a space a prompt.")
    ] = "shared",
    prototype: Annotated[str, typer.Option(help="both, anchor or variants.")] = "both",
    kappa: Annotated[
        float,
        typer.Option(
            help="What debias uses by default: 1 is the paper, 0 the identity, inf the projection."
        ),
    ] = 1.0,
    tolerance: Annotated[
        float, typer.Option(help="Directions below this fraction of the strongest are dropped.")
    ] = 1e-5,
    allow_partial: Annotated[
        bool, typer.Option("--allow-partial", help="Leave out prompts that lack a group.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Fit an attribute space on the prompts of a book, and save it."""
    from equipoise import _fitting as fitting
    from equipoise.prompts._attribute import Attribute
    from equipoise.prompts._book import PromptBook

    fitting.check_options(scope, prototype, kappa, tolerance)
    require_writable(out)
    names = Attribute.load(attribute), PromptBook.load(book)
    source = fitting.text_encoder(model, vectors)
    with reporting("encoding texts") as progress:
        options = {
            "prototype": prototype,
            "kappa": kappa,
            "tolerance": tolerance,
            "allow_partial": allow_partial,
            "progress": progress,
        }
        fitted = fitting.fit(source, *names, scope, **options)
    fitted.save(out)
    facts = fitting.facts(fitted) | {"file": str(out)}
    if as_json:
        typer.echo(json.dumps(facts))
    else:
        Console().print(
            f"{fitted!r}\nfitted with {facts['encoder']}, saved to {out}",
            soft_wrap=True,
            markup=False,
        )
