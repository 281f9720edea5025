"""The results the paper printed (Tables 2 to 5, appendix F), one record a cell, and which of them
cannot be right.

``results.csv`` holds what is printed and nothing else (``scripts/published_from_tex.py`` writes
it); ``rules`` finds the problems.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from dataclasses import asdict
from typing import TYPE_CHECKING

from equipoise.published import rules
from equipoise.published.cell import Cell, read

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["impossible", "lookup", "problems", "results"]


def results() -> pd.DataFrame:
    """Every published cell, values in percent, with ``problem``: why it cannot be right ("" where
    nothing is known against it).

    Columns table, task, model, dataset, attribute, method, variant, metric, better ("higher",
    "lower"), value, spread (the paper's plus-minus, NaN where none is printed), marker ("best",
    "second", ""), problem.
    """
    return _results().copy()


def lookup(
    *,
    table: str | int | None = None,
    task: str | None = None,
    model: str | None = None,
    dataset: str | None = None,
    attribute: str | None = None,
    method: str | None = None,
    variant: str | None = None,
    metric: str | None = None,
) -> pd.DataFrame:
    """The cells of ``results`` that have all the given values, in upper or lower case; none where
    the paper printed nothing of the kind.

    table: 2 to 5 or "F". variant: "" for the paper's own configuration, or one of Table 5:
    "prototype=anchor", "modality=text", ...
    """
    which = {"table": table, "task": task, "model": model, "dataset": dataset}
    which |= {"attribute": attribute, "method": method, "variant": variant, "metric": metric}
    cells = _results()
    for column, value in which.items():
        if value is not None:
            cells = cells.loc[cells[column].str.casefold() == str(value).casefold()]
    return cells.copy()


def problems() -> pd.DataFrame:
    """One row for each rule that a cell breaks: its columns, ``rule`` and ``problem``."""
    return _frame(
        [{**asdict(cell), "rule": rule, "problem": why} for cell, rule, why in rules.broken(read())]
    )


def impossible() -> pd.DataFrame:
    """The problems that are arithmetic: no data and no method give these numbers together.

    Misprints are left out.
    """
    found = problems()
    return found.loc[found["rule"].isin(list(rules.ARITHMETIC))].reset_index(drop=True)


@functools.cache
def _results() -> pd.DataFrame:
    cells = read()
    why: dict[Cell, list[str]] = defaultdict(list)
    for cell, _, problem in rules.broken(cells):
        why[cell].append(problem)
    return _frame([{**asdict(cell), "problem": "; ".join(why[cell])} for cell in cells])


def _frame(rows: list[dict[str, str]]) -> pd.DataFrame:
    import pandas as pd

    frame = pd.DataFrame(rows)
    return frame.assign(value=frame["value"].astype(float), spread=pd.to_numeric(frame["spread"]))
