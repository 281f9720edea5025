"""Templates, and what they need to print numbers, explain words and hold everything themselves."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from equipoise._documents import Document
from equipoise.report import _charts as charts
from equipoise.report import _glossary as glossary
from equipoise.report import _number_format as numbers

_ASSETS = resources.files("equipoise.report") / "assets"
STYLE, SCRIPT = "page.css", "page.js"


def render(
    template: str,
    results: Document,
    *,
    scripts: Sequence[str] = (),
    terms: Sequence[str] = tuple(glossary.TERMS),
    **context: Any,
) -> str:
    """Return a page of these results, which it also carries as JSON. terms: its glossary."""
    found = environment(results).get_template(template)
    return found.render(
        **context,
        results=embedded(results.to_plain()),
        css=_asset(STYLE),
        scripts=[_asset(name) for name in (SCRIPT, *scripts)],
        glossary={term: glossary.TERMS[term] for term in terms},
        place=glossary.place,
    )


def environment(results: Document) -> Environment:
    """Return templates in which numbers are printed by their place in the results."""
    environment = Environment(
        loader=PackageLoader("equipoise.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {
        "num": lambda path, form: number(path, form, results),
        "ci": lambda path, form: _with_interval(path, form, results),
        "at": lambda path: numbers.at(results, path),
        "step": numbers.step,
        "term": _term,
        "whisker": charts.whisker,
    }
    return environment


def number(path: str, form: str, results: Document) -> Markup:
    """Return a number as a page prints it, with its place in the results."""
    shown = numbers.text(numbers.at(results, path), form)
    return Markup('<span class="n" data-path="{}" data-form="{}">{}</span>').format(
        path, form, shown
    )


def _with_interval(path: str, form: str, results: Document) -> Markup:
    value = number(f"{path}.value", form, results)
    if numbers.at(results, f"{path}.low") is None:
        return value
    ends = number(f"{path}.low", form, results), number(f"{path}.high", form, results)
    return Markup('{} <span class="ci">[{}, {}]</span>').format(value, *ends)


def filled(sentence: str, results: Document, *, terms: bool = True) -> Markup:
    """Return a sentence with its numbers, in which the first of each term links to the glossary."""

    def write(path: str, form: str) -> str:
        return str(number(path, form, results))

    # escaping leaves the braces and bars that name the numbers
    escaped = str(escape(sentence))
    if terms:
        escaped = glossary.link_terms(escaped, lambda key, word: str(_term(key, word)))
    return Markup(numbers.fill(escaped, results, write))


def _term(key: str, word: str | None = None) -> Markup:
    """Return a word that links to its entry in the glossary; hovering shows the entry."""
    if key not in glossary.TERMS:
        raise KeyError(f"{key!r} is not in the glossary")
    place = glossary.place(key)
    link = '<a class="term" href="#{0}" aria-describedby="{0}">{1}</a>'
    return Markup(link).format(place, word or key)


def _asset(name: str) -> Markup:
    return Markup((_ASSETS / name).read_text(encoding="utf-8"))


def embedded(value: Any) -> Markup:
    """Return JSON that no HTML parser can take for the end of its script."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("<", "\\u003c"))
