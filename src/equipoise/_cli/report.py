"""``equipoise report``: the page of a saved audit, or a comparison of several."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from equipoise._cli.options import Force
from equipoise._cli.printing import Console


def report(
    results: Annotated[
        list[Path], typer.Argument(help="Folders of audits, or their results.json.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The HTML file to write.")] = Path(
        "report.html"
    ),
    force: Force = False,
) -> None:
    """Build the page from saved results: one audit's own page, or several side by side."""
    from equipoise._verbs.report import write_report

    write_report(results, out, force)
    Console().print(f"written to {out}", soft_wrap=True, markup=False, highlight=False)
