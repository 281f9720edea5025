"""Shares of generation on the embedded generator: methods down; SP, KID, accuracy, time across.

Ten neutral occupations, drawn, judged and measured; writes docs/measurements/generation_mini.json
and prints the table. It draws ten pictures of each prompt and method, then twenty, and so on, and
goes on where it was stopped. Run from the repository root:

PYTHONPATH=mini python -m scripts.generation_table DATA --pictures 100

DATA holds people/. The judge is that of mini/training, in build/judge. All is kept in
build/generation.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from PIL import Image

import equipoise as eq
from equipoise.generation import _treatments as treatments
from equipoise.generation._drawing import draw
from equipoise.generation._manifest import DrawnPicture, Manifest
from equipoise.generation._measures import Resamples, parity_floor
from equipoise.generation._painters import Painter, load_painter
from equipoise.generation._plan import DrawingPlan, make_plan
from equipoise.generation._results_document import TableCell
from training.arrays import decode, middle
from training.judging import Judge, kernel_distance
from training.labels import GENDERS, SLOTS

WORK = Path("build/generation")
JUDGE = Path("build/judge")
OCCUPATIONS = SLOTS["occupation"]
OUT = Path("docs/measurements/generation_mini.json")
METHODS = [
    "balanced",
    "balanced:how=states",
    "balanced:how=states,strength=1.5",
    "closed-form",
    "closed-form:kappa=4",
    "uce",
    "fair-diffusion",
    "prompt-intervention",
]
WORDS = {"police": "police officer"}
PARTS = 10  # of the pictures, for the jackknife
TIMED = 4  # pictures that are timed for each method
EXPLICIT = 4  # as many pictures of neutral prompts as there is one of an explicit one


def prompts() -> list[str]:
    """Return the neutral prompts, in the order of the judge's occupations."""
    names = [WORDS.get(name, name) for name in OCCUPATIONS]
    return [f"a photo of {_article(name)} {name}" for name in names]


def explicit() -> dict[str, str]:
    """Return explicit prompt -> the group that it names."""
    names = [WORDS.get(name, name) for name in OCCUPATIONS]
    return {f"a photo of a {group} {name}": group for name in names for group in GENDERS}


def _article(name: str) -> str:
    return "an" if name[0] in "aeiou" else "a"


def the_judge() -> tuple[Judge, dict[str, Any]]:
    """Return the judge and its accuracy."""
    accuracy = JUDGE / "perceive.json"
    if not accuracy.is_file():
        raise SystemExit(
            f"there is no judge in {JUDGE}; train it in half an hour with: PYTHONPATH=mini python"
            f" -m training.perceive --data DATA --out {JUDGE}"
        )
    return Judge(JUDGE), json.loads(accuracy.read_text())


def at_work(data: Path) -> np.ndarray:
    """Return bytes (n, 64, 64, 3) of IdenProf's test photographs."""
    rows = pq.read_table(data / "people" / "idenprof.parquet", columns=["split", "image"])
    test = rows.filter(np.array(rows["split"].to_pylist()) == "test")
    return middle(np.stack([decode(data) for data in test["image"].to_pylist()]))


def pictures_of(manifest: Manifest, plan: DrawingPlan) -> np.ndarray:
    """Return bytes (methods, prompts, numbers, 64, 64, 3)."""
    found = []
    for method in plan.specs():
        for asked in plan.prompts:
            for number in range(plan.images):
                picture = manifest.pictures[method, asked.prompt, number]
                with Image.open(manifest.folder / picture.image) as image:
                    found.append(np.asarray(image))
    shape = len(plan.specs()), len(plan.prompts), plan.images
    return np.stack(found).reshape(*shape, *found[0].shape)


def distances(features: np.ndarray, photographs: np.ndarray) -> list[dict[str, float]]:
    """Return KID of each method, and its ratio to the first's, with jackknife intervals.

    features: (methods, prompts, numbers, width). A part of the jackknife is every tenth number, the
    same for all methods, as they share noise.
    """
    numbers = np.arange(features.shape[2])
    left_out = [numbers % PARTS == part for part in range(min(PARTS, len(numbers)))]
    whole = _kid(features, photographs)
    parts = np.stack([_kid(features[:, :, ~out], photographs) for out in left_out])
    found = []
    for i in range(len(features)):
        distance = _jackknife(whole[i], parts[:, i])
        ratio = _jackknife(whole[i] / whole[0], parts[:, i] / parts[:, 0])
        found.append({"kid": distance, "ratio": ratio})
    return found


def _kid(features: np.ndarray, photographs: np.ndarray) -> np.ndarray:
    rows = features.reshape(len(features), -1, features.shape[-1])
    return np.array([kernel_distance(some, photographs) for some in rows])


def _jackknife(value: float, parts: np.ndarray) -> dict[str, float]:
    count = len(parts)
    error = np.sqrt((count - 1) / count * ((parts - parts.mean()) ** 2).sum())
    return {"value": value, "low": value - 1.96 * error, "high": value + 1.96 * error}


def seconds(plan: DrawingPlan, painter: Painter) -> list[dict[str, float]]:
    """Return seconds per picture of each method: on the clock, and of the processor."""
    attribute = eq.Attribute.load("gender")
    run = treatments.DrawingRun(plan, painter, attribute)
    first = plan.prompts[0].prompt
    found = []
    for label, spec in plan.specs().items():
        some = [_picture(first, label, number) for number in range(TIMED)]
        with treatments.open_treatment(spec, run) as treatment:
            treatment.paint(some[:1])
            clock, processor = time.perf_counter(), time.process_time()
            treatment.paint(some)
            clock, processor = time.perf_counter() - clock, time.process_time() - processor
        found.append({"clock": clock / TIMED, "processor": processor / TIMED})
    return found


