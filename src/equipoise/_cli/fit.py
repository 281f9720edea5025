"""``equipoise fit``: an attribute space, or any method's operator, into a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from equipoise._cli import options
from equipoise._cli.printing import Console
from equipoise._progress import reporting

SPACE = "The attribute space, where no method is named"
SPACE_FILE, OPERATOR_FILE = Path("space.safetensors"), Path("operator.safetensors")


def fit(
    images: Annotated[
        Path | None,
        typer.Argument(
            help=(
                "Images, for methods that are fitted on images: a folder, a table, a"
                " store or a .npy file."
            ),
            show_default=False,
        ),
    ] = None,
    attribute: options.Attribute = None,
    book: Annotated[
        str | None,
        typer.Option(
            "--book",
            "-b",
            help=(
                "The prompt book to fit with: a file, or the name of a curated one. By default,"
                " occupations-ATTRIBUTE or people-ATTRIBUTE."
            ),
        ),
    ] = None,
    model: options.Model = None,
    method: options.Method = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="The file to write; space.safetensors or operator.safetensors by default.",
        ),
    ] = None,
    force: options.Force = False,
    as_json: options.Json = False,
    scope: Annotated[
        str,
        typer.Option(
            help="shared: one space for everything. per-prompt: one space per prompt.",
            rich_help_panel=SPACE,
        ),
    ] = "shared",
    prototype: Annotated[
        str,
        typer.Option(
            help="What prototypes are made of: both, anchor or variants.", rich_help_panel=SPACE
        ),
    ] = "both",
    kappa: Annotated[
        float,
        typer.Option(
            help=(
                "The strength of debiasing: 0 changes nothing, 1 is the paper's balance,"
                " inf is the projection."
            ),
            rich_help_panel=SPACE,
        ),
    ] = 1.0,
    tolerance: Annotated[
        float,
        typer.Option(
            help="Directions below this fraction of the strongest are dropped.",
            rich_help_panel=SPACE,
        ),
    ] = 1e-5,
    allow_partial: Annotated[
        bool,
        typer.Option(
            "--allow-partial",
            help="Go on without prompts that lack a group.",
            rich_help_panel=SPACE,
        ),
    ] = False,
    group_columns: options.GroupColumns = None,
    label_column: options.LabelColumn = None,
    caption_column: options.CaptionColumn = None,
    embeddings: options.Embeddings = None,
    root: options.Root = None,
    seed: options.Seed = 0,
    workdir: options.Workdir = None,
    vectors: options.Vectors = None,
    device: options.Device = None,
    dtype: options.Dtype = None,
    batch_size: options.Batch = None,
    workers: options.Workers = None,
    offline: options.Offline = None,
) -> None:
    """Fit an attribute space on the prompts of a book, or any method, and save it.

    apply, audit, evaluate and eq.methods.load read what this writes.
    """
    from equipoise._verbs import fit as verb
    from equipoise._verbs.destinations import require_free_file
    from equipoise._verbs.models import open_encoder
    from equipoise.prompts._attribute import Attribute
    from equipoise.prompts._prompt_book import PromptBook

    if out is None:
        out = SPACE_FILE if method is None else OPERATOR_FILE
    verb.check_space_options(scope, prototype, kappa, tolerance)
    require_free_file(out, force)
    wanted = None if attribute is None else Attribute.load(attribute)
    words = None if book is None else PromptBook.load(book)

    def open_model() -> Any:
        loading = {"device": device, "dtype": dtype, "batch_size": batch_size}
        return open_encoder(model, vectors, workers=workers, offline=offline, **loading)

    if method is None:
        named, words = verb.space_inputs(wanted, words)
        encoder = open_model()
        with reporting("encoding texts") as progress:
            fitted: Any = verb.fit_space(
                encoder,
                named,
                words,
                scope,
                prototype=prototype,
                kappa=kappa,
                tolerance=tolerance,
                allow_partial=allow_partial,
                progress=progress,
            )
        facts = verb.space_facts(fitted)
    else:
        found = None
        if images is not None:
            from equipoise._verbs.fitting_images import FittingImages

            columns = (group_columns or (), label_column, caption_column)
            found = FittingImages(images, embeddings, root, *columns)
        fitted = verb.fit_method(
            verb.read_method(method),
            wanted,
            open_model=open_model,
            book=words,
            images=found,
            seed=seed,
            workdir=workdir,
        )
        facts = verb.operator_facts(fitted)
    fitted.save(out)
    facts["file"] = str(out)
    if as_json:
        typer.echo(json.dumps(facts))
        return
    told = f"{fitted!r}\nfitted with {facts['encoder']}, saved to {out}"
    Console().print(told, soft_wrap=True, markup=False)
