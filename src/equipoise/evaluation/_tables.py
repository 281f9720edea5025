"""Tables of runs, from their files alone: for a terminal, Markdown, CSV and (``latex.py``) LaTeX;
and a run in a few lines.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from equipoise._artefact import require_writable, write_atomically
from equipoise.errors import InputError
from equipoise.evaluation._grids import Grid, Run, grids, lines
from equipoise.evaluation._latex import latex


def rich_tables(runs: Sequence[Run]) -> list[Any]:
    """For a rich console."""
    from rich.table import Table
    from rich.text import Text

    out = []
    for grid in grids(runs):
        header, body = lines(grid)
        table = Table(title=grid.title, caption=grid.note)
        for name in header:
            table.add_column(name, overflow="fold")
        table.columns[0].width = max(
            len(word) for row in (header, *body) for word in row[0].split()
        )  # names are never cut
        for row in body:
            table.add_row(
                Text(row[0]),
                *(_styled(cell, Text) for cell in row[1:]),
                style="dim" if row[0].startswith("  ") else None,
            )
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
        rows = [
            "| "
            + " | ".join(cell.strip().replace("|", "\\|").replace("\n", "<br>") for cell in row)
            + " |"
            for row in table
        ]
        parts.append(f"**{grid.title}**\n\n" + "\n".join(rows) + f"\n\n{grid.note}\n")
    return "\n".join(parts)


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
        flat |= (
            {f"{name}_{inner}": item for inner, item in value.items()}
            if isinstance(value, dict)
            else {name: value}
        )
    return flat | {"mark": grid.marks.get(key, "")}


WRITERS = {".csv": csv_text, ".md": markdown, ".tex": latex}


def check_paths(paths: Sequence[Path]) -> None:
    """Raise for a table that could not be written, before anything is measured."""
    for path in paths:
        if path.suffix not in WRITERS:
            raise InputError(
                f"{path} is of an unknown kind; name it"
                f" {', '.join(f'*{suffix}' for suffix in WRITERS)}"
            )
        require_writable(path)


def export(runs: Sequence[Run], path: Path) -> None:
    """Write a table; its suffix says which kind."""
    check_paths([path])
    write_atomically(path, WRITERS[path.suffix](runs).encode())


def summary(run: Run) -> str:
    """What was kept and what was left out and why, and what methods were fitted on; a line each."""
    about, counts, fitting, unknown = (
        run["dataset"],
        run["counts"],
        run["fitting"],
        run["rows"][0]["left_out"],
    )
    gone = [f"{count:,} {reason}" for reason, count in about["dropped"].items() if count]
    gone += (
        [f"{counts['without_embedding']:,} without an embedding"]
        if counts["without_embedding"]
        else []
    )
    unworded = max(
        (method.get("book", {}).get("unworded", 0) for method in run["methods"].values()), default=0
    )
    blank = counts.get("blank_captions", 0)
    notes = [
        (unknown, "of the images are of no known class or group, and left out where one is needed"),
        (counts["repeated"], "rows repeat an image, and count again"),
        (blank, "captions are empty, and no query"),
        (unworded, f"of {about['prompts']:,} prompts speak of no person, and have no anchors"),
    ]
    first = (
        f"{about['name']}: {counts['images']:,} images ({_sizes(counts['groups'])}); dropped:"
        f" {', '.join(gone) or 'none'}"
    )
    last = (
        [
            f"to fit on, and not measured: {fitting['images']:,} images of {fitting['name']}"
            f" ({_sizes(fitting['groups'])})"
        ]
        if fitting
        else []
    )
    said = [f"{count:,} {note}" for count, note in notes if count]
    return "\n".join([first, *said, *last])


def _sizes(groups: dict[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in groups.items())
