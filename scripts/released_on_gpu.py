"""What float16 does to the released closed form, on real CLIP embeddings: writes
docs/measurements/released_on_gpu.json, and its part of docs/published.md.

Run from the repository root: ``python -m scripts.released_on_gpu [FOLDER]``, the folder that holds
the embeddings. The arithmetic is that of ``closed-form:as_released=fp16``; no GPU is needed.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
from scripts import retrieval_by_gender as clip
from scripts.measured_runs import write_plain

import equipoise as eq
from equipoise.evaluation import parse

MEASURED = Path("docs/measurements/released_on_gpu.json")
PAGE = Path("docs/published.md")
METHODS = ["closed-form", "closed-form:as_released=fp16"]
LOW, HIGH = 0.36, 0.40  # in theory the factor is 0.382 to 0.386 for rows with p up to 0.3
TEXTS = "text_clip_vitb32_objects.npz"
LENGTH = 10  # about what CLIP's rows have before they are brought to unit length
SPREAD = (8, 12)
READINGS = ("one", "ten", "eight to twelve")


def half(folder: Path) -> tuple[Any, Any]:
    """The two operators of one space: the released arithmetic, and the exact one."""
    vectors, _ = clip.texts(folder)
    prototypes = {group: vectors.encode_text(words) for group, words in clip.WORDS.items()}
    context = eq.FitContext(eq.Attribute.load("gender"), prototypes=prototypes)
    found = [eq.methods.create(spec.name, **spec.params).fit(context) for spec in parse(METHODS)]
    exact, released = found
    return released, exact


def row(name: str, rows: np.ndarray, folder: Path) -> dict[str, Any]:
    """What happens to one set of rows."""
    released, exact = half(folder)
    shrink = released.shrink(rows)
    wide = rows.astype(np.float64)
    cosines = (released.image(wide) * exact.image(wide)).sum(1)
    return {
        "rows": name,
        "n": len(rows),
        "outside": float(((shrink < LOW) | (shrink > HIGH)).mean()),
        "worst_cosine": float(cosines.min()),
        "under_0.99": float((cosines < 0.99).mean()),
    }


def reading(name: str, rows: np.ndarray, folder: Path) -> dict[str, Any]:
    """How many factors are outside, by the length that the rows had in float16."""
    released, _ = half(folder)
    drawn = np.random.default_rng(0).uniform(*SPREAD, (len(rows), 1))
    outside = {}
    for which, lengths in zip(READINGS, (1, LENGTH, drawn), strict=True):
        shrink = released.shrink(rows, lengths)
        outside[which] = float(((shrink < LOW) | (shrink > HIGH)).mean())
    return {"rows": name, "n": len(rows), "outside": outside}


def measure(folder: Path) -> None:
    """The three sets of rows, and MaxSkew on two sets of images."""
    files = {"class names as texts": (TEXTS, "text")}
    files["Flickr8k images"] = (clip.FILES["flickr8k"], "image")
    files["CelebA images"] = (clip.FILES["celeba"], "image")
    vectors, queries = clip.texts(folder)
    readings = [reading("the 495 queries", vectors.encode_text(queries), folder)]
    rows = []
    for name, (file, column) in files.items():
        with np.load(folder / file, allow_pickle=False) as stored:
            found = stored[column]
        rows.append(row(name, found, folder))
        readings.append(reading(name, found, folder))
    skews = {}
    for name in clip.DEPTHS:
        run = clip.evaluation(folder, name).run(parse(METHODS), baseline="closed-form")
        metric = f"MS@{clip.DEPTHS[name]}"
        skews[name] = [found.to_plain() for found in run.rows if found.metric == metric]
    write_plain(MEASURED, {"rows": rows, "readings": readings, "skews": skews})


def table() -> str:
    """The tables, from the file."""
    found = json.loads(MEASURED.read_text())
    lines = [
        f"| rows | n | factor outside {LOW} to {HIGH} | cosine to the exact result, worst"
        " | cosine under 0.99 |",
        "|---|---|---|---|---|",
    ]
    for one in found["rows"]:
        lines.append(
            f"| {one['rows']} | {one['n']:,} | {one['outside']:.1%} | {one['worst_cosine']:.3f}"
            f" | {one['under_0.99']:.1%} |"
        )
    lines += [
        "",
        f"| factor outside {LOW} to {HIGH}, by the length in float16 | n | 1 | 10 | 8 to 12 |",
    ]
    lines.append("|---|---|---|---|---|")
    for one in found["readings"]:
        shares = " | ".join(f"{one['outside'][which]:.1%}" for which in READINGS)
        lines.append(f"| {one['rows']} | {one['n']:,} | {shares} |")
    lines += ["", "| MaxSkew | none | exact | float16 | float16 minus exact, paired |"]
    lines.append("|---|---|---|---|---|")
    for name, rows in found["skews"].items():
        cells = []
        for one in rows:
            cells.append(f"{one['value']:.4f} [{one['low']:.3f}, {one['high']:.3f}]")
        gap = rows[-1]["difference"]
        cells.append(f"{gap['value']:+.4f} [{gap['low']:+.4f}, {gap['high']:+.4f}]")
        lines.append(f"| {clip.NAMES[name]}, @{clip.DEPTHS[name]} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "../shared/data/embeddings")
    measure(folder)
    text = PAGE.read_text()
    body = f"<!-- float16 -->\n{table()}\n<!-- end of float16 -->"
    PAGE.write_text(re.sub(r"<!-- float16 -->.*<!-- end of float16 -->", body, text, flags=re.S))


if __name__ == "__main__":
    main()
