"""The page: results in, one HTML file out, with everything it needs inside."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from importlib import resources
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from equipoise._audit.documents import Pictures
from equipoise.report import _numbers as numbers
from equipoise.report import _sentences as words

_ASSETS = resources.files("equipoise.report") / "assets"
SECTIONS = {
    "association": "What texts and images carry",
    "retrieval": "Who is found",
    "classification": "Zero-shot classification",
    "probe": "What a trained probe still reads",
    "cost": "What debiasing costs",
    "explicit": "Prompts that name a group",
    "explicit, gated": "Prompts that name a group, left alone by the gate",
}
DUMBBELLS = 40
# measures that need a fourth digit
SMALL = ("lean", "leakage", "self_loss", "explicit_lean")


def page(results: dict[str, Any], pictures: Pictures | None = None) -> str:
    """Return the page of one audit."""
    pictures = pictures or Pictures()
    methods = list(enumerate(results["methods"]))
    data = {
        "arrays": {name: _array(array) for name, array in sorted(pictures.arrays.items())},
        "small": {str(image): _jpeg(file) for image, file in pictures.small.items()},
    }
    context = {
        "r": results,
        "turning": [(i, method) for i, method in methods if results["dials"][i] is not None],
        "after": methods[1:],
        "exact": bool(pictures.arrays) and results["settings"]["exact_dial"],
        "gallery": results["gallery"] if pictures.small else None,
        "sections": _sections(results),
        "headline": words.headline(results),
        "sentences": [_filled(sentence, results) for sentence in words.sentences(results)],
        "origin": [_filled(sentence, results) for sentence in words.origin(results)],
        "caveats": words.caveats(results),
        "dumbbells": DUMBBELLS,
        "digits": {row["key"]: digits(row["key"]) for row in results["summary"]},
        "data": embedded(data),
        "results": embedded(results),
    }
    return environment(results).get_template("audit.html").render(**context, **assets("page.js"))


def digits(key: str) -> str:
    """Return how many digits of a metric are shown after the point."""
    return "4" if key.startswith(SMALL) else "3"


def comparison(runs: Sequence[tuple[str, dict[str, Any]]]) -> str:
    """Return the page of several audits, given by name: the same metrics side by side."""
    results = {"runs": [{"name": name, "results": run} for name, run in runs]}
    audits = [run for _, run in runs]
    caveats = [sentence for run in audits for sentence in words.caveats(run)]
    context = {
        "runs": results["runs"],
        "rows": _rows_side_by_side(audits),
        "caveats": list(dict.fromkeys(caveats)),
        "headlines": [words.headline(run) for run in audits],
        "results": embedded(results),
    }
    return environment(results).get_template("comparison.html").render(**context, **assets(None))


def _rows_side_by_side(audits: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a row per metric, with its place in the summary of each audit, or None."""
    found: dict[str, dict[str, Any]] = {}
    for number, audit in enumerate(audits):
        for place, row in enumerate(audit["summary"]):
            key = row["key"]
            if key not in found:
                found[key] = {
                    "path": f"runs.{number}.results.summary.{place}.name",
                    "better": row["better"],
                    "digits": digits(key),
                    "section": SECTIONS[row["section"]],
                    "places": [None] * len(audits),
                }
            found[key]["places"][number] = place
    return list(found.values())


def environment(results: dict[str, Any]) -> Environment:
    """Return templates in which numbers are printed by their place in the results."""
    environment = Environment(
        loader=PackageLoader("equipoise.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {
        "num": lambda path, form: _number(path, form, results),
        "ci": lambda path, form: _with_interval(path, form, results),
        "at": lambda path: numbers.at(results, path),
        "step": numbers.step,
    }
    return environment


def _number(path: str, form: str, results: dict[str, Any]) -> Markup:
    shown = numbers.text(numbers.at(results, path), form)
    return Markup('<span class="n" data-path="{}" data-form="{}">{}</span>').format(
        path, form, shown
    )


def _with_interval(path: str, form: str, results: dict[str, Any]) -> Markup:
    value = _number(f"{path}.value", form, results)
    if numbers.at(results, f"{path}.low") is None:
        return value
    ends = _number(f"{path}.low", form, results), _number(f"{path}.high", form, results)
    return Markup('{} <span class="ci">[{}, {}]</span>').format(value, *ends)


def _filled(sentence: str, results: dict[str, Any]) -> Markup:
    def number(path: str, form: str) -> str:
        return str(_number(path, form, results))

    # escaping leaves the braces and bars that name the numbers
    escaped = str(escape(sentence))
    return Markup(numbers.fill(escaped, results, number))


def _sections(results: dict[str, Any]) -> list[tuple[str, list[int]]]:
    """Return the title of each section that has rows, and the places of those rows."""
    rows = results["summary"]
    found = []
    for section, title in SECTIONS.items():
        places = [i for i, row in enumerate(rows) if row["section"] == section]
        if places:
            found.append((title, places))
    return found


def assets(script: str | None) -> dict[str, Markup]:
    """Return the style sheet, and with a script the library of charts too."""
    files = {"css": "page.css"}
    if script:
        files["script"] = script
        files["plotly"] = "plotly-basic.min.js"
    return {
        name: Markup((_ASSETS / file).read_text(encoding="utf-8")) for name, file in files.items()
    }


def _jpeg(data: bytes) -> str:
    return f"data:image/jpeg;base64,{base64.b64encode(data).decode()}"


def _array(array: np.ndarray) -> dict[str, Any]:
    little = np.ascontiguousarray(array, "<f4")
    return {"shape": list(array.shape), "float32": base64.b64encode(little.tobytes()).decode()}


def embedded(value: Any) -> Markup:
    """Return JSON that no HTML parser can take for the end of its script."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("<", "\\u003c"))
