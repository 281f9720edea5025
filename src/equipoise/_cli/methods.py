"""``equipoise methods``: the methods, what each needs and what it changes.

It is the paper's Table 1, corrected.
"""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer
from rich.table import Table

from equipoise._cli.options import Json
from equipoise._cli.printing import table_console

COLUMNS = ("method", "changes", "labels of images", "trains", "authors' tasks", "strength")


def methods(
    details: Annotated[
        bool,
        typer.Option(
            "--details",
            "-d",
            help="Also what each does and needs, where code and paper differ, and parameters.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """List the debiasing methods: the paper's Table 1, corrected by the reference code."""
    from equipoise.methods._describe import describe_methods

    found = describe_methods()
    if as_json:
        typer.echo(json.dumps(found, indent=1))
        return
    console, table = table_console(), Table(show_lines=True)
    for name in COLUMNS:
        table.add_column(name, overflow="fold")
    for place in (0, 4):  # names and tasks are said whole
        table.columns[place].no_wrap = True
    for method in found:
        table.add_row(*_row(method))
    console.print(table)
    if not details:
        console.print(
            "--details says what each needs, and where a method's code differs from its paper",
            style="dim",
        )
        return
    for method in found:
        console.print("\n".join(_details(method)), highlight=False)


def _details(method: dict[str, Any]) -> list[str]:
    params = ", ".join(f"{name}={value}" for name, value in method["params"].items())
    lines = [
        f"[bold]{method['name']}[/bold]  {method['summary']}",
        f"  needs {'; '.join(method['needs']) or 'nothing'}",
    ]
    if method["code"]:
        lines.append(f"  the code: {method['code']}")
    if params:
        lines.append(f"  {params}")
    return lines


def _row(method: dict[str, Any]) -> tuple[str, ...]:
    labels = "no" if method["text_only"] else "no, but images"
    if method["labels"]:
        labels = " and ".join(method["labels"])
    trains = method["training"]
    if method["gradients"]:
        trains = f"{trains} (gradients: {method['gradients']})".strip()
    strength = method["strength"]
    return (
        method["name"],
        " and ".join(method["changes"]) or "nothing",
        labels,
        trains or "nothing",
        "\n".join(method["tasks"]) or "none of these",
        strength["param"] if strength else "",
    )
