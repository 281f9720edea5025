"""``equipoise doctor``: is everything here, and does the encoder work."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from equipoise._cli.options import Device, Dtype, Json, Offline
from equipoise._cli.printing import Console


def doctor(
    model: Annotated[
        str | None, typer.Option(help="An encoder to try: one text and one image.")
    ] = None,
    device: Device = None,
    dtype: Dtype = None,
    offline: Offline = None,
    as_json: Json = False,
) -> None:
    """Print versions, devices and extras; encode one text and one image with the model."""
    from equipoise import _doctor as examination

    versions, extras, devices = examination.versions(), examination.extras(), examination.devices()
    mini = examination.about_mini()
    options = {"device": device, "dtype": dtype, "offline": offline}
    if as_json:
        trial = examination.try_encoder(model, **options) if model else None
        document = {
            "versions": versions,
            "extras": extras,
            "devices": devices,
            "mini": mini,
            "encoder": trial._asdict() if trial else None,
        }
        typer.echo(json.dumps(document, indent=1))
        return
    console = Console()
    console.print(
        " · ".join(f"{name} {version}" for name, version in versions.items() if version),
        style="dim",
        highlight=False,
    )
    console.print(f"devices: {', '.join(devices)}")
    _print_extras(console, extras)
    if mini:
        console.print(f"mini: {mini['knows']} [dim]{mini['notice']}[/dim]")
    if model is None:
        console.print("no encoder was tried; name one with --model")
        return
    trial = examination.try_encoder(model, **options)
    image = "no image tower"
    if trial.image_milliseconds is not None:
        image = f"an image in {trial.image_milliseconds:.0f} ms, cosine {trial.cosine:+.3f}"
    console.print(
        f"[bold]{escape(trial.id)}[/] on {trial.device} in {trial.precision}: {trial.dim}"
        f" dimensions, fingerprint {trial.fingerprint[:12]}, loaded in {trial.seconds_to_load:.1f}"
        f" s; a text in {trial.text_milliseconds:.0f} ms, {image}"
    )


def _print_extras(console: Console, extras: dict[str, str | None]) -> None:
    if not extras:
        console.print("equipoise is not installed, so its extras are unknown; type: pip install .")
        return
    table = Table("extra", "", title="extras")
    for extra, line in extras.items():
        if line is None:
            table.add_row(extra, "installed")
        else:
            table.add_row(extra, escape(line), style="dim")
    console.print(table)
