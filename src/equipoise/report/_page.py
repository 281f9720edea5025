"""The page of an audit: results in, one HTML file out, with everything it needs inside."""

from __future__ import annotations

import base64
from collections.abc import Mapping

import numpy as np

from equipoise._audit.documents import Pictures
from equipoise._audit.results import AuditDocument
from equipoise.report import _audit_view as audit_view
from equipoise.report import _sentences as words
from equipoise.report._headline import headline_with_places
from equipoise.report._rendering import embedded, filled, render


def page(results: AuditDocument | Mapping[str, object], pictures: Pictures | None = None) -> str:
    """Return the page of one audit. results: its document, or what results.json holds."""
    document = AuditDocument.model_validate(results)
    pictures = pictures or Pictures()
    data = {
        "arrays": {name: _array(array) for name, array in sorted(pictures.arrays.items())},
        "small": {str(image): _jpeg(file) for image, file in pictures.small.items()},
    }
    return render(
        "audit.html",
        document,
        scripts=("dial.js",),
        r=document,
        exact=bool(pictures.arrays) and document.settings.exact_dial,
        gallery=document.gallery if pictures.small else None,
        headline=filled(headline_with_places(document), document, terms=False),
        sentences=[filled(sentence, document) for sentence in words.sentences(document)],
        origin=[filled(sentence, document) for sentence in words.origin(document)],
        caveats=words.caveats(document),
        data=embedded(data),
        short=audit_view.short,
        **vars(audit_view.view(document)),
        **vars(audit_view.dials(document)),
    )


def _jpeg(data: bytes) -> str:
    return f"data:image/jpeg;base64,{base64.b64encode(data).decode()}"


def _array(array: np.ndarray) -> dict[str, list[int] | str]:
    little = np.ascontiguousarray(array, "<f4")
    return {"shape": list(array.shape), "float32": base64.b64encode(little.tobytes()).decode()}
