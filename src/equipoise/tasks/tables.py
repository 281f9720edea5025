"""Tables of runs, from their files alone: for a terminal, CSV, Markdown and LaTeX, the paper's row beside ours."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from equipoise.artefact import write_atomically
from equipoise.errors import InputError
from equipoise.tasks.specs import BASELINE

Run = dict[str, Any]
NOTE = (
    "Values in percent with {level} intervals (bootstrap over {over}, {resamples} resamples, n = {n}); in the second line, the paired "
    "difference from {baseline}. Perceived or linguistic attributes, not identity; lower skew is not the same as fair."
)


@dataclass(frozen=True)
class Grid:
    """One table: methods down, metrics across; rows (method, metric) as runs have them. marks: "best" and "second" among the methods."""

    title: str
    note: str
    methods: tuple[str, ...]
    metrics: tuple[str, ...]
    rows: dict[tuple[str, str], dict[str, Any]]
    marks: dict[tuple[str, str], str]

    @property
    def has_floor(self) -> str:
        """The metric that has floors, or ""."""
        return next((metric for method, metric in self.rows if "floor" in self.rows[method, metric]), "")


def grids(runs: Sequence[Run]) -> list[Grid]:
    """Runs of the same task, dataset, encoder and protocol in one table."""
    if not runs:
        raise InputError("there is no run to make a table of")
    together: dict[tuple, list[Run]] = {}
    for run in runs:
        together.setdefault(_subject(run), []).append(run)
    return [_grid(part) for part in together.values()]


def _subject(run: Run) -> tuple:
    encoder = run["model"] or run["encoder"]["id"] or "stored embeddings"
    return run["dataset"]["name"], run["attribute"]["name"], run["task"], encoder, run["protocol"]["name"]


def _grid(runs: list[Run]) -> Grid:
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for run in runs:
        for row in run["rows"]:
            rows.setdefault((row["method"], row["metric"]), row)
    methods, metrics = (tuple(dict.fromkeys(key[i] for key in rows)) for i in (0, 1))
    dataset, attribute, task, encoder, protocol = _subject(runs[0])
    first = runs[0]["rows"][0]
    baseline = next((row["difference"]["from"] for row in rows.values() if "difference" in row), BASELINE)
    note = NOTE.format(
        baseline=baseline, level=f"{first['level']:.0%}", over=first["over"], resamples=f"{first['resamples']:,}", n=f"{first['n']:,}"
    )
    title = f"{task.capitalize()} on {dataset} by {attribute}, {encoder}, protocol {protocol}"
    return Grid(title, note, methods, metrics, rows, _marks(rows, methods, metrics))


def _marks(rows: dict, methods: Sequence[str], metrics: Sequence[str]) -> dict[tuple[str, str], str]:
    """The best two values of each metric among the debiasing methods; none where there is one method only."""
    marks: dict[tuple[str, str], str] = {}
    for metric in metrics:
        rivals = [m for m in methods if m != BASELINE and (m, metric) in rows and rows[m, metric]["value"] is not None]
        if len(rivals) < 2:
            continue
        sign = -1 if rows[rivals[0], metric]["better"] == "higher" else 1
        values = sorted({sign * round(rows[m, metric]["value"], 3) for m in rivals})
        for method in rivals:
            place = values.index(sign * round(rows[method, metric]["value"], 3))
            if place < 2:
                marks[method, metric] = ("best", "second")[place]
    return marks


def percent(value: float | None, signed: bool = False) -> str:
    """100 x, with one decimal; a dash where there is no value."""
    return "–" if value is None else f"{100 * value:{'+' if signed else ''}.1f}"


def interval(record: dict[str, Any], signed: bool = False) -> str:
    """value [low, high]."""
    ends = ", ".join(percent(record[end], signed) for end in ("low", "high"))
    return f"{percent(record['value'], signed)} [{ends}]"


def printed(record: dict[str, Any]) -> str:
    """The paper's own value, with a mark where it cannot be right."""
    spread = "" if record["spread"] is None else f" ±{percent(record['spread'])}"
    return f"{percent(record['value'])}{spread}{' (!)' if record['problem'] else ''}"


def lines(grid: Grid) -> tuple[list[str], list[list[str]]]:
    """Header and rows of strings, for the terminal and Markdown: value, paired difference below it, floors, and the paper's row."""
    header = ["method"]
    for metric in grid.metrics:
        header += [metric] if metric != grid.has_floor else [metric, "floor, exact", "floor, permuted labels"]
    body = []
    for method in grid.methods:
        row, paper = [method], ["  as published"]
        for metric in grid.metrics:
            record = grid.rows.get((method, metric))
            row.append(_cell(record, grid.marks.get((method, metric), "")))
            paper.append(printed(record["published"]) if record and "published" in record else "")
            if metric == grid.has_floor:
                row += [percent(record["floor"]), interval(record["permuted"])] if record else ["", ""]
                paper += ["", ""]
        body += [row] + ([paper] if any(paper[1:]) else [])
    return header, body


def _cell(record: dict[str, Any] | None, mark: str) -> str:
    if record is None:
        return ""
    value = interval(record)
    value = {"best": f"**{value}**", "second": f"_{value}_", "": value}[mark]
    return value + (f"\n{interval(record['difference'], signed=True)}" if "difference" in record else "")


