"""Tables of runs as LaTeX: the best in bold and brackets, the second in brackets."""

from __future__ import annotations

from collections.abc import Sequence

from equipoise.evaluation._grids import Grid, grids, interval, percent
from equipoise.evaluation._run_document import EvaluationRun, MetricRow, PublishedCell
from equipoise.evaluation._small_cells import MARK
from equipoise.metrics._intervals import HasInterval

# characters that a file's name may hold, and LaTeX writes by name
NAMED = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
ARROWS = {"lower": r"$\downarrow$", "higher": r"$\uparrow$"}


def latex(runs: Sequence[EvaluationRun]) -> str:
    """Return plain tabulars.

    A cell is a value and its interval. Below stand the paired difference and the paper's row, and
    beside a skew both its floors.
    """
    return "\n".join(_tabular(grid) for grid in grids(runs))


def _tabular(grid: Grid) -> str:
    head = ["Method"]
    for metric in grid.metrics:
        head.append(f"{_escaped(metric)} {ARROWS[_better(grid, metric)]}")
        if metric == grid.has_floor:
            head += ["floor, exact", "floor, permuted"]
    body = [row for method in grid.methods for row in _rows(grid, method)]
    lines = [" & ".join(cells) + r" \\" for cells in (head, *body)]
    lines[0] += r" \hline"
    table = [
        rf"\begin{{tabular}}{{l{'c' * (len(head) - 1)}}}",
        r"\hline",
        *lines,
        r"\hline",
        r"\end{tabular}",
    ]
    return f"% {grid.title}. {grid.note}\n" + "\n".join(table) + "\n"


def _rows(grid: Grid, method: str) -> list[list[str]]:
    """Return the method's row, then the paired difference and the paper's figures if any."""
    values, gaps, paper = [_escaped(method)], [r"\quad difference"], [r"\quad as published"]
    for metric in grid.metrics:
        row = grid.rows.get((method, metric))
        values.append(_value(row, grid.marks.get((method, metric), "")))
        gaps.append(_gap(row))
        paper.append(_printed(row.published) if row and row.published else "")
        if metric == grid.has_floor:
            values += _floors(row)
            gaps += ["", ""]
            paper += ["", ""]
    return [values, *(row for row in (gaps, paper) if any(row[1:]))]


def _gap(row: MetricRow | None) -> str:
    if row is None or row.difference is None:
        return ""
    return _spread(row.difference, signed=True)


def _floors(row: MetricRow | None) -> list[str]:
    """Return both floors of a skew; empty cells where it has none."""
    if row is None or row.permuted is None:
        return ["", ""]
    return [percent(row.floor), _spread(row.permuted)]


def _spread(found: HasInterval, signed: bool = False) -> str:
    """Return "value [low, high]", the interval in small type."""
    value, _, ends = interval(found, signed).partition(" ")
    value = value.replace(MARK, r"$^\dagger$")
    return rf"{value} {{\scriptsize {ends}}}"


def _value(row: MetricRow | None, mark: str) -> str:
    if row is None:
        return ""
    value, _, ends = _spread(row).partition(" ")
    return f"{_marked(value, mark)} {ends}"


def _printed(cell: PublishedCell) -> str:
    """Return the paper's own value and marker, with another mark where it cannot be right."""
    shown = _marked(percent(cell.value), cell.marker)
    if cell.spread is not None:
        shown += rf"$\pm${percent(cell.spread)}"
    if cell.problem:
        shown += " (!)"
    return shown


def _better(grid: Grid, metric: str) -> str:
    return next(row.better for (_, name), row in grid.rows.items() if name == metric)


def _marked(value: str, mark: str) -> str:
    return {"best": rf"\textbf{{[{value}]}}", "second": f"[{value}]", "": value}[mark]


def _escaped(text: str) -> str:
    return "".join(_escaped_character(character) for character in text)


def _escaped_character(character: str) -> str:
    if character in "&%$#_{}":
        return f"\\{character}"
    return NAMED.get(character, character)
