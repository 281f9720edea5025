"""What a reader sees of a page."""

from __future__ import annotations

import re

from tests.helpers.common import component


def visible(html):
    """(numbers that carry their place, and the rest of what a reader sees).

    The ticks of an axis are no measurements, and left out.
    """
    body = re.sub(r"<(script|style)\b.*?</\1>", "", html.split("<body>")[1], flags=re.S)
    spans = re.findall(
        r'<span class="n" data-path="([^"]+)" data-form="([^"]+)">(.*?)</span>', body, flags=re.S
    )
    rest = re.sub(r'<span class="n" data-path=.*?</span>', "", body, flags=re.S)
    rest = re.sub(r'<span class="tick"[^>]*>.*?</span>', "", rest, flags=re.S)
    return spans, re.sub(r"<[^>]+>", " ", rest)


def violations(tab):
    """Return what axe finds, of any impact, with everything unfolded."""
    axe = component("axe_playwright_python.sync_playwright")
    tab.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    found = axe.Axe().run(tab).response["violations"]
    return [(one["id"], one["nodes"][0]["html"][:100]) for one in found]
