"""Results as the paper's Table 4: methods down, SP, CLIP score and accuracy across.

Numbers are in percent with intervals. Four kinds of file are written.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

from equipoise import published
from equipoise._artefact import write_atomically
from equipoise.generation._loop_table import loop_csv, loop_lines, loop_note
from equipoise.generation._results_document import GenerationResults, TableCell
from equipoise.generation._shares import EQUAL
from equipoise.metrics._intervals import HasInterval

LOOPS = "loops.csv"
CAPTION = 60  # columns of a terminal that the note gets, however narrow the table is
ARROWS = {"lower": "↓", "higher": "↑"}
TEX = {"↓": r"$\downarrow$", "↑": r"$\uparrow$", "^": r"\^{}"}
# Columns, as ``published`` names their metrics.
PAPER = {"sp": "SP_all", "sp_5": "SP_5", "clip": "CLIP score", "accuracy": "Acc^G"}
CSV_HEADER = (
    *("method", "metric", "better", "by", "prompts"),
    *("value", "low", "high", "n", "left_out"),
    *("change", "change_low", "change_high"),
)


def lines(results: GenerationResults) -> tuple[list[str], list[list[str]]]:
    """Return the header and the rows as strings.

    Below a method stand its change from the first and, where the run is the paper's preset, what
    the paper printed.
    """
    header = [
        "Method",
        *(f"{column.name} {ARROWS[column.better]}" for column in results.columns),
        "Regenerated",
    ]
    rows = []
    for method in results.methods:
        cells = [method.cells[column.key] for column in results.columns]
        regenerated = f"{method.regenerated} of {method.pictures}"
        rows.append([method.label, *map(interval, cells), regenerated])
        if any(cell.change for cell in cells):
            rows.append(["  change", *map(_change, cells), ""])
        printed = _published(results, method.label)
        if printed:
            figures = [printed.get(column.key, "") for column in results.columns]
            rows.append(["  as published, SD v2.1", *figures, ""])
    return header, rows


def note(results: GenerationResults, judges: bool = True) -> str:
    """Return what a reader of the numbers must know.

    judges: say who labelled and scored what, where the table itself does not.
    """
    plan, settings = results.plan, results.settings
    parts = [
        f"{plan.model}: {plan.images} pictures of each prompt and method; in percent, with"
        f" {settings.level:.0%} intervals over pictures ({settings.resamples} resamples)."
    ]
    if not results.columns:
        parts.append(
            "Nothing was measured: nobody labelled the pictures. Name an annotator, or add people's"
            " labels or a CLIP score (docs/generation.md)."
        )
    for by in dict.fromkeys(column.by for column in results.columns if judges):
        named = [
            f"{column.name} ({column.prompts} prompts)"
            for column in results.columns
            if column.by == by
        ]
        parts.append(f"By {by}: {', '.join(named)}.")
    if floor := results.floors.get("sp"):
        parts.append(
            f"A generator without bias would have an SP of {100 * floor:.1f} with so few pictures."
        )
    if plan.target != EQUAL:
        parts.append(
            f"SP is the distance from equal shares; the shares asked for were {plan.target}."
        )
    if results.clip and results.clip.same:
        parts.append(
            "The CLIP score is by the encoder that conditioned the pictures: a judge in its own"
            " case."
        )
    if results.annotator and results.annotator.same:
        parts.append("The pictures were labelled by the encoder that conditioned them.")
    through = "go through the method, save where gated is said."
    if plan.gate:
        through = "are left alone by the gate."
    parts.append(f"Prompts that name a group {through}")
    parts.append("Perceived, not identity; equal shares are not the same as fair.")
    return " ".join(parts)


def interval(found: HasInterval, form: str = ".1f") -> str:
    """Return "value [low, high]" in percent."""
    if found.value is None:
        return "not known"
    value = _percent(found.value, form)
    if found.low is None or found.high is None:
        return value
    return f"{value} [{_percent(found.low, form)}, {_percent(found.high, form)}]"


def _percent(share: float, form: str) -> str:
    """Return a share in percent; what rounds to zero has no sign."""
    written = f"{100 * share:{form}}"
    return written if float(written) else written.lstrip("+-")


def _change(cell: TableCell) -> str:
    if cell.change is None:
        return ""
    return interval(cell.change, "+.1f")


def rich_table(results: GenerationResults) -> Any:
    """Return the table for a rich console."""
    from rich.table import Table

    header, rows = lines(results)
    table = Table(title="Text-to-image generation", caption=note(results), min_width=CAPTION)
    for name in header:
        table.add_column(name, overflow="fold")
    for row in rows:
        style = "dim" if row[0].startswith(" ") else None
        table.add_row(*map(_broken, row), style=style)
    return table


def _broken(cell: str) -> str:
    """Return a cell with its interval on a line of its own."""
    return cell.replace(" [", "\n[").replace(", ", ",\u00a0")


def markdown(results: GenerationResults) -> str:
    """Return a pipe table, and one for each closed loop."""
    tables = [f"{_pipes(*lines(results))}\n\n{note(results)}\n"]
    for loop in results.loops:
        tables.append(f"{_pipes(*loop_lines(loop))}\n\n{loop_note(loop)}\n")
    return "\n".join(tables)


def _pipes(header: list[str], rows: list[list[str]]) -> str:
    rule = ["---"] * len(header)
    return "\n".join(f"| {' | '.join(row)} |" for row in [header, rule, *rows])


def latex(results: GenerationResults) -> str:
    """Return a plain tabular."""
    header, rows = lines(results)
    body = [" & ".join(map(_escaped, row)) + r" \\" for row in [header, *rows]]
    body[0] += r" \hline"
    start = [rf"\begin{{tabular}}{{l{'c' * (len(header) - 1)}}}", r"\hline"]
    return f"% {note(results)}\n" + "\n".join([*start, *body, r"\hline", r"\end{tabular}"]) + "\n"


def csv_text(results: GenerationResults) -> str:
    """Return one line per method and column, every number by itself."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(CSV_HEADER)
    for method in results.methods:
        for column in results.columns:
            cell = method.cells[column.key]
            about = [column.key, column.better, column.by, column.prompts]
            numbers = [cell.value, cell.low, cell.high, cell.n, cell.left_out]
            change = [None, None, None]
            if cell.change is not None:
                change = [cell.change.value, cell.change.low, cell.change.high]
            writer.writerow([method.label, *about, *numbers, *change])
    return out.getvalue()


WRITERS: dict[str, Callable[[GenerationResults], str]] = {
    "table.csv": csv_text,
    "table.md": markdown,
    "table.tex": latex,
}


def write(folder: Path, results: GenerationResults) -> None:
    """Write table.csv, table.md and table.tex; loops.csv where there is a closed loop."""
    for name, writer in WRITERS.items():
        write_atomically(folder / name, writer(results).encode())
    if results.loops:
        write_atomically(folder / LOOPS, loop_csv(results.loops).encode())


def _published(results: GenerationResults, label: str) -> dict[str, str]:
    """Return what Table 4 has for a method, by column."""
    if results.plan.preset != "paper":
        return {}
    cells = published.lookup(table=4, method=label.partition(" (")[0])
    found = dict(zip(cells["metric"], cells["value"], strict=True))
    return {key: f"{found[metric]:.1f}" for key, metric in PAPER.items() if metric in found}


def _escaped(text: str) -> str:
    return "".join(map(_escaped_letter, text))


def _escaped_letter(letter: str) -> str:
    if letter in TEX:
        return TEX[letter]
    return f"\\{letter}" if letter in "&%#_" else letter
