"""The page of a generation run: Table 4 with its intervals, and pictures in the layout of Figure 4,
all inside one HTML file.
"""

from __future__ import annotations

import base64
import io
from typing import Any

from equipoise._artefact import write_atomically
from equipoise.generation import _results as documents
from equipoise.generation import _table as table
from equipoise.generation._commands import Request
from equipoise.generation._manifest import Manifest
from equipoise.report._page import assets, embedded, environment

REPORT = "report.html"
SIDE = 112


def perform(request: Request) -> tuple[Manifest, dict[str, Any] | None]:
    """Run a request and leave its files: pictures and sheets, and results, tables and page where
    something was measured.
    """
    manifest, results = request.perform()
    if results is not None:
        documents.write(request.out, results)
        table.write(request.out, results)
        write_atomically(request.out / REPORT, page(results, manifest).encode())
    return manifest, results


def page(results: dict[str, Any], manifest: Manifest) -> str:
    """The page; small copies of the pictures it shows are read from the run's folder."""
    shown = [
        picture
        for figure in results["gallery"]
        for row in figure["rows"]
        for side in ("neutral", "explicit")
        for picture in row[side]
    ]
    small = {picture["image"]: _small(manifest, picture["image"]) for picture in shown}
    context = {
        "r": results,
        "small": small,
        "note": table.note(results, judges=False),
        "results": embedded(results),
    }
    return environment(results).get_template("generation.html").render(**context, **assets(None))


def _small(manifest: Manifest, image: str) -> str:
    out = io.BytesIO()
    manifest.open(image).resize((SIDE, SIDE)).save(out, "JPEG", quality=85)
    return f"data:image/jpeg;base64,{base64.b64encode(out.getvalue()).decode()}"
