"""``equipoise compare``: a grid of methods and parameters, a file a cell, finished ones not computed again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from equipoise.cli.evaluating import Given, show, with_shared
from equipoise.cli.options import Json
from equipoise.progress import tell


@with_shared
def compare(
    given: Given,
    folder: Annotated[Path, typer.Argument(help="Where the runs' JSON files go; a run that is there already is not computed again.")],
    preset: Annotated[str | None, typer.Option(help="table2, table3 or table5: the paper's methods, or its grid of settings.")] = None,
    as_json: Json = False,
) -> None:
    """Measure a grid: closed-form:kappa=0.5|1|inf,modality=image|text is six methods. Stopped, it goes on where it was."""
    from equipoise import tasks

    specs = tasks.grid(preset, given.methods, given.books, given.task, given.labelled)
    runs, found = tasks.compare(given.evaluation(given.workdir or folder / "training"), specs, folder, progress=tell)
    show(runs, f"{len(runs)} runs in {folder}, {found} of them from before. ", as_json, given.export)
