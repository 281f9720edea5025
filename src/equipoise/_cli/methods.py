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
USE = {
    "method": "name",
    "year": "year",
    "needs labels": "needs_labels",
    "needs images": "needs_images",
    "changes the index": "changes_index",
    "serves any vector database": "any_database",
    "licence of its code": "licence",
}


def methods(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Only these methods, with their details."),
    ] = None,
    details: Annotated[
        bool,
        typer.Option(
            "--details",
            "-d",
            help=(
                "Also say what each method does and needs, its parameters, and where"
                " code and paper differ."
            ),
        ),
    ] = False,
    use: Annotated[
        bool,
        typer.Option(
            "--use",
            "-u",
            help=(
                "Say what each method needs, whether it rewrites an index, where it can"
                " be used, its year and its licence."
            ),
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """List the debiasing methods: what each changes, needs and trains.

    It is the paper's Table 1, corrected by the reference code.
    """
    from equipoise._verbs.methods import described_methods

    found = described_methods(names or ())
    if as_json:
        typer.echo(json.dumps(found, indent=1))
        return
    console = table_console()
    console.print(_use_table(found) if use else _table(found))
    if not (details or names):
        console.print(
            "--details says what each method needs, and where its code differs from its"
            " paper; --use says what it takes to use one",
            style="dim",
        )
        return
    for method in found:
        console.print("\n".join(_details(method)), highlight=False)


def _table(found: list[dict[str, Any]]) -> Table:
    """Return the paper's Table 1."""
    table = Table(show_lines=True)
    for name in COLUMNS:
        table.add_column(name, overflow="fold")
    for place in (0, 4):  # names and tasks are said whole
        table.columns[place].no_wrap = True
    for method in found:
        table.add_row(*_row(method))
    return table


def _use_table(found: list[dict[str, Any]]) -> Table:
    """Return what it takes to use each method."""
    table = Table()
    for name in USE:
        table.add_column(name, overflow="fold")
    table.columns[0].no_wrap = True
    for method in found:
        table.add_row(*(_said(method[key]) for key in USE.values()))
    return table


def _said(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else str(value)


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
    labels = "no" if method["text_only"] else "no, only images"
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
