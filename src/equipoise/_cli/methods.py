"""``equipoise methods``: what there is, what each needs and changes; the paper's Table 1,
corrected.
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
    for method in found if details else ():
        params = ", ".join(f"{name}={value}" for name, value in method["params"].items())
        lines = [
            f"[bold]{method['name']}[/bold]  {method['summary']}",
            f"  needs {'; '.join(method['needs']) or 'nothing'}",
        ]
        lines += [f"  the code: {method['code']}"] if method["code"] else []
        lines += [f"  {params}"] if params else []
        console.print("\n".join(lines), highlight=False)
    if not details:
        console.print(
            "--details says what each needs, and where a method's code differs from its paper",
            style="dim",
        )


def _row(method: dict[str, Any]) -> tuple[str, ...]:
    trains = " ".join(
        filter(
            None,
            (method["training"], method["gradients"] and f"(gradients: {method['gradients']})"),
        )
    )
    strength = method["strength"]
    return (
        method["name"],
        " and ".join(method["changes"]) or "nothing",
        " and ".join(method["labels"]) or ("no" if method["text_only"] else "no, but images"),
        trains or "nothing",
        "\n".join(method["tasks"]) or "none of these",
        strength["param"] if strength else "",
    )
