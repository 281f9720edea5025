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
SMALL = ("lean", "leakage", "self_loss", "explicit_lean")  # measures that need a fourth digit


def page(results: dict[str, Any], pictures: Pictures | None = None) -> str:
    """One audit."""
    pictures = pictures or Pictures()
    exact = bool(pictures.arrays)
    data = {
        "arrays": {name: _array(array) for name, array in sorted(pictures.arrays.items())},
        "small": {
            str(i): f"data:image/jpeg;base64,{base64.b64encode(file).decode()}"
            for i, file in pictures.small.items()
        },
    }
    used = [
        (i, method)
        for i, method in enumerate(results["methods"])
        if results["dials"][i] is not None
    ]
    context = {
        "r": results,
        "turning": used,
        "after": list(enumerate(results["methods"]))[1:],
        "exact": exact and results["settings"]["exact_dial"],
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
    """After the point."""
    return "4" if key.startswith(SMALL) else "3"


def comparison(runs: Sequence[tuple[str, dict[str, Any]]]) -> str:
    """Several audits, by name: the same metrics side by side."""
    results = {"runs": [{"name": name, "results": run} for name, run in runs]}
    keys = list(dict.fromkeys(row["key"] for _, run in runs for row in run["summary"]))
    rows = []
    for key in keys:
        places = [
            next((i for i, row in enumerate(run["summary"]) if row["key"] == key), None)
            for _, run in runs
        ]
        having, place = next((r, i) for r, i in enumerate(places) if i is not None)
        first = runs[having][1]["summary"][place]
        about = {
            "path": f"runs.{having}.results.summary.{place}.name",
            "better": first["better"],
            "digits": digits(key),
        }
        rows.append(about | {"section": SECTIONS[first["section"]], "places": places})
    caveats = list(dict.fromkeys(sentence for _, run in runs for sentence in words.caveats(run)))
    headlines = [words.headline(run) for _, run in runs]
    context = {
        "runs": results["runs"],
        "rows": rows,
        "caveats": caveats,
        "headlines": headlines,
        "results": embedded(results),
    }
    return environment(results).get_template("comparison.html").render(**context, **assets(None))


def environment(results: dict[str, Any]) -> Environment:
    """Templates in which numbers are printed by their place in the results."""
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
    escaped = str(escape(sentence))  # braces and bars stay
    return Markup(
        numbers.fill(escaped, results, lambda path, form: str(_number(path, form, results)))
    )


def _sections(results: dict[str, Any]) -> list[tuple[str, list[int]]]:
    rows = results["summary"]
    found = [
        (title, [i for i, row in enumerate(rows) if row["section"] == key])
        for key, title in SECTIONS.items()
    ]
    return [(title, places) for title, places in found if places]


def assets(script: str | None) -> dict[str, Markup]:
    """The style sheet, and with a script the charts' library."""
    files = {"css": "page.css"} | (
        {"script": script, "plotly": "plotly-basic.min.js"} if script else {}
    )
    return {
        name: Markup((_ASSETS / file).read_text(encoding="utf-8")) for name, file in files.items()
    }


def _array(array: np.ndarray) -> dict[str, Any]:
    little = np.ascontiguousarray(array, "<f4")
    return {"shape": list(array.shape), "float32": base64.b64encode(little.tobytes()).decode()}


def embedded(value: Any) -> Markup:
    """JSON that no HTML parser can take for the end of its script."""
    return Markup(
        json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).replace(
            "<", "\\u003c"
        )
    )
