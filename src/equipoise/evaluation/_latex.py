"""Tables of runs as LaTeX: the best in bold and brackets, the second in brackets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from equipoise.evaluation._grids import Grid, Run, grids, interval, percent

# characters that a file's name may hold, and LaTeX writes by name
NAMED = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
ARROWS = {"lower": r"$\downarrow$", "higher": r"$\uparrow$"}


def latex(runs: Sequence[Run]) -> str:
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
        record = grid.rows.get((method, metric), {})
        values.append(_value(record, grid.marks.get((method, metric), "")))
        gaps.append(_spread(record["difference"], signed=True) if "difference" in record else "")
        paper.append(_printed(record["published"]) if "published" in record else "")
        if metric == grid.has_floor:
            if record:
                values += [percent(record["floor"]), _spread(record["permuted"])]
            else:
                values += ["", ""]
            gaps += ["", ""]
            paper += ["", ""]
    return [values, *(row for row in (gaps, paper) if any(row[1:]))]


def _spread(record: dict[str, Any], signed: bool = False) -> str:
    """Return "value [low, high]", the interval in small type."""
    value, _, ends = interval(record, signed).partition(" ")
    return rf"{value} {{\scriptsize {ends}}}"


def _value(record: dict[str, Any], mark: str) -> str:
    if not record:
        return ""
    value, _, ends = _spread(record).partition(" ")
    return f"{_marked(value, mark)} {ends}"


def _printed(record: dict[str, Any]) -> str:
    """Return the paper's own value and marker, with another mark where it cannot be right."""
    shown = _marked(percent(record["value"]), record["marker"])
    if record["spread"] is not None:
        shown += rf"$\pm${percent(record['spread'])}"
    if record["problem"]:
        shown += " (!)"
    return shown


def _better(grid: Grid, metric: str) -> str:
    return next(row["better"] for (_, name), row in grid.rows.items() if name == metric)


def _marked(value: str, mark: str) -> str:
    return {"best": rf"\textbf{{[{value}]}}", "second": f"[{value}]", "": value}[mark]


def _escaped(text: str) -> str:
    return "".join(_escaped_character(character) for character in text)


def _escaped_character(character: str) -> str:
    if character in "&%$#_{}":
        return f"\\{character}"
    return NAMED.get(character, character)
