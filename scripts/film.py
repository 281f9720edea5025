"""Film the explore page as it is used, into docs/pictures/explore.webp: python scripts/film.py.

A real server, a real browser, mini's gallery. The result must stay under 2 MB.
"""

from __future__ import annotations

import io
import shutil
import sys
from pathlib import Path
from typing import Any

from PIL import Image

import equipoise as eq

OUT = Path(__file__).resolve().parents[1] / "docs" / "pictures" / "explore.webp"
SIZE = (1120, 900)
SHOWN = (840, 675)
LARGEST = 2_000_000  # bytes
TYPED = "a photo of a nurse"


class Film:
    """Frames with the milliseconds that each is shown."""

    def __init__(self, tab: Any):
        self.tab = tab
        self.frames: list[Image.Image] = []
        self.times: list[int] = []

    def take(self, milliseconds: int) -> None:
        """Wait until what was asked is shown, and take a picture of it."""
        self.tab.wait_for_selector('#results[data-shown="yes"]', state="attached")
        while not self.tab.evaluate("[...document.images].every((image) => image.complete)"):
            self.tab.wait_for_timeout(20)
        self.tab.wait_for_timeout(300)  # colours and bars that move
        taken = Image.open(io.BytesIO(self.tab.screenshot()))
        self.frames.append(taken.convert("RGB").resize(SHOWN, Image.Resampling.LANCZOS))
        self.times.append(milliseconds)

    def save(self, path: Path) -> int:
        """Write an animated WebP that repeats, and return its size in bytes."""
        first, *rest = self.frames
        first.save(
            path,
            save_all=True,
            append_images=rest,
            duration=self.times,
            loop=0,
            quality=70,
            method=6,
        )
        return path.stat().st_size


def play(film: Film) -> None:
    tab = film.tab
    tab.wait_for_selector("#after .tile")
    film.take(1800)
    for end in range(len(TYPED) - 5, len(TYPED) + 1):
        tab.fill("#text", TYPED[:end])
        film.take(250)
    film.take(2200)
    tab.locator("#after .tile").nth(2).hover()
    film.take(1200)
    tab.mouse.move(5, 5)
    for strength in (0.75, 0.5, 0.25, 0.0, 0.5, 1.0):
        tab.locator("#strength").fill(str(strength))
        film.take(500)
    tab.select_option("#target", "equal")
    film.take(1600)
    tab.fill("#text", "a female doctor")
    film.take(2200)
    tab.click("button[data-view=texts]")
    tab.select_option("#method", "closed-form")
    tab.wait_for_selector(".track")
    film.take(2200)
    tab.click("button[data-view=classes]")
    tab.wait_for_selector("#class-table table")
    film.take(2500)


def main() -> None:
    from playwright.sync_api import sync_playwright

    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
    with eq.explore() as page, sync_playwright() as running:
        browser = running.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": SIZE[0], "height": SIZE[1]})
        tab.goto(page.url)
        film = Film(tab)
        play(film)
        browser.close()
    size = film.save(OUT)
    print(f"{OUT}: {len(film.frames)} frames, {size:,} bytes")
    if size > LARGEST:
        sys.exit(f"the film has {size:,} bytes, and {LARGEST:,} are allowed")


if __name__ == "__main__":
    main()
