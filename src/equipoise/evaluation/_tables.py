"""Tables of runs for a terminal, Markdown, CSV and LaTeX, and a run in a few lines."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from equipoise._artefact import require_writable, write_atomically
from equipoise.errors import InputError
from equipoise.evaluation._grids import Grid, grids, lines
from equipoise.evaluation._latex import latex
from equipoise.evaluation._run_document import EvaluationRun


def rich_tables(runs: Sequence[EvaluationRun]) -> list[Any]:
    """Return the tables of runs for a rich console."""
    from rich.table import Table
    from rich.text import Text

    out = []
    for grid in grids(runs):
        header, body = lines(grid)
        table = Table(title=grid.title, caption=grid.note)
        for name in header:
            table.add_column(name, overflow="fold")
        # the longest word sets the width, so that no name is cut
        words = [word for row in (header, *body) for word in row[0].split()]
        table.columns[0].width = max(map(len, words))
        for name, *values in body:
            style = "dim" if name.startswith("  ") else None
            cells = [_styled(value, Text) for value in values]
            table.add_row(Text(name), *cells, style=style)
        out.append(table)
    return out


def _styled(cell: str, text: Any) -> Any:
    """Return a cell of ``lines`` as rich text. text: rich's class."""
    # an interval stays on one line
    cell = cell.replace(", ", ",\u00a0")
    value, newline, gap = cell.partition("\n")
    style = ""
    if value.startswith("**"):
        value, style = value.strip("*_"), "bold"
    elif value.startswith("_"):
        value, style = value.strip("*_"), "underline"
    return text.assemble((value, style), (newline + gap, "dim"))


def markdown(runs: Sequence[EvaluationRun]) -> str:
    """Return pipe tables, the best value of all rows bold and the second in italics."""
    parts = []
    for grid in grids(runs):
        header, body = lines(grid)
        table = [header, ["---"] * len(header), *body]
        rows = "\n".join(_piped(row) for row in table)
        parts.append(f"**{grid.title}**\n\n{rows}\n\n{grid.note}\n")
    return "\n".join(parts)


def _piped(row: list[str]) -> str:
    cells = [cell.strip().replace("|", "\\|").replace("\n", "<br>") for cell in row]
    return "| " + " | ".join(cells) + " |"


def csv_text(runs: Sequence[EvaluationRun]) -> str:
    """Return one line per method and metric, with everything in columns of its own."""
    out = io.StringIO()
    records = [_flat(grid, key) for grid in grids(runs) for key in grid.rows]
    columns = list(dict.fromkeys(column for record in records for column in record))
    writer = csv.DictWriter(out, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return out.getvalue()


def _flat(grid: Grid, key: tuple[str, str]) -> dict[str, Any]:
    flat: dict[str, Any] = {"table": grid.title}
    for name, value in grid.rows[key].to_plain().items():
        if isinstance(value, dict):
            for inner, item in value.items():
                flat[f"{name}_{inner}"] = item
        elif isinstance(value, list):
            flat[name] = "; ".join(value)
        else:
            flat[name] = value
    flat["mark"] = grid.marks.get(key, "")
    return flat


WRITERS = {".csv": csv_text, ".md": markdown, ".tex": latex}


def check_paths(paths: Sequence[Path]) -> None:
    """Raise where a table could not be written, before anything is measured."""
    for path in paths:
        if path.suffix not in WRITERS:
            legal = ", ".join(f"*{suffix}" for suffix in WRITERS)
            raise InputError(f"{path} is of an unknown kind; name it {legal}")
        require_writable(path)


def export(runs: Sequence[EvaluationRun], path: Path) -> None:
    """Write a table; its suffix says which kind."""
    check_paths([path])
    write_atomically(path, WRITERS[path.suffix](runs).encode())


def summary(run: EvaluationRun) -> str:
    """Return a few lines: what was kept, what was left out and why, and what was fitted on."""
    about, counts, fitting = run.dataset, run.counts, run.fitting
    gone = [f"{count:,} {reason}" for reason, count in about.dropped.items() if count]
    if counts.without_embedding:
        gone.append(f"{counts.without_embedding:,} without an embedding")
    unworded = [method.book.unworded for method in run.methods.values() if method.book]
    notes = {
        "of the images are of no known class or group, and left out where one is needed": (
            run.rows[0].left_out
        ),
        "rows repeat an image, and count again": counts.repeated,
        "captions are empty, and no query": counts.blank_captions or 0,
        f"of {about.prompts:,} prompts speak of no person, and have no anchors": (
            max(unworded, default=0)
        ),
    }
    lines = [
        f"{about.name}: {counts.images:,} images ({_sizes(counts.groups)}); dropped:"
        f" {', '.join(gone) or 'none'}"
    ]
    lines += [f"{count:,} {note}" for note, count in notes.items() if count]
    if fitting:
        lines.append(
            f"to fit on, and not measured: {fitting.images:,} images of {fitting.name}"
            f" ({_sizes(fitting.groups)})"
        )
    return "\n".join(lines)


def _sizes(groups: dict[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in groups.items())
