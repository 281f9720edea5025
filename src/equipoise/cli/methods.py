"""``equipoise methods``: what there is, what each needs and changes."""

from __future__ import annotations

import json

import typer
from rich.console import Console
from rich.table import Table

from equipoise.cli.options import Json


def methods(as_json: Json = False) -> None:
    """List the debiasing methods."""
    from equipoise.tasks.commands import describe_methods

    found = describe_methods()
    if as_json:
        typer.echo(json.dumps(found, indent=1))
        return
    table = Table("method", "changes", "what it does, what it needs, its parameters", show_lines=True)
    for method in found:
        params = ", ".join(f"{name}={value}" for name, value in method["params"].items())
        about = [method["summary"], f"needs {'; '.join(method['needs']) or 'nothing'}", f"for {' and '.join(method['tasks'])}", params]
        table.add_row(method["name"], " and ".join(method["changes"]) or "nothing", "\n".join(filter(None, about)))
    Console().print(table)
