"""A contact sheet per prompt: one row per method, the same noise in each column."""

from __future__ import annotations

import io
from collections.abc import Container
from typing import TYPE_CHECKING

from PIL import Image, ImageDraw, ImageFont

from equipoise._artefact import write_atomically
from equipoise._progress import progress
from equipoise.generation._plan import slug

if TYPE_CHECKING:
    from equipoise.generation._manifest import Manifest
    from equipoise.generation._plan import DrawingPlan

ACROSS, SIDE, GAP, LETTERS = 20, 96, 4, 14


def write_sheets(plan: DrawingPlan, manifest: Manifest, changed: Container[str]) -> None:
    """Write sheets/*.png for each prompt that changed or has none yet.

    A sheet shows the first pictures of its prompt.
    """
    places = {
        asked.prompt: manifest.folder / "sheets" / f"{i:03d}-{slug(asked.prompt)}.png"
        for i, asked in enumerate(plan.prompts)
    }
    wanted = [
        prompt for prompt, place in places.items() if prompt in changed or not place.is_file()
    ]
    with progress("contact sheets", len(wanted)) as advance:
        for prompt in wanted:
            rows = {method: _row(manifest, method, prompt, plan.images) for method in plan.specs()}
            out = io.BytesIO()
            _sheet(manifest, prompt, rows).save(out, "PNG")
            write_atomically(places[prompt], out.getvalue())
            advance(1)


def _row(manifest: Manifest, method: str, prompt: str, images: int) -> list[str]:
    numbers = range(min(images, ACROSS))
    return [
        manifest.pictures[slot].image
        for number in numbers
        if (slot := (method, prompt, number)) in manifest.pictures
    ]


def _sheet(manifest: Manifest, title: str, rows: dict[str, list[str]]) -> Image.Image:
    font = ImageFont.load_default(LETTERS)
    left = GAP * 2 + max(int(font.getlength(method)) for method in rows)
    top = LETTERS + 3 * GAP
    width = max(
        left + max(map(len, rows.values())) * (SIDE + GAP), int(font.getlength(title)) + 2 * GAP
    )
    sheet = Image.new("RGB", (width, top + len(rows) * (SIDE + GAP)), "white")
    pen = ImageDraw.Draw(sheet)
    pen.text((GAP, GAP), title, "black", font)
    for down, (method, images) in enumerate(rows.items()):
        y = top + down * (SIDE + GAP)
        pen.text((GAP, y + SIDE // 2 - LETTERS // 2), method, "black", font)
        for across, image in enumerate(images):
            small = manifest.open(image).resize((SIDE, SIDE))
            sheet.paste(small, (left + across * (SIDE + GAP), y))
    return sheet
