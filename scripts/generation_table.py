"""Shares of generation on the embedded generator: methods down; SP, KID, accuracy, time across.

Ten neutral occupations, drawn, judged and measured; writes docs/measurements/generation_mini.json
and prints the table. It draws one method after the other, writes the table of those that are drawn
after each, and goes on where it was stopped. Run from the repository root:

PYTHONPATH=mini python -m scripts.generation_table WORK --pictures 100 --sampler cuda

WORK is what mini/training/prepare.py and perceive.py leave: photographs, the judge, and another
training of it, "labeller", which is the annotator of the closed loops (``budget=``). SP stands there
by the judge, by the annotator and by mini's own image encoder. All is kept in build/generation.
"""

from __future__ import annotations

import argparse
import datetime
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

import equipoise as eq
from equipoise._artefact import sha256
from equipoise.encoders import load_encoder
from equipoise.generation import _treatments as treatments
from equipoise.generation._annotators import Annotator, load_annotator
from equipoise.generation._drawing import draw
from equipoise.generation._loop_results import loops
from equipoise.generation._manifest import DrawnPicture, Manifest
from equipoise.generation._measures import PictureGrid, Resamples, parity_floor
from equipoise.generation._mini import MiniPipeline
from equipoise.generation._painters import MiniPainter, Painter, load_painter
from equipoise.generation._plan import DrawingPlan, make_plan
from equipoise.generation._results_document import TableCell
from equipoise.generation._steering_document import read_steering
from training.arrays import TEST, Sights
from training.judging import Judge, kernel_distance
from training.labels import GENDERS, SLOTS

WORK = Path("build/generation")
JUDGE, ANNOTATOR = "perceive", "labeller"  # names of weights in WORK
OCCUPATIONS = SLOTS["occupation"]
OUT = Path("docs/measurements/generation_mini.json")
METHODS = [
    "balanced:how=states,strength=1.5",
    "closed-form",
    "balanced",
    "uce",
    "fair-diffusion",
    "prompt-intervention",
    "balanced:how=states,strength=1.5,budget=100",
    "balanced:how=states",
    "balanced:budget=100",
    "closed-form:kappa=4",
]
WORDS = {"police": "police officer"}
PARTS = 10  # of the pictures, for the jackknife
TIMED = 4  # pictures that are timed for each method
EXPLICIT = 10  # as many pictures of neutral prompts as there is one of an explicit one
COMPARED = 4  # pictures of each prompt that the shipped sampler draws too
SAMPLERS = ("onnxruntime", "openvino", "cuda")


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


def judge_of(work: Path, name: str) -> tuple[Judge, dict[str, Any]]:
    """Return a judge, its accuracy and a hash of its weights."""
    weights = work / f"{name}.safetensors"
    if not weights.is_file():
        raise SystemExit(
            f"there is no {weights}; train it with: PYTHONPATH=mini python -m training.perceive"
            f" --work {work} --name {name}"
        )
    accuracy = json.loads(weights.with_suffix(".json").read_text())
    return Judge(work, name), {"weights": sha256(weights)[:8], "accuracy": accuracy}


def at_work(work: Path) -> np.ndarray:
    """Return bytes (n, 64, 64, 3) of the people in IdenProf's test photographs."""
    there = Sights(work)
    return there.crops(there.of("idenprof_close", TEST))


class JudgeAnnotator(Annotator):
    """The judge as the annotator of a closed loop."""

    batch = 256

    def __init__(self, attribute: eq.Attribute, work: Path):
        super().__init__(attribute)
        self.judge, self.about = judge_of(work, ANNOTATOR)
        self.name = f"judge {self.about['weights']}"

    def answers(self, images: Sequence[Path]) -> list[str]:
        codes = self.judge(np.stack([pixels(path) for path in images]))["gender"].argmax(1)
        return [GENDERS[code] for code in codes]


def the_painter(sampler: str) -> Painter:
    """Return the embedded generator on a sampler."""
    if sampler == "openvino":
        from scripts.openvino_sampler import OpenVinoGenerator

        generator = OpenVinoGenerator(WORK / sampler / "kept")
        return MiniPainter(MiniPipeline(load_encoder("mini"), generator))
    return load_painter("mini", device=None if sampler == "onnxruntime" else sampler)


def pixels(path: Path) -> np.ndarray:
    """Return the bytes (64, 64, 3) of a picture."""
    with Image.open(path) as image:
        return np.asarray(image)


def pictures_of(manifest: Manifest, plan: DrawingPlan, method: str) -> np.ndarray:
    """Return bytes (prompts, numbers, 64, 64, 3)."""
    found = []
    for asked in plan.prompts:
        some = [manifest.pictures[method, asked.prompt, i].image for i in range(plan.images)]
        found.append(np.stack([pixels(manifest.folder / image) for image in some]))
    return np.stack(found)


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


