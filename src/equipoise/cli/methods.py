"""``equipoise methods``: what there is, what each needs and changes."""

from __future__ import annotations

import json

import typer
from rich.console import Console
from rich.table import Column, Table

from equipoise.cli.options import Json


def methods(as_json: Json = False) -> None:
    """List the debiasing methods."""
    from equipoise.tasks.commands import describe_methods

    found = describe_methods()
    if as_json:
        typer.echo(json.dumps(found, indent=1))
        return
    table = Table(Column("method", no_wrap=True), "what it does", "needs", "changes", "tasks", "parameters")
    for method in found:
        needs, changes = "; ".join(method["needs"]) or "nothing", " and ".join(method["changes"]) or "nothing"
        params = ", ".join(f"{name}={value}" for name, value in method["params"].items())
        table.add_row(method["name"], method["summary"], needs, changes, ", ".join(method["tasks"]), params)
    Console().print(table)
