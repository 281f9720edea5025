"""``equipoise compare``: a grid of methods and parameters, or a sweep of strengths.

Each cell is a file, and finished ones are not computed again.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from equipoise._cli.evaluating import TypedEvaluation, export, show, with_shared
from equipoise._cli.options import Json
from equipoise._progress import tell

if TYPE_CHECKING:
    from equipoise.evaluation import SweepResults


@with_shared
def compare(
    given: TypedEvaluation,
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            "-o",
            help="The folder of the runs; a run that exists already is not computed again.",
        ),
    ],
    preset: Annotated[
        str | None,
        typer.Option(help="An experiment of the paper. table2, table3 or table5."),
    ] = None,
    sweep: Annotated[
        bool,
        typer.Option(
            "--sweep",
            help=(
                "Measure each method at several strengths, and draw fairness against"
                " utility. By default, all methods that have a strength."
            ),
        ),
    ] = False,
    fairness: Annotated[
        str | None,
        typer.Option(
            help="With --sweep: the metric on the horizontal axis; EO_avg or MS@m by default."
        ),
    ] = None,
    utility: Annotated[
        str | None,
        typer.Option(help="With --sweep: the metric on the vertical axis; F1 or R@k by default."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Measure a grid of methods: closed-form:kappa=0.5|1|inf,modality=image|text is six.

    A comparison that was stopped goes on where it was.
    """
    from equipoise import evaluation as tasks

    wanted = preset, given.methods, given.books, given.task, given.labelled
    specs = tasks.sweep_grid(*wanted) if sweep else tasks.grid(*wanted)
    evaluation = given.evaluation(given.workdir or out / "training")
    if sweep:
        results, runs = tasks.sweep(
            evaluation, specs, out, fairness=fairness, utility=utility, progress=tell
        )
        export(runs, given.export)
        show_sweep(results, out, as_json)
        return
    runs, found = tasks.compare(evaluation, specs, out, progress=tell)
    show(runs, f"{len(runs)} runs in {out}, {found} of them from before. ", as_json, given.export)


def show_sweep(results: SweepResults, folder: Path, as_json: bool) -> None:
    """Write the page and its JSON beside the runs, then print JSON or the table."""
    from equipoise._cli.printing import say, table_console
    from equipoise._verbs.compare import write_sweep
    from equipoise.report import sweep_table

    page = write_sweep(results, folder)
    if as_json:
        say(results.to_text().rstrip("\n"))
        return
    console = table_console()
    console.print(sweep_table(results))
    for one in results.left_out:
        console.print(
            f"left out: {one.label}: {one.reason}",
            markup=False,
            highlight=False,
            soft_wrap=True,
            style="yellow",
        )
    console.print(
        f"* no other point beats it in both. The figure: {page}",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )
