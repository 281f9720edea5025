"""Measure how the cost of apply and of search grows with the rows, and draw it.

``python -m scripts.cost_over_rows measure apply`` (or ``search``) writes a file of
docs/measurements, one line per number of rows; ``draw`` makes docs/pictures/cost_over_rows.svg of
both. Each line is printed as it is measured, so that a run that is stopped has said what it saw.
"""

from __future__ import annotations

import argparse
import json
import math
from dataclasses import asdict
from html import escape
from pathlib import Path
from typing import Any

from equipoise._bench import apply, retrieval
from equipoise._bench.machine import describe

DOCS = Path(__file__).parents[1] / "docs"
PICTURE = DOCS / "pictures" / "cost_over_rows.svg"
DIMS = {"apply": 128, "search": 512}  # 100,000,000 rows of 128, in and out, are 51 GB
QUERIES, DEPTH = 100, 100
ROWS = {
    "apply": (1000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000),
    "search": (1000, 10_000, 100_000, 1_000_000),
}

# What is drawn: the field of a measurement, its name and its colour, which both grounds can show.
CURVES = {
    "apply": (
        ("seconds", "apply, with start-up", "#1f6fa5"),
        ("copy_seconds", "cp and sync", "#b3601f"),
    ),
    "search": (
        ("seconds", "search", "#1f6fa5"),
        ("faiss_seconds", "faiss flat", "#b3601f"),
        ("product_seconds", "the float32 product", "#6d7076"),
    ),
}
TITLES = {
    "apply": f"apply, rows x {DIMS['apply']} float16",
    "search": f"exact search, {QUERIES} queries x rows x {DIMS['search']}, k {DEPTH}",
}
WIDTH, HEIGHT, LEFT, TOP, PANEL = 990, 400, 60, 40, 400  # pixels
BOTTOM = HEIGHT - 50


def measured(kind: str) -> Path:
    """Return the file of one kind of measurement."""
    return DOCS / "measurements" / f"cost_{kind}_cpu.json"


def measure(kind: str, most: int) -> None:
    """Measure sizes up to ``most`` rows, and write them."""
    found = []
    for rows in ROWS[kind]:
        if rows > most:
            break
        [one] = _timing(kind, rows)
        fields = asdict(one)
        fields.pop("script_seconds", None)  # a rival that is not run here
        found.append(fields)
        print(json.dumps(found[-1]), flush=True)
    document = {"machine": describe(), "rows": found}
    measured(kind).write_text(json.dumps(document, indent=1) + "\n")


def _timing(kind: str, rows: int) -> Any:
    if kind == "apply":
        return apply.run([rows], DIMS[kind], rank=1, rounds=1, folder=None, script=False)
    return retrieval.run(rows, QUERIES, DIMS[kind], (DEPTH,))


def draw() -> str:
    """Return both panels as SVG."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img"'
        ' aria-labelledby="t" font-family="system-ui, sans-serif" font-size="13">',
        '<title id="t">Seconds of apply and of search over the number of rows</title>',
        "<style>text{fill:#6d7076}.grid{stroke:#6d7076;stroke-opacity:0.35}</style>",
    ]
    for place, kind in enumerate(CURVES):
        rows = json.loads(measured(kind).read_text())["rows"]
        parts += _panel(kind, rows, LEFT + place * (PANEL + 80))
    return "\n".join([*parts, "</svg>"]) + "\n"


class _Axes:
    """Where a number of rows and a number of seconds stand in a panel; both are logarithmic."""

    def __init__(self, left: float, rows: list[float], seconds: list[float]):
        self.left = left
        self.rows = _decades(rows)
        self.seconds = _decades(seconds)

    def x(self, rows: float) -> float:
        return self.left + PANEL * _share(rows, self.rows)

    def y(self, seconds: float) -> float:
        return BOTTOM - (BOTTOM - TOP) * _share(seconds, self.seconds)


def _decades(values: list[float]) -> range:
    return range(math.floor(math.log10(min(values))), math.ceil(math.log10(max(values))) + 1)


def _share(value: float, decades: range) -> float:
    return (math.log10(value) - decades[0]) / (len(decades) - 1)


def _panel(kind: str, measurements: list[dict], left: float) -> list[str]:
    """Return one panel: a grid of decades, and a curve with dots for each contender."""
    size = "rows" if kind == "apply" else "images"
    counts = [one[size] for one in measurements]
    seconds = [one[field] for one in measurements for field, _, _ in CURVES[kind]]
    axes = _Axes(left, counts, seconds)
    parts = [_text(left, TOP - 18, TITLES[kind], "start")]
    for power in axes.rows:
        x = axes.x(10.0**power)
        parts.append(_line(x, TOP, x, BOTTOM))
        parts.append(_text(x, BOTTOM + 20, f"{10**power:,}", "middle"))
    for power in axes.seconds:
        y = axes.y(10.0**power)
        parts.append(_line(left, y, left + PANEL, y))
        parts.append(_text(left - 6, y + 4, f"{10.0**power:g} s", "end"))
    for place, (field, name, colour) in enumerate(CURVES[kind]):
        points = [
            (axes.x(n), axes.y(one[field])) for n, one in zip(counts, measurements, strict=True)
        ]
        parts += _curve(points, colour)
        y = TOP + 18 + 18 * place
        parts.append(f'<circle cx="{left + 14}" cy="{y - 4}" r="4" fill="{colour}"/>')
        parts.append(_text(left + 24, y, name, "start"))
    return parts


def _curve(points: list[tuple[float, float]], colour: str) -> list[str]:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dots = [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>' for x, y in points]
    return [f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>', *dots]


def _line(x: float, y: float, to_x: float, to_y: float) -> str:
    return f'<path class="grid" d="M{x:.1f} {y:.1f}L{to_x:.1f} {to_y:.1f}"/>'


def _text(x: float, y: float, text: str, side: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{side}">{escape(text)}</text>'


def main() -> None:
    """Measure one of the two, or draw both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["measure", "draw"])
    parser.add_argument("kind", nargs="?", choices=list(CURVES))
    parser.add_argument("--most", type=int, default=10**8, help="rows beyond which not to go")
    given = parser.parse_args()
    if given.what == "draw":
        PICTURE.write_text(draw())
    elif given.kind is None:
        parser.error("say what to measure: apply or search")
    else:
        measure(given.kind, given.most)


if __name__ == "__main__":
    main()
