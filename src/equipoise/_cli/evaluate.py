"""``equipoise evaluate``: one model, one dataset, one task, any methods."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from equipoise._cli.evaluating import TypedEvaluation, show, with_shared
from equipoise._cli.options import Force, Json


@with_shared
def evaluate(
    given: TypedEvaluation,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="The JSON file of the run; tables can be made from it again."
        ),
    ] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Measure methods on labelled images, each beside the model without debiasing.

    Every number has an interval, and every difference from no debiasing is paired.
    """
    from equipoise._verbs.destinations import require_free_file
    from equipoise.evaluation import parse
    from equipoise.evaluation._run_file import write

    specs = parse(given.methods or ["closed-form"], given.books)
    if out is not None:
        require_free_file(out, force)
    run = given.evaluation(given.workdir).run(specs)
    if out is not None:
        write(out, run)
    show([run], "", as_json, given.export)
