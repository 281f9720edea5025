"""The page of an audit: results in, one HTML file out, with everything it needs inside."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np

from equipoise._audit.documents import Pictures
from equipoise.report import _audit_view as audit_view
from equipoise.report import _sentences as words
from equipoise.report._headline import headline_with_places
from equipoise.report._rendering import embedded, filled, render


def page(results: dict[str, Any], pictures: Pictures | None = None) -> str:
    """Return the page of one audit."""
    pictures = pictures or Pictures()
    data = {
        "arrays": {name: _array(array) for name, array in sorted(pictures.arrays.items())},
        "small": {str(image): _jpeg(file) for image, file in pictures.small.items()},
    }
    context = {
        "exact": bool(pictures.arrays) and results["settings"]["exact_dial"],
        "gallery": results["gallery"] if pictures.small else None,
        "headline": filled(headline_with_places(results), results, terms=False),
        "sentences": [filled(sentence, results) for sentence in words.sentences(results)],
        "origin": [filled(sentence, results) for sentence in words.origin(results)],
        "caveats": words.caveats(results),
        "data": embedded(data),
    }
    context |= audit_view.view(results)
    return render("audit.html", results, scripts=("dial.js",), **context)


def _jpeg(data: bytes) -> str:
    return f"data:image/jpeg;base64,{base64.b64encode(data).decode()}"


def _array(array: np.ndarray) -> dict[str, Any]:
    little = np.ascontiguousarray(array, "<f4")
    return {"shape": list(array.shape), "float32": base64.b64encode(little.tobytes()).decode()}
