"""Draw README's picture, one search before and after, light and dark: python scripts/before_and_after.py.

The search is a real one, over the portraits of mini's gallery. Nobody in them exists.
"""

from __future__ import annotations

import base64
import io
import shutil
import sys
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from jinja2 import Template
from PIL import Image

import equipoise as eq
import equipoise_mini

PICTURES = Path(__file__).resolve().parents[1] / "docs" / "pictures"
SEARCH = "a photo of an engineer"
PLACES = 20
SCHEMES: tuple[tuple[Literal["light", "dark"], str], ...] = (
    ("light", "before-after.webp"),
    ("dark", "before-after-dark.webp"),
)
COLOURS = {"male": "#3b82c4", "female": "#d9822b"}

PAGE = Template(
    """<!doctype html><meta charset="utf-8"><style>
:root { color-scheme: light dark; --paper: #fbfaf7; --ink: #1d1d1f; --soft: #6b6b70; --line: #d9d7d0 }
@media (prefers-color-scheme: dark) {
  :root { --paper: #16171a; --ink: #ececee; --soft: #a0a0a6; --line: #3a3b40 } }
body { margin: 0; width: 620px; padding: 14px 16px 12px; box-sizing: border-box; background: var(--paper);
  color: var(--ink); font: 14px/1.35 "Liberation Sans", "DejaVu Sans", sans-serif }
.field { border: 1px solid var(--line); border-radius: 8px; padding: 7px 12px; font-size: 16px }
h2 { display: flex; justify-content: space-between; margin: 12px 0 5px; font-size: 15px }
h2 span { font-weight: normal; font-size: 14px }
.row { display: grid; grid-template-columns: repeat(10, 1fr); gap: 3px }
.row img { display: block; width: 100%; border-bottom: 4px solid }
i { display: inline-block; width: 10px; height: 10px; border-radius: 5px; margin: 0 4px 0 10px }
p { margin: 10px 0 0; color: var(--soft); font-size: 12px }
</style>
<div class="field">{{ search }}</div>
{% for title, faces, counts in pages %}
<h2>{{ title }}<span>{% for group, count in counts %}<i style="background: {{ colours[group] }}"></i>{{ group }} {{ count }} of {{ places }}{% endfor %}</span></h2>
<div class="row">{% for face, group in faces %}<img src="data:image/png;base64,{{ face }}"
  style="border-color: {{ colours[group] }}">{% endfor %}</div>
{% endfor %}
<p>{{ cost }} The people are drawn; none of them exists. Groups are as an independent classifier perceives them.</p>"""
)


def html() -> str:
    """Return the page that is photographed: the search as it is, and balanced."""
    gallery = pd.read_parquet(equipoise_mini.gallery().table)
    people = gallery.query("kind == 'portrait'").reset_index(drop=True)
    encoder = eq.load_encoder("mini")
    index = encoder.encode_images([Image.open(io.BytesIO(data)) for data in people["image"]])
    plain = eq.search(index, [SEARCH], PLACES, encoder=encoder)
    fair: Any = eq.search(index, [SEARCH], PLACES, encoder=encoder, balance="gender")
    male = 100 * np.mean(people["gender"] == "male")
    cost = (
        f"Of {len(people):,} portraits {male:.0f} % are male."
        f" The balanced page keeps {100 * fair.certificates[0].kept:.1f} % of the total"
        " similarity."
    )
    pages = [
        page("As it is", people, plain.indices[0]),
        page("Balanced", people, fair.indices[0]),
    ]
    return PAGE.render(search=SEARCH, pages=pages, colours=COLOURS, places=PLACES, cost=cost)


def page(title: str, people: Any, found: np.ndarray) -> tuple[str, list, list]:
    """Return a title, the faces with their groups, and how many there are of each group."""
    chosen = people.iloc[found]
    faces = [base64.b64encode(data).decode() for data in chosen["image"]]
    groups = list(chosen["gender"])
    counts = [(group, groups.count(group)) for group in COLOURS]
    return title, list(zip(faces, groups, strict=True)), counts


def photograph(text: str) -> None:
    """Write the page as two files, at twice the size that README shows."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        for scheme, name in SCHEMES:
            tab = browser.new_page(
                viewport={"width": 620, "height": 100}, device_scale_factor=2, color_scheme=scheme
            )
            tab.set_content(text)
            taken = Image.open(io.BytesIO(tab.screenshot(full_page=True)))
            taken.convert("RGB").save(PICTURES / name, quality=85, method=6)
        browser.close()


if __name__ == "__main__":
    photograph(html())
    sys.stdout.write(f"{PICTURES}/before-after.webp, before-after-dark.webp\n")
