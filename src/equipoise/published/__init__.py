"""Look up the results that the paper printed, and which of them cannot be right.

``results.csv`` holds what Tables 2 to 5 and appendix F print, one record per cell and nothing else
(``scripts/published_from_tex.py`` writes it); ``rules`` finds the problems.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from dataclasses import asdict
from typing import TYPE_CHECKING

from equipoise.published import _rules as rules
from equipoise.published._cell import Cell, read

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["impossible", "lookup", "problems", "results"]


def results() -> pd.DataFrame:
    """Return every published cell, with values in percent.

    ``problem`` says why a cell cannot be right, and is "" where nothing is known against it.

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
    """Return the cells of ``results`` that have all the given values, in upper or lower case.

    There are none where the paper printed nothing of the kind.

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
    """Return one row for each rule that a cell breaks: its columns, ``rule`` and ``problem``."""
    rows = []
    for cell, rule, why in rules.broken(read()):
        rows.append({**asdict(cell), "rule": rule, "problem": why})
    return _frame(rows)


def impossible() -> pd.DataFrame:
    """Return the problems of arithmetic: no data and no method give these numbers together.

    Misprints are left out.
    """
    found = problems()
    is_arithmetic = found["rule"].isin(list(rules.ARITHMETIC))
    return found.loc[is_arithmetic].reset_index(drop=True)


@functools.cache
def _results() -> pd.DataFrame:
    cells = read()
    why: dict[Cell, list[str]] = defaultdict(list)
    for cell, _, problem in rules.broken(cells):
        why[cell].append(problem)
    rows = []
    for cell in cells:
        rows.append({**asdict(cell), "problem": "; ".join(why[cell])})
    return _frame(rows)


def _frame(rows: list[dict[str, str]]) -> pd.DataFrame:
    import pandas as pd

    frame = pd.DataFrame(rows)
    return frame.assign(value=frame["value"].astype(float), spread=pd.to_numeric(frame["spread"]))
