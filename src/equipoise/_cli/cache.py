"""``equipoise cache``: what is kept of earlier runs, and how to be rid of it."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from equipoise._cli.options import Json
from equipoise._cli.printing import Console
from equipoise.errors import InputError

app = typer.Typer(
    pretty_exceptions_show_locals=False,
    help=(
        "Show or clear what is kept on disk, so that it is not made twice: embeddings and small"
        " pictures."
    ),
    invoke_without_command=True,
)
MIB = 1 << 20


@app.callback()
def show(context: typer.Context, as_json: Json = False) -> None:
    """Show where the cache is, how large it is, whose embeddings it holds, and small pictures."""
    if context.invoked_subcommand:
        return
    from equipoise._explore import thumbnails

    cache = _cache()
    usage = cache.usage()
    small = thumbnails.usage()
    if as_json:
        document = {
            "path": str(cache.path),
            "bytes": cache.size(),
            "limit": cache.limit,
            "encoders": [item._asdict() for item in usage],
            "thumbnails": small._asdict(),
        }
        typer.echo(json.dumps(document, indent=1))
        return
    table = Table(
        "encoder", "fingerprint and precision", "rows", "MiB", title=escape(str(cache.path))
    )
    for item in usage:
        fingerprint, _, precision = item.encoder.rpartition(" ")
        table.add_row(
            escape(item.name),
            f"{escape(fingerprint[:12])} {precision}",
            f"{item.rows:,}",
            f"{item.bytes / MIB:.1f}",
        )
    console = Console()
    console.print(table)
    console.print(
        f"{cache.size() / MIB:.1f} of {cache.limit / MIB:,.0f} MiB; EQUIPOISE_CACHE and"
        " EQUIPOISE_CACHE_LIMIT (MiB) change both"
    )
    limit = thumbnails.LIMIT / MIB
    console.print(
        f"{small.pictures:,} small pictures of explore, {small.bytes / MIB:.1f} of"
        f" {limit:,.0f} MiB, in {escape(small.path)}"
    )


@app.command()
def clear(
    encoder: Annotated[
        str | None,
        typer.Option(help="Only embeddings of the encoder whose fingerprint starts with this."),
    ] = None,
    only_thumbnails: Annotated[
        bool, typer.Option("--thumbnails", help="Only the small pictures of explore.")
    ] = False,
) -> None:
    """Remove all embeddings and small pictures, or a part of them."""
    from equipoise._explore import thumbnails

    if encoder is not None and only_thumbnails:
        raise InputError("--encoder and --thumbnails name different parts; pass one of the two")
    if not only_thumbnails:
        typer.echo(f"{_cache().clear(encoder):,} embeddings removed")
    if encoder is None:
        typer.echo(f"{thumbnails.clear():,} small pictures removed")


@app.command()
def prune(
    limit: Annotated[int, typer.Argument(help="The size in MiB to shrink the cache to.", min=0)],
) -> None:
    """Remove what was used longest ago, until the cache is a little smaller than the limit."""
    typer.echo(f"{_cache().prune(limit * MIB):,} embeddings removed")


def _cache():
    from equipoise.encoders import EmbeddingCache

    return EmbeddingCache()
