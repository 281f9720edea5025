"""Tables of runs as LaTeX, with the paper's markers: the best in bold and brackets, the second in
brackets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from equipoise.evaluation._grids import Grid, Run, grids, interval, percent

NAMED = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
}  # a file's name may hold them
ARROWS = {"lower": r"$\downarrow$", "higher": r"$\uparrow$"}


def latex(runs: Sequence[Run]) -> str:
    """Plain tabulars: value and interval, below them the paired difference and the paper's row;
    beside a skew both its floors.
    """
    return "\n".join(_tabular(grid) for grid in grids(runs))


def _tabular(grid: Grid) -> str:
    head = ["Method"]
    for metric in grid.metrics:
        head.append(f"{_escaped(metric)} {ARROWS[_better(grid, metric)]}")
        head += ["floor, exact", "floor, permuted"] if metric == grid.has_floor else []
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
            values += (
                [percent(record["floor"]), _spread(record["permuted"])] if record else ["", ""]
            )
            gaps += ["", ""]
            paper += ["", ""]
    return [values, *(row for row in (gaps, paper) if any(row[1:]))]


def _spread(record: dict[str, Any], signed: bool = False) -> str:
    """value [low, high], the interval small."""
    value, _, ends = interval(record, signed).partition(" ")
    return rf"{value} {{\scriptsize {ends}}}"


def _value(record: dict[str, Any], mark: str) -> str:
    if not record:
        return ""
    value, _, ends = _spread(record).partition(" ")
    return f"{_marked(value, mark)} {ends}"


def _printed(record: dict[str, Any]) -> str:
    """The paper's own value and marker, with another mark where it cannot be right."""
    spread = "" if record["spread"] is None else rf"$\pm${percent(record['spread'])}"
    return (
        _marked(percent(record["value"]), record["marker"])
        + spread
        + (" (!)" if record["problem"] else "")
    )


def _better(grid: Grid, metric: str) -> str:
    return next(row["better"] for (_, name), row in grid.rows.items() if name == metric)


def _marked(value: str, mark: str) -> str:
    return {"best": rf"\textbf{{[{value}]}}", "second": f"[{value}]", "": value}[mark]


def _escaped(text: str) -> str:
    return "".join(NAMED.get(c, f"\\{c}" if c in "&%$#_{}" else c) for c in text)
