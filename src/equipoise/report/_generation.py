"""The page of a generation run: Table 4 with its intervals, and pictures as in Figure 4."""

from __future__ import annotations

import base64
import io
from typing import Any

from equipoise.generation import _table as table
from equipoise.generation._manifest import Manifest
from equipoise.report._page import assets, embedded, environment

SIDE = 112


def page(results: dict[str, Any], manifest: Manifest) -> str:
    """Return the page, with small copies of pictures from the run's folder inside it."""
    small = {}
    for figure in results["gallery"]:
        for row in figure["rows"]:
            for picture in [*row["neutral"], *row["explicit"]]:
                small[picture["image"]] = _small(manifest, picture["image"])
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
