"""The summary on a terminal: the verdict, the three worst prompts before and after, the cost."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from equipoise._audit.results import AuditDocument, MethodValue, Recommendation
from equipoise.report import _number_format as numbers
from equipoise.report import _sentences as words


def summary(document: AuditDocument) -> Group:
    """Return the summary as rich prints it."""
    lines: list[RenderableType] = [Text("")]
    lines += [Text(words.headline(document), style="bold"), Text("")]
    lines += [Text(numbers.fill(sentence, document)) for sentence in words.sentences(document)]
    for sentence in words.origin(document):
        lines.append(Text(numbers.fill(sentence, document), style="yellow"))
    if document.subject.groups_from == "zero-shot":
        perceived = "Groups are perceived by the model itself (zero-shot), not labels."
        lines.append(Text(perceived, style="yellow"))
    lines += [Text(""), _worst(document), Text(""), *_next(document.recommendation)]
    return Group(*lines, *(Text(note, style="yellow") for note in document.notes))


def _worst(document: AuditDocument) -> Table:
    measure, best = document.verdict.measure, document.verdict.best
    title, form = "lean", "4"
    if measure == "max_skew":
        title, form = f"MaxSkew@{document.settings.m}", "3"
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
    # a narrow terminal folds the prompts, and cuts no digit
    table.add_column("the worst prompts", overflow="fold")
    table.add_column(f"{title}, before", no_wrap=True)
    if best:
        table.add_column(document.methods[best].label, no_wrap=True)
    for place in document.verdict.worst:
        entry = document.prompts[place]
        values = entry.measured(measure)
        row = [Text(entry.prompt), _cell(values[0], form)]
        if best:
            row.append(_cell(values[best], form))
        table.add_row(*row)
    return table


def _cell(value: MethodValue, form: str) -> Text:
    shown = numbers.text(value.value, form)
    if value.low is None:
        return Text(shown)
    low, high = numbers.text(value.low, form), numbers.text(value.high, form)
    return Text.assemble(shown, (f" [{low}, {high}]", "dim"))


def _next(found: Recommendation) -> list[Text]:
    """Return what to do next: lines to type, each on a line of its own."""
    if not found.python:
        return []
    lines = [Text("What to do next", style="bold")]
    if found.shell:
        lines.append(Text("In a terminal:"))
        lines += [_typed(line) for line in found.shell]
    lines.append(Text("In Python:"))
    lines += [_typed(line) for line in found.python]
    return [*lines, Text(f"The way back: {found.back}"), Text("")]


def _typed(line: str) -> Text:
    """Return a line that a terminal does not break, so that it can be copied."""
    return Text(f"  {line}", no_wrap=True, overflow="ignore", style="cyan")
