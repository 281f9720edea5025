"""The page of a generation run: Table 4 with its intervals, and pictures as in Figure 4."""

from __future__ import annotations

import base64
import io

from equipoise.generation import _table as table
from equipoise.generation._loop_table import loop_note
from equipoise.generation._manifest import Manifest
from equipoise.generation._results_document import GenerationResults
from equipoise.report import _charts as charts
from equipoise.report._rendering import render

SIDE = 112


def page(results: GenerationResults, manifest: Manifest) -> str:
    """Return the page, with small copies of pictures from the run's folder inside it."""
    small = {}
    for figure in results.gallery:
        for row in figure.rows:
            for picture in [*row.neutral, *row.explicit]:
                small[picture.image] = _small(manifest, picture.image)
    return render(
        "generation.html",
        results,
        terms=("attribute", "group", "prompt", "method", "interval", "change"),
        r=results,
        small=small,
        note=table.note(results, judges=False),
        loop_notes=[loop_note(loop) for loop in results.loops],
        axes=_axes(results),
    )


def _axes(results: GenerationResults) -> dict[str, charts.Scale]:
    """Return an axis per column, on which all methods are drawn."""
    axes = {}
    for column in results.columns:
        values: list[float | None] = []
        for method in results.methods:
            values += charts.ends(method.cells[column.key])
        axes[column.key] = charts.scale(values, percent=True)
    return axes


def _small(manifest: Manifest, image: str) -> str:
    out = io.BytesIO()
    manifest.open(image).resize((SIDE, SIDE)).save(out, "JPEG", quality=85)
    return f"data:image/jpeg;base64,{base64.b64encode(out.getvalue()).decode()}"
