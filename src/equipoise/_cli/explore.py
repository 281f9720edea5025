"""``equipoise explore``: search your own photographs before and after, in a browser."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from equipoise._cli import options
from equipoise._cli.printing import Console


def explore(
    images: Annotated[
        Path | None,
        typer.Argument(
            help=(
                "A folder of pictures, a .csv or .parquet table, a store or a .npy file;"
                " by default, the pictures that come with mini, of people who do not"
                " exist."
            )
        ),
    ] = None,
    model: options.Model = None,
    attribute: options.Attributes = None,
    labels: Annotated[
        Path | None,
        typer.Option(
            help="Labels of the images: a table with one row per image, such as equipoise annotate"
            " exports."
        ),
    ] = None,
    group_columns: options.GroupColumns = None,
    embeddings: options.Embeddings = None,
    root: options.Root = None,
    prompts_file: Annotated[
        Path | None,
        typer.Option(help='The text file that "Add to audit" writes to; a download by default.'),
    ] = None,
    port: Annotated[
        int, typer.Option(help="The port; 0 for any that is free.", min=0, max=65535)
    ] = 8766,
    host: Annotated[
        str,
        typer.Option(
            help="The address to listen on. Any other than this machine's own needs --public."
        ),
    ] = "127.0.0.1",
    public: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help=(
                "Let everybody in, without a key, under this name of a site, such as"
                " me-explore.hf.space. Everybody then sees every picture."
            ),
        ),
    ] = None,
    browser: Annotated[
        bool | None,
        typer.Option(
            "--browser/--no-browser",
            help="Open the page in a browser; by default, only from a terminal.",
        ),
    ] = None,
    as_json: options.Json = False,
    device: options.Device = None,
    dtype: options.Dtype = None,
    batch_size: options.Batch = None,
    workers: options.Workers = None,
    offline: options.Offline = None,
) -> None:
    """Search your own photographs before and after, in the browser. Ctrl-C stops it.

    The page is served on this machine, and nothing leaves it.
    """
    from equipoise._explore.prompt_list import PromptFile
    from equipoise._serving.server import require_extra
    from equipoise._verbs import explore as commands
    from equipoise.prompts._attribute import Attribute

    require_extra("explore")
    commands.check_public(host, public, prompts_file)
    prompts = None if prompts_file is None else PromptFile(prompts_file)
    explorer = commands.make_explorer(
        images,
        model=model,
        attributes=[Attribute.load(name) for name in attribute or commands.ATTRIBUTES],
        embeddings=embeddings,
        root=root,
        labels=labels,
        group_columns=group_columns or (),
        device=device,
        dtype=dtype,
        batch_size=batch_size,
        workers=workers,
        offline=offline,
    )
    console = Console()

    def ready(link: str) -> None:
        if as_json:
            told = {"link": link, "images": len(explorer.collection)}
            typer.echo(json.dumps(told))
            return
        count = f"{len(explorer.collection):,}"
        console.print(f"{count} images. Open {link}", soft_wrap=True, highlight=False, markup=False)
        whom = "this machine alone" if public is None else f"everybody, as {public}"
        console.print(f"Serving {whom}, until you press Ctrl-C.", style="dim", markup=False)
        if console.is_terminal if browser is None else browser:
            import webbrowser

            webbrowser.open(link)

    commands.serve(explorer, port, ready, prompts, host=host, public=public)
