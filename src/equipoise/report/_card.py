"""A section for a model card, in Markdown: what was measured, on what, and what it does not say."""

from __future__ import annotations

import re
from html import escape
from typing import Any

from equipoise.report import _numbers as numbers
from equipoise.report import _sentences as words
from equipoise.report._page import digits

GATED = "explicit, gated"


def model_card(results: dict[str, Any]) -> str:
    """Markdown with the numbers of results.json."""
    subject, methods = results["subject"], results["methods"]
    lines = [
        f"## Bias audit: {plain(subject['attribute']['name'])}",
        "",
        f"**{plain(words.headline(results))}**",
        "",
    ]
    lines += [
        numbers.fill(sentence, results, lambda path, form: _filled(results, path, form)) + "\n"
        for sentence in [*words.sentences(results), *words.origin(results)]
    ]
    lines += [
        "| | n | " + " | ".join(plain(method["label"]) for method in methods) + " |",
        "|---|---|" + "---|" * len(methods),
    ]
    for row in results["summary"]:
        cells = [_cell(value, digits(row["key"])) for value in row["values"]]
        name = plain(row["name"]) + (", with the gate" if row["section"] == GATED else "")
        lines.append(
            f"| {name} ({row['better']} is better) | {row['n']:,} {row['over']} | "
            + " | ".join(cells)
            + " |"
        )
    level = numbers.text(results["settings"]["level"], "%")
    lines += [
        "",
        f"In brackets: {level} intervals, {results['settings']['resamples']:,} resamples.",
        "",
        "### What this does not say",
        "",
    ]
    lines += [f"- {plain(sentence)}" for sentence in words.caveats(results)]
    model = " ".join(
        filter(
            None,
            (subject["model"]["id"] or "an unnamed encoder", subject["model"]["fingerprint"][:12]),
        )
    )
    version = results["versions"]["equipoise"]
    measured = f"Measured with equipoise {version} on {results['created']}; "
    measured += f"encoder {plain(model)}; "
    lines += ["", measured + f"prompt book {subject['book']['hash']}."]
    return "\n".join(lines) + "\n"


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
    return (
        shown
        if value["low"] is None
        else f"{shown} [{numbers.text(value['low'], form)}, {numbers.text(value['high'], form)}]"
    )
