"""What every bench shares: JSON for programs, a table and the machine for people."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

Rounds = Annotated[int, typer.Option(help="How many rounds to run; the median counts.", min=1)]


def print_json(rows: Iterable[Any], *ratios: str, **more: Any) -> None:
    """Print the machine and each row (a dataclass), with the ratios that it computes."""
    from equipoise._bench import machine

    measured = []
    for row in rows:
        computed = {name: getattr(row, name) for name in ratios}
        measured.append(asdict(row) | computed)
    document = {"machine": machine.describe(), "rows": measured, **more}
    typer.echo(json.dumps(document, indent=1))


def show(console: Console, table: Table) -> None:
    """Print a table, and below it the machine that it was measured on."""
    console.print(table)
    show_machine(console)


def show_machine(console: Console) -> None:
    """Print the machine in one line."""
    from equipoise._bench import machine

    facts = (f"{name} {value}" for name, value in machine.describe().items())
    console.print(" · ".join(facts), style="dim", soft_wrap=True)
