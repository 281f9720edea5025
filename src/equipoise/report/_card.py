"""A section for a model card, in Markdown: what was measured, on what, and what it does not say."""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import escape

from equipoise._audit.results import AuditDocument, MethodValue
from equipoise.report import _number_format as numbers
from equipoise.report import _sentences as words
from equipoise.report._measures import GATED, digits

FEW = " †"  # marks what rests on fewer than twenty images


def model_card(results: AuditDocument | Mapping[str, object]) -> str:
    """Return the section in Markdown. results: an audit's document, or what results.json holds."""
    document = AuditDocument.model_validate(results)
    subject = document.subject

    def fill(sentence: str) -> str:
        return numbers.fill(sentence, document, lambda path, form: _filled(document, path, form))

    lines = [
        f"## Bias audit: {plain(subject.attribute.name)}",
        "",
        f"**{plain(words.headline(document))}**",
        "",
    ]
    for sentence in [*words.sentences(document), *words.origin(document)]:
        lines.append(fill(sentence) + "\n")
    lines += _table(document)
    few = ""
    if any(row.small for row in document.summary):
        few = f"{FEW} rests on fewer than 20 images."
    level = numbers.text(document.settings.level, "%")
    lines += [
        "",
        f"In brackets: {level} intervals, {document.settings.resamples:,} resamples.{few}",
        "",
        "### What this does not say",
        "",
    ]
    lines += [f"- {plain(sentence)}" for sentence in words.caveats(document)]
    model = subject.model.id or "an unnamed encoder"
    fingerprint = subject.model.fingerprint[:12]
    if fingerprint:
        model = f"{model} {fingerprint}"
    version = document.versions["equipoise"]
    lines += [
        "",
        f"Measured with equipoise {version} on {document.created}; encoder {plain(model)};"
        f" prompt book {subject.book.hash}.",
    ]
    return "\n".join(lines) + "\n"


def _table(document: AuditDocument) -> list[str]:
    """Return the summary, a line per metric."""
    labels = [plain(method.label) for method in document.methods]
    lines = ["| " + _table_row(["n", *labels]), "|---|---|" + "---|" * len(labels)]
    for row in document.summary:
        name = plain(row.name)
        if row.section == GATED:
            name += ", with the gate"
        mark = FEW if row.small else ""
        what = f"{name}{mark} ({row.better} is better)"
        cells = [_cell(value, digits(row.key)) for value in row.values]
        lines.append(_table_row([what, f"{row.n:,} {row.over}", *cells]))
    return lines


def _table_row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def plain(text: str) -> str:
    """Return a text that Markdown shows as it is: no name becomes a tag, a link or a cell."""
    one_line = " ".join(text.split())
    escaped = re.sub(r"([\\`*\[\]|])", r"\\\1", one_line)
    return escape(escaped, quote=False)


def _filled(document: AuditDocument, path: str, form: str) -> str:
    shown = numbers.text(numbers.at(document, path), form)
    return plain(shown) if form == "s" else shown


def _cell(value: MethodValue, form: str) -> str:
    shown = numbers.text(value.value, form)
    if value.low is None:
        return shown
    low, high = numbers.text(value.low, form), numbers.text(value.high, form)
    return f"{shown} [{low}, {high}]"