def rich_tables(runs: Sequence[Run]) -> list[Any]:
    """For a rich console."""
    from rich.table import Table
    from rich.text import Text

    out = []
    for grid in grids(runs):
        header, body = lines(grid)
        table = Table(*header, title=grid.title, caption=grid.note)
        for row in body:
            table.add_row(*(_styled(cell, Text) for cell in row), style="dim" if row[0].startswith("  ") else None)
        out.append(table)
    return out


def _styled(cell: str, text: Any) -> Any:
    cell = cell.replace(", ", ",\u00a0")  # an interval stays on one line
    style = "bold" if cell.startswith("**") else "underline" if cell.startswith("_") else ""
    value, newline, gap = cell.partition("\n")
    return text.assemble((value.strip("*_") if style else value, style), (newline + gap, "dim"))


def markdown(runs: Sequence[Run]) -> str:
    """Pipe tables, the best value bold and the second in italics."""
    parts = []
    for grid in grids(runs):
        header, body = lines(grid)
        table = [header, ["---"] * len(header), *body]
        rows = ["| " + " | ".join(cell.strip().replace("|", "\\|").replace("\n", "<br>") for cell in row) + " |" for row in table]
        parts.append(f"**{grid.title}**\n\n" + "\n".join(rows) + f"\n\n{grid.note}\n")
    return "\n".join(parts)


def latex(runs: Sequence[Run]) -> str:
    """booktabs-free tabulars with the paper's markers: the best in bold and brackets, the second in brackets."""
    parts = []
    for grid in grids(runs):
        arrows = {metric: r"$\downarrow$" if _better(grid, metric) == "lower" else r"$\uparrow$" for metric in grid.metrics}
        head = " & ".join(["Method", *(f"{_escaped(metric)} {arrows[metric]}" for metric in grid.metrics)])
        body = []
        for method in grid.methods:
            cells = [_latex_cell(grid.rows.get((method, metric)), grid.marks.get((method, metric), "")) for metric in grid.metrics]
            body.append(" & ".join([_escaped(method), *cells]) + r" \\")
            paper = [grid.rows.get((method, metric), {}).get("published") for metric in grid.metrics]
            if any(paper):
                shown = [_latex_printed(record) for record in paper]
                body.append(" & ".join([r"\quad as published", *shown]) + r" \\")
        if grid.has_floor:
            floor = grid.rows[grid.methods[0], grid.has_floor]["floor"]
            body.append(" & ".join(["Random ranking", *(percent(floor) if m == grid.has_floor else "" for m in grid.metrics)]) + r" \\")
        columns = "l" + "c" * len(grid.metrics)
        table = [rf"\begin{{tabular}}{{{columns}}}", r"\hline", head + r" \\ \hline", *body, r"\hline", r"\end{tabular}"]
        parts.append(f"% {grid.title}. {grid.note}\n" + "\n".join(table) + "\n")
    return "\n".join(parts)


def _better(grid: Grid, metric: str) -> str:
    return next(row["better"] for (_, name), row in grid.rows.items() if name == metric)


def _latex_cell(record: dict[str, Any] | None, mark: str) -> str:
    if record is None:
        return ""
    value = _marked(percent(record["value"]), mark)
    return rf"{value} {{\scriptsize [{percent(record['low'])}, {percent(record['high'])}]}}"


def _latex_printed(record: dict[str, Any] | None) -> str:
    if record is None:
        return ""
    spread = "" if record["spread"] is None else rf"$\pm${percent(record['spread'])}"
    return _marked(percent(record["value"]), record["marker"]) + spread


def _marked(value: str, mark: str) -> str:
    return {"best": rf"\textbf{{[{value}]}}", "second": f"[{value}]", "": value}[mark]


def _escaped(text: str) -> str:
    return "".join(f"\\{c}" if c in "&%$#_{}" else c for c in text)


def csv_text(runs: Sequence[Run]) -> str:
    """One line for each method and metric, everything in columns of its own."""
    out = io.StringIO()
    records = [_flat(grid, key) for grid in grids(runs) for key in grid.rows]
    columns = list(dict.fromkeys(column for record in records for column in record))
    writer = csv.DictWriter(out, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return out.getvalue()


def _flat(grid: Grid, key: tuple[str, str]) -> dict[str, Any]:
    flat: dict[str, Any] = {"table": grid.title}
    for name, value in grid.rows[key].items():
        flat |= {f"{name}_{inner}": item for inner, item in value.items()} if isinstance(value, dict) else {name: value}
    return flat | {"mark": grid.marks.get(key, "")}


WRITERS = {".csv": csv_text, ".md": markdown, ".tex": latex}


def check_paths(paths: Sequence[Path]) -> None:
    """Raise for a table that could not be written, before anything is measured."""
    for path in paths:
        if path.suffix not in WRITERS:
            raise InputError(f"{path} is of an unknown kind; name it {', '.join(f'*{suffix}' for suffix in WRITERS)}")


def export(runs: Sequence[Run], path: Path) -> None:
    """Write a table; its suffix says which kind."""
    check_paths([path])
    write_atomically(path, WRITERS[path.suffix](runs).encode())


def summary(run: Run) -> str:
    """What was kept and what was dropped, in a line."""
    about, counts = run["dataset"], run["counts"]
    gone = [f"{count:,} {reason}" for reason, count in about["dropped"].items() if count]
    gone += [f"{counts['without_embedding']:,} without an embedding"] if counts["without_embedding"] else []
    groups = ", ".join(f"{name} {count:,}" for name, count in counts.get("groups", about["groups"]).items())
    return f"{about['name']}: {counts['images']:,} images ({groups}); dropped: {', '.join(gone) or 'none'}"
