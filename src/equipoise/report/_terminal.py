"""The summary on a terminal: the verdict, the three worst prompts before and after, the cost."""

from __future__ import annotations

from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from equipoise.report import _numbers as numbers
from equipoise.report import _sentences as words


def summary(results: dict[str, Any]) -> Group:
    """What rich prints."""
    lines: list[Any] = [Text(""), Text(words.headline(results), style="bold"), Text("")]
    lines += [Text(numbers.fill(sentence, results)) for sentence in words.sentences(results)]
    lines += [
        Text(numbers.fill(sentence, results), style="yellow") for sentence in words.origin(results)
    ]
    if results["subject"]["groups_from"] == "zero-shot":
        lines.append(
            Text(
                "Groups are perceived by the model itself (zero-shot), not labels.", style="yellow"
            )
        )
    return Group(*lines, Text(""), _worst(results), Text(""), *_notes(results))


def _worst(results: dict[str, Any]) -> Table:
    measure, best = results["verdict"]["measure"], results["verdict"]["best"]
    title, form = (
        (f"MaxSkew@{results['settings']['m']}", "3") if measure == "max_skew" else ("lean", "4")
    )
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
    table.add_column(
        "the worst prompts", overflow="fold"
    )  # a narrow terminal costs lines, and no digit
    for heading in (f"{title}, before", *([results["methods"][best]["label"]] if best else [])):
        table.add_column(heading, no_wrap=True)
    for place in results["verdict"]["worst"]:
        entry = results["prompts"][place]
        table.add_row(
            Text(entry["prompt"]),
            *(_cell(entry[measure][i], form) for i in dict.fromkeys((0, best))),
        )
    return table


def _cell(value: dict[str, Any], form: str) -> Text:
    shown = numbers.text(value["value"], form)
    if value["low"] is None:
        return Text(shown)
    return Text.assemble(
        shown,
        (f" [{numbers.text(value['low'], form)}, {numbers.text(value['high'], form)}]", "dim"),
    )


def _notes(results: dict[str, Any]) -> list[Text]:
    return [Text(note, style="yellow") for note in results["notes"]]
