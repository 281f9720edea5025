"""A section for a model card, in Markdown: what was measured, on what, and what it does not say."""

from __future__ import annotations

import re
from html import escape
from typing import Any

from equipoise.report import _number_format as numbers
from equipoise.report import _sentences as words
from equipoise.report._measures import digits

GATED = "explicit, gated"
FEW = " †"  # marks what rests on fewer than twenty images


def model_card(results: dict[str, Any]) -> str:
    """Return the section in Markdown, with the numbers of results.json."""
    subject, methods = results["subject"], results["methods"]

    def fill(sentence: str) -> str:
        return numbers.fill(sentence, results, lambda path, form: _filled(results, path, form))

    lines = [
        f"## Bias audit: {plain(subject['attribute']['name'])}",
        "",
        f"**{plain(words.headline(results))}**",
        "",
    ]
    for sentence in [*words.sentences(results), *words.origin(results)]:
        lines.append(fill(sentence) + "\n")
    labels = [plain(method["label"]) for method in methods]
    lines.append("| " + _table_row(["n", *labels]))
    lines.append("|---|---|" + "---|" * len(methods))
    for row in results["summary"]:
        name = plain(row["name"])
        if row["section"] == GATED:
            name += ", with the gate"
        cells = [_cell(value, digits(row["key"])) for value in row["values"]]
        mark = FEW if row["small"] else ""
        what = f"{name}{mark} ({row['better']} is better)"
        lines.append(_table_row([what, f"{row['n']:,} {row['over']}", *cells]))
    few = ""
    if any(row["small"] for row in results["summary"]):
        few = f"{FEW} rests on fewer than 20 images."
    level = numbers.text(results["settings"]["level"], "%")
    lines += [
        "",
        f"In brackets: {level} intervals, {results['settings']['resamples']:,} resamples.{few}",
        "",
        "### What this does not say",
        "",
    ]
    lines += [f"- {plain(sentence)}" for sentence in words.caveats(results)]
    model = subject["model"]["id"] or "an unnamed encoder"
    fingerprint = subject["model"]["fingerprint"][:12]
    if fingerprint:
        model = f"{model} {fingerprint}"
    version = results["versions"]["equipoise"]
    lines += [
        "",
        f"Measured with equipoise {version} on {results['created']}; encoder {plain(model)};"
        f" prompt book {subject['book']['hash']}.",
    ]
    return "\n".join(lines) + "\n"


def _table_row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def plain(text: str) -> str:
    """Return a text that Markdown shows as it is: no name becomes a tag, a link or a cell."""
    one_line = " ".join(text.split())
    escaped = re.sub(r"([\\`*\[\]|])", r"\\\1", one_line)
    return escape(escaped, quote=False)


def _filled(results: dict[str, Any], path: str, form: str) -> str:
    shown = numbers.text(numbers.at(results, path), form)
    return plain(shown) if form == "s" else shown


def _cell(value: dict[str, Any], form: str) -> str:
    shown = numbers.text(value["value"], form)
    if value["low"] is None:
        return shown
    low, high = numbers.text(value["low"], form), numbers.text(value["high"], form)
    return f"{shown} [{low}, {high}]"