def _picture(prompt: str, method: str, number: int) -> DrawnPicture:
    return DrawnPicture(
        image=f"{number}.png",
        prompt=prompt,
        method=method,
        seed=number,
        explicit_group="",
        attempt=0,
        number=number,
    )


def measure(data: Path, images: int, methods: Sequence[str]) -> dict[str, Any]:
    """Draw what is missing, judge it, and return the table as plain numbers."""
    gender = eq.Attribute.load("gender")
    judge, accuracy = the_judge()
    painter = load_painter("mini")
    plan = make_plan("mini", gender, prompts(), list(methods), images)
    manifest = draw(plan, painter, gender, WORK / "neutral")
    stated = make_plan("mini", gender, list(explicit()), [], max(1, images // EXPLICIT))
    asked = draw(stated, painter, gender, WORK / "explicit")
    drawn = pictures_of(manifest, plan)
    shape = drawn.shape[:3]
    seen = judge(drawn.reshape(-1, *drawn.shape[3:]))
    codes = seen["gender"].argmax(1).reshape(shape)
    groups = len(gender.groups)
    shows = seen["occupation"].argmax(1).reshape(shape) == np.arange(shape[1])[:, None]
    features = seen["features"].reshape(*shape, -1)
    columns = {
        "sp": Resamples().parity(codes, groups),
        "occupation": Resamples().mean(shows.astype(float), (0.0, 1.0)),
        "as drawn": Resamples().mean(_as_drawn(manifest, plan, codes), (0.0, 1.0)),
    }
    rows = {}
    kids = distances(features, judge(at_work(data))["features"])
    for i, (label, took) in enumerate(zip(plan.specs(), seconds(plan, painter), strict=True)):
        cells = {name: column[i].to_plain() for name, column in columns.items()}
        shares = (codes[i] == 1).mean(1).round(3).tolist()
        rows[label] = {**cells, **kids[i], "seconds": took, "women": shares}
    return {
        "pictures": images,
        "prompts": prompts(),
        "floor": parity_floor(images, groups),
        "judge": accuracy,
        "explicit": _explicit_accuracy(asked, stated, judge).to_plain(),
        "methods": rows,
    }


def _as_drawn(manifest: Manifest, plan: DrawingPlan, codes: np.ndarray) -> np.ndarray:
    """Return whether each picture shows the group that was drawn for it; NaN where none was."""
    found = np.full(codes.shape, np.nan)
    for i, method in enumerate(plan.specs()):
        for j, asked in enumerate(plan.prompts):
            for number in range(plan.images):
                group = manifest.pictures[method, asked.prompt, number].drawn
                if group:
                    found[i, j, number] = GENDERS[codes[i, j, number]] == group
    return found


def _explicit_accuracy(manifest: Manifest, plan: DrawingPlan, judge: Judge) -> TableCell:
    """Return Acc^G of the original model; the gate gives every method the very same pictures."""
    drawn = pictures_of(manifest, plan)
    found = judge(drawn.reshape(-1, *drawn.shape[3:]))["gender"]
    seen = found.argmax(1).reshape(drawn.shape[:3])
    named = [GENDERS.index(group) for group in explicit().values()]
    return Resamples().accuracy(seen, np.array(named))[0]


def lines(found: dict[str, Any]) -> list[str]:
    """Return the table as Markdown."""
    head = ["Method", "SP", "as drawn", "occupation", "KID x 1000", "x none", "s per picture"]
    rows = [head, ["---"] * len(head)]
    for label, row in found["methods"].items():
        cells = [_percent(row[name]) for name in ("sp", "as drawn", "occupation")]
        cells += [_interval(row["kid"], 1000), _interval(row["ratio"], 1)]
        rows.append([label, *cells, f"{row['seconds']['clock']:.2f}"])
    table = [f"| {' | '.join(row)} |" for row in rows]
    named = _percent(found["explicit"])
    note = f"{found['pictures']} pictures of each of ten prompts and each method."
    note += f" Floor of SP: {100 * found['floor']:.1f}. Acc^G, behind the gate: {named}."
    return [*table, "", note]


def _percent(cell: dict[str, Any]) -> str:
    if cell["value"] is None:
        return ""
    return _interval(cell, 100)


def _interval(cell: dict[str, Any], scale: float) -> str:
    value = f"{scale * cell['value']:.1f}"
    if cell["low"] is None:
        return value
    return f"{value} [{scale * cell['low']:.1f}, {scale * cell['high']:.1f}]"


def main() -> None:
    """Measure with ten pictures, twenty, and so on; write and print each table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--pictures", type=int, default=100, help="Of each prompt and method.")
    parser.add_argument("--first", type=int, default=10, help="As many at first, and in each step.")
    parser.add_argument("--method", action="append", help="Methods in place of all.")
    args = parser.parse_args()
    if min(args.first, args.pictures) < 2:
        parser.error("an interval needs two pictures of each or more")
    counts = [*range(args.first, args.pictures, args.first), args.pictures]
    for images in counts:
        found = measure(args.data, images, args.method or METHODS)
        OUT.write_text(json.dumps(found, indent=1) + "\n")
        print("\n".join(lines(found)), flush=True)


if __name__ == "__main__":
    main()