def seconds(plan: DrawingPlan, label: str, painter: Painter) -> dict[str, float]:
    """Return seconds per picture of a method: on the clock, and of the processor."""
    run = treatments.DrawingRun(plan, painter, eq.Attribute.load("gender"))
    some = [_picture(plan.prompts[0].prompt, label, number) for number in range(TIMED)]
    with treatments.open_treatment(plan.specs()[label], run) as treatment:
        treatment.paint(some[:1])
        clock, processor = time.perf_counter(), time.process_time()
        treatment.paint(some)
        clock, processor = time.perf_counter() - clock, time.process_time() - processor
    return {"clock": clock / TIMED, "processor": processor / TIMED}


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


class SeenMethod(NamedTuple):
    """What the judge sees in the pictures of a method; arrays (prompts, numbers).

    occupation: whether it is the prompt's. as_drawn: whether a picture shows the group that was
    drawn for it; NaN where none was. took: seconds.
    """

    gender: np.ndarray
    occupation: np.ndarray
    features: np.ndarray
    as_drawn: np.ndarray
    took: dict[str, float]


@dataclass
class Bench:
    """What the table is made with. What was seen of a method is kept."""

    work: Path
    sampler: str
    images: int
    painter: Painter
    shipped: Painter
    judge: Judge
    annotator: JudgeAnnotator
    mini: Annotator
    seen: dict[str, SeenMethod] = field(default_factory=dict)

    def draw(self, methods: Sequence[str]) -> tuple[DrawingPlan, Manifest]:
        """Draw what is missing of the methods, and see it."""
        gender = eq.Attribute.load("gender")
        plan = make_plan("mini", gender, prompts(), list(methods), self.images)
        folder = WORK / self.sampler / "neutral"
        manifest = draw(plan, self.painter, gender, folder, annotator=self.annotator)
        for label in plan.specs():
            if label not in self.seen:
                self.seen[label] = self._seen(plan, manifest, label)
        return plan, manifest

    def first(self, methods: Sequence[str]) -> int:
        """Return how many methods the first table has: those that were drawn before, or one."""
        pictures = Manifest(WORK / self.sampler / "neutral").pictures.values()
        drawn = {picture.method for picture in pictures}
        labels = [spec.label for spec in treatments.specs_of(list(methods))]
        return max([1, *(place for place, label in enumerate(labels, 1) if label in drawn)])

    def explicit(self) -> dict[str, Any]:
        """Return Acc^G of the original model; the gate gives every method the same pictures."""
        gender = eq.Attribute.load("gender")
        plan = make_plan("mini", gender, list(explicit()), [], max(1, self.images // EXPLICIT))
        manifest = draw(plan, self.painter, gender, WORK / self.sampler / "explicit")
        drawn = pictures_of(manifest, plan, "none")
        found = self.judge(drawn.reshape(-1, *drawn.shape[2:]))["gender"]
        seen = found.argmax(1).reshape(1, *drawn.shape[:2])
        named = [GENDERS.index(group) for group in explicit().values()]
        return Resamples().accuracy(seen, np.array(named))[0].to_plain()

    def photographs(self) -> np.ndarray:
        """Return the judge's features of photographs of the ten occupations."""
        return self.judge(at_work(self.work))["features"]

    def difference(self) -> dict[str, Any]:
        """Return how far the pictures are from those of the shipped sampler, in bytes."""
        asked = [prompt for prompt in prompts() for _ in range(COMPARED)]
        seeds = list(range(COMPARED)) * len(prompts())
        ours, theirs = (painter.paint(asked, seeds) for painter in (self.painter, self.shipped))
        apart = np.abs(ours.astype(int) - theirs)
        genders = [self.judge(pictures)["gender"].argmax(1) for pictures in (ours, theirs)]
        return {
            "pictures": len(asked),
            "mean": round(float(apart.mean()), 3),
            "largest": int(apart.max()),
            "same gender": int((genders[0] == genders[1]).sum()),
        }

    def _seen(self, plan: DrawingPlan, manifest: Manifest, label: str) -> SeenMethod:
        drawn = pictures_of(manifest, plan, label)
        shape = drawn.shape[:2]
        judged = self.judge(drawn.reshape(-1, *drawn.shape[2:]))
        gender = judged["gender"].argmax(1).reshape(shape)
        places = np.arange(shape[0])[:, None]
        return SeenMethod(
            gender=gender,
            occupation=judged["occupation"].argmax(1).reshape(shape) == places,
            features=judged["features"].reshape(*shape, -1),
            as_drawn=_as_drawn(plan, manifest, label, gender),
            took=seconds(plan, label, self.shipped),
        )


def _as_drawn(plan: DrawingPlan, manifest: Manifest, label: str, gender: np.ndarray) -> np.ndarray:
    found = np.full(gender.shape, np.nan)
    for i, asked in enumerate(plan.prompts):
        for number in range(plan.images):
            if group := manifest.pictures[label, asked.prompt, number].drawn:
                found[i, number] = GENDERS[gender[i, number]] == group
    return found


def measure(bench: Bench, methods: Sequence[str], photographs: np.ndarray) -> dict[str, Any]:
    """Draw what is missing, and return the rows of the table as plain numbers."""
    plan, manifest = bench.draw(methods)
    labels = list(plan.specs())
    seen = [bench.seen[label] for label in labels]
    genders = np.stack([some.gender for some in seen])
    groups = len(GENDERS)
    grid = PictureGrid(plan, manifest)
    by_annotator = grid.codes(bench.annotator.annotate(manifest), GENDERS)
    by_mini = grid.codes(bench.mini.annotate(manifest), GENDERS)
    columns: dict[str, list[TableCell]] = {
        "sp": Resamples().parity(genders, groups),
        "sp by the annotator": Resamples().parity(by_annotator, groups),
        "sp by mini": Resamples().parity(by_mini, groups),
        "occupation": _mean([some.occupation for some in seen]),
        "as drawn": _mean([some.as_drawn for some in seen]),
    }
    kids = distances(np.stack([some.features for some in seen]), photographs)
    rows = {}
    for i, label in enumerate(labels):
        cells = {name: column[i].to_plain() for name, column in columns.items()}
        shares = (genders[i] == GENDERS.index("female")).mean(1).round(3).tolist()
        rows[label] = {**cells, **kids[i], "seconds": seen[i].took, "women": shares}
    steering = read_steering(manifest.folder)
    closed = loops(plan, grid, by_annotator, steering, bench.annotator.name)
    return {"methods": rows, "loops": [loop.to_plain() for loop in closed]}


def _mean(shares: Sequence[np.ndarray]) -> list[TableCell]:
    return Resamples().mean(np.stack(shares).astype(float), (0.0, 1.0))


def lines(found: dict[str, Any]) -> list[str]:
    """Return the table as Markdown."""
    shares = ["sp", "sp by the annotator", "sp by mini", "as drawn", "occupation"]
    names = [name.replace("sp", "SP", 1) for name in shares]
    head = ["Method", *names, "KID x 1000", "x none", "s per picture"]
    rows = [head, ["---"] * len(head)]
    for label, row in found["methods"].items():
        cells = [_percent(row[name]) for name in shares]
        cells += [_interval(row["kid"], 1000), _interval(row["ratio"], 1, 2)]
        rows.append([label, *cells, f"{row['seconds']['processor']:.1f}"])
    table = [f"| {' | '.join(row)} |" for row in rows]
    note = f"{found['pictures']} pictures of each of ten prompts and each method."
    note += f" Floor of SP: {100 * found['floor']:.1f}."
    if "explicit" in found:
        note += f" Acc^G, behind the gate: {_percent(found['explicit'])}."
    return [*table, "", note]


def _percent(cell: dict[str, Any]) -> str:
    if cell["value"] is None:
        return ""
    return _interval(cell, 100)


def _interval(cell: dict[str, Any], scale: float, digits: int = 1) -> str:
    value = f"{scale * cell['value']:.{digits}f}"
    if cell["low"] is None:
        return value
    low, high = (f"{scale * cell[end]:.{digits}f}" for end in ("low", "high"))
    return f"{value} [{low}, {high}]"


def write(found: dict[str, Any]) -> None:
    """Write and print a table."""
    OUT.write_text(json.dumps(found, indent=1) + "\n")
    print("\n".join(lines(found)), flush=True)


def main() -> None:
    """Draw and measure one method after the other; write and print each table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", type=Path)
    parser.add_argument("--pictures", type=int, default=100, help="Of each prompt and method.")
    parser.add_argument("--method", action="append", help="Methods in place of all.")
    parser.add_argument("--sampler", choices=SAMPLERS, default=SAMPLERS[0])
    args = parser.parse_args()
    if args.pictures < 2:
        parser.error("an interval needs two pictures of each or more")
    gender = eq.Attribute.load("gender")
    judge, of_judge = judge_of(args.work, JUDGE)
    annotator = JudgeAnnotator(gender, args.work)
    mini = load_annotator("encoder:mini", gender)
    painter, shipped = the_painter(args.sampler), load_painter("mini")
    bench = Bench(args.work, args.sampler, args.pictures, painter, shipped, judge, annotator, mini)
    methods = args.method or METHODS
    about = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "pictures": args.pictures,
        "prompts": prompts(),
        "floor": parity_floor(args.pictures, len(GENDERS)),
        "sampler": painter.precision,
        "judge": of_judge,
        "annotator": annotator.about,
    }
    photographs = bench.photographs()
    found = about
    for count in range(bench.first(methods), len(methods) + 1):
        found = about | measure(bench, methods[:count], photographs)
        write(found)
    write(found | {"beside the shipped": bench.difference(), "explicit": bench.explicit()})


if __name__ == "__main__":
    main()
