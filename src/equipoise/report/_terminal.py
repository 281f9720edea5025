"""The summary on a terminal: the verdict, the three worst prompts before and after, the cost."""

from __future__ import annotations

from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from equipoise.report import _number_format as numbers
from equipoise.report import _sentences as words


def summary(results: dict[str, Any]) -> Group:
    """Return the summary as rich prints it."""
    lines: list[Any] = [Text(""), Text(words.headline(results), style="bold"), Text("")]
    lines += [Text(numbers.fill(sentence, results)) for sentence in words.sentences(results)]
    lines += [
        Text(numbers.fill(sentence, results), style="yellow") for sentence in words.origin(results)
    ]
    if results["subject"]["groups_from"] == "zero-shot":
        perceived = "Groups are perceived by the model itself (zero-shot), not labels."
        lines.append(Text(perceived, style="yellow"))
    next_lines = _next(results)
    return Group(*lines, Text(""), _worst(results), Text(""), *next_lines, *_notes(results))


def _worst(results: dict[str, Any]) -> Table:
    measure, best = results["verdict"]["measure"], results["verdict"]["best"]
    title, form = "lean", "4"
    if measure == "max_skew":
        title, form = f"MaxSkew@{results['settings']['m']}", "3"
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
    # a narrow terminal folds the prompts, and cuts no digit
    table.add_column("the worst prompts", overflow="fold")
    table.add_column(f"{title}, before", no_wrap=True)
    if best:
        table.add_column(results["methods"][best]["label"], no_wrap=True)
    for place in results["verdict"]["worst"]:
        entry = results["prompts"][place]
        row = [Text(entry["prompt"]), _cell(entry[measure][0], form)]
        if best:
            row.append(_cell(entry[measure][best], form))
        table.add_row(*row)
    return table


def _cell(value: dict[str, Any], form: str) -> Text:
    shown = numbers.text(value["value"], form)
    if value["low"] is None:
        return Text(shown)
    low, high = numbers.text(value["low"], form), numbers.text(value["high"], form)
    return Text.assemble(shown, (f" [{low}, {high}]", "dim"))


def _next(results: dict[str, Any]) -> list[Text]:
    """Return what to do next: lines to type, each on a line of its own."""
    found = results["recommendation"]
    if not found["python"]:
        return []
    lines = [Text("What to do next", style="bold")]
    if found["shell"]:
        lines.append(Text("In a terminal:"))
        lines += [_typed(line) for line in found["shell"]]
    lines.append(Text("In Python:"))
    lines += [_typed(line) for line in found["python"]]
    return [*lines, Text(f"The way back: {found['back']}"), Text("")]


def _typed(line: str) -> Text:
    """Return a line that a terminal does not break, so that it can be copied."""
    return Text(f"  {line}", no_wrap=True, overflow="ignore", style="cyan")


def _notes(results: dict[str, Any]) -> list[Text]:
    return [Text(note, style="yellow") for note in results["notes"]]
