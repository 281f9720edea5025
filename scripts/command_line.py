"""Write docs/command-line.md, every verb and option in the words of --help: python -m scripts.command_line."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import typer

from equipoise._cli import app

PAGE = Path(__file__).resolve().parents[1] / "docs" / "command-line.md"
EVERYWHERE = {"help", "install_completion", "show_completion"}
INTRODUCTION = """# The command line

Every verb and every option, in the words of `--help`. What is read is positional, and what is written is `--out`; an option means the same in every verb.
Exit codes: 0 done, 1 our mistake, 2 yours, 3 above `--fail-above`.
"""


def page() -> str:
    """Return the page: an introduction, then one section per verb."""
    root: Any = typer.main.get_command(app)
    context = root.make_context("equipoise", [], resilient_parsing=True)
    sections = [INTRODUCTION]
    for name in root.list_commands(context):
        sections += sections_of(root.get_command(context, name), f"equipoise {name}", context)
    return "\n".join(sections)


def sections_of(command: Any, typed: str, context: Any, level: int = 2) -> list[str]:
    """Return the section of a verb, and those of the verbs inside it."""
    shown = [f"{'#' * level} {typed}", "", inspect.cleandoc(command.help or ""), ""]
    records = [one.get_help_record(context) for one in command.params if one.name not in EVERYWHERE]
    rows = [f"| `{cell(typed)}` | {cell(meaning)} |" for typed, meaning in filter(None, records)]
    if rows:
        shown += ["| type | to |", "|---|---|", *rows, ""]
    sections = ["\n".join(shown)]
    for name, inner in getattr(command, "commands", {}).items():
        sections += sections_of(inner, f"{typed} {name}", context, level + 1)
    return sections


def cell(text: str) -> str:
    """Return the text as a cell of a Markdown table."""
    return " ".join(text.split()).replace("|", "\\|").replace("[required]", "**required**")


if __name__ == "__main__":
    PAGE.write_text(page())
