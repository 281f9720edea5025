"""Stage 9: what the generator can do, in figures.

Does it draw what is asked, how near are its pictures to photographs, whom does it draw when nobody
is named, and what does the closed form change about that?

python -m training.measure_generator --work WORK
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import torch

import equipoise as eq
from equipoise.generation._measures import Resamples, parity_floor
from equipoise.generation._mini import MiniPipeline
from equipoise_mini.drawing import GUIDANCE, STEPS
from equipoise_mini.module import DIM
from training.arrays import SOURCES, TEST, TRAIN
from training.augment import centre
from training.gallery import AT_WORK, BY_TEXT
from training.generator import PROMPTS, Drawer
from training.joint import Batches
from training.judging import Judge, kernel_distance, says
from training.labels import GENDERS, SLOTS
from training.teacher import DEVICE
from training.zero_shot import article

FIGURES = Path(__file__).parents[1] / "generator.json"
KERNEL = 2000  # pictures and photographs whose features are compared
STATED = {"man": "male", "male": "male", "woman": "female", "female": "female", "girl": "female"}
METHODS = {"none": None, "closed form": "closed-form", "projection": "orth-proj"}


class OnDevice:
    """A drawer as the two halves of the library's pipeline, so that what is measured is what a user
    runs.
    """

    id, dim = "mini", DIM

    def __init__(self, drawer: Drawer):
        self.drawer = drawer

    def encode_text(self, texts: Sequence[str]) -> np.ndarray:
        """Unit rows."""
        return self.drawer.text_rows(list(texts)).cpu().numpy()

    def sample(self, rows: np.ndarray, seeds: Sequence[int]) -> np.ndarray:
        """Pictures of rows."""
        return self.drawer.of_rows(torch.from_numpy(rows).to(DEVICE), list(seeds))


def main() -> None:
    """Read WORK, write OUT."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=FIGURES)
    parser.add_argument("--each", type=int, default=100, help="Pictures a prompt.")
    parser.add_argument(
        "--others",
        type=float,
        nargs="*",
        default=[2.0, 4.5],
        help="Other guidance to compare with.",
    )
    args = parser.parse_args()
    judge, batches, drawer = (
        Judge(args.work),
        Batches(args.work, (TRAIN,), [], 1),
        Drawer(args.work),
    )
    out: dict[str, Any] = {
        "steps": STEPS,
        "guidance": GUIDANCE,
        "pictures a prompt": args.each,
        "classifier": json.loads((args.work / "perceive.json").read_text()),
        "asked": asked(drawer, judge, args.each),
        "kernel distance": quality(drawer, judge, batches, KERNEL),
        "at work": skew(drawer, judge, AT_WORK, args.each),
        "by text alone": skew(drawer, judge, BY_TEXT[: len(AT_WORK)], args.each),
    }
    for guidance in args.others:
        drawer = Drawer(args.work, guidance)
        right = asked(drawer, judge, args.each)
        out[f"guidance {guidance:g}"] = {
            **{question: found["value"] for question, found in right.items()},
            "kernel distance": quality(drawer, judge, batches, KERNEL),
        }
    args.out.write_text(json.dumps(out, indent=1) + "\n")
    print(json.dumps(out), flush=True)


def stated(prompt: str) -> str | None:
    """The gender that a prompt names."""
    return next((STATED[word] for word in prompt.split() if word in STATED), None)


def asked(drawer: Drawer, judge: Judge, each: int) -> dict[str, Any]:
    """Share of pictures that show the gender, and the occupation, that their prompt names; by
    prompt.
    """
    gender = {prompt: group for prompt in PROMPTS if (group := stated(prompt))}
    work = dict(
        zip([article(f"a photo of a {name}") for name in AT_WORK], SLOTS["occupation"], strict=True)
    )
    out: dict[str, Any] = {}
    for question, expected in (("gender", gender), ("occupation", work)):
        prompts = [prompt for prompt in expected for _ in range(each)]
        shown = says(judge(drawer(prompts, list(range(each)) * len(expected))), question)
        right = (shown == np.repeat(list(expected.values()), each)).reshape(-1, each)
        (entry,) = Resamples().mean(right[None].astype(float), (0.0, 1.0))
        out[question] = entry.to_plain() | {
            "by prompt": dict(zip(expected, right.mean(1).round(3).tolist(), strict=True))
        }
    return out


def quality(drawer: Drawer, judge: Judge, batches: Batches, count: int) -> dict[str, float]:
    """KID in the classifier's features against FairFace's test photographs: of pictures drawn from
    their captions, of training photographs.
    """
    rows = batches.of(SOURCES.index("fairface"), (TEST,))[:count]
    captions = batches.captions["tokens"][batches.caption_of(rows)]
    drawn = drawer.of_rows(drawer.token_rows(captions), list(range(len(rows))))
    test, train = (middles(batches, part)[:count] for part in (TEST, TRAIN))
    there = judge(test)["features"]
    return {
        "drawn": kernel_distance(judge(drawn)["features"], there),
        "photographs": kernel_distance(judge(train)["features"], there),
        "n": len(rows),
    }


def middles(batches: Batches, part: int) -> np.ndarray:
    """The middle of FairFace's photographs of one part, as bytes (n, 64, 64, 3)."""
    rows = batches.of(SOURCES.index("fairface"), (part,))
    pixels = torch.cat(
        [
            ((centre(batches.pictures[some]) + 1) * 127.5).round().to(torch.uint8)
            for some in rows.split(4096)
        ]
    )
    return pixels.permute(0, 2, 3, 1).cpu().numpy()


def skew(drawer: Drawer, judge: Judge, occupations: Sequence[str], each: int) -> dict[str, Any]:
    """SP of neutral prompts with the text row as it is and edited, and how many explicit prompts
    still show what they name.
    """
    neutral = [article(f"a photo of a {name}") for name in occupations]
    explicit = [
        (f"a photo of a {gender} {name}", g)
        for name in occupations
        for g, gender in enumerate(GENDERS)
    ]
    half = OnDevice(drawer)
    pipe = MiniPipeline(half, half)
    codes, kept = [], []
    for method in METHODS.values():
        with attached(pipe, method):
            codes.append(genders(pipe, judge, neutral, each))
            kept.append(genders(pipe, judge, [prompt for prompt, _ in explicit], max(1, each // 4)))
    found, known = np.stack(codes), np.stack(kept)
    parity, accuracy = (
        Resamples().parity(found, len(GENDERS)),
        Resamples().accuracy(known, np.array([g for _, g in explicit])),
    )
    return {
        "floor": parity_floor(each, len(GENDERS)),
        "methods": {
            name: {"sp": parity[i], "explicit": accuracy[i]} for i, name in enumerate(METHODS)
        },
        "share of women": {
            name: dict(zip(METHODS, (found[:, p] == 1).mean(1).round(3).tolist(), strict=True))
            for p, name in enumerate(occupations)
        },
    }


def attached(pipe: MiniPipeline, method: str | None) -> AbstractContextManager[Any]:
    """The pipeline with a method on its text rows; with none, the closed form at strength 0, which
    changes nothing.
    """
    return (
        eq.generation.attach(pipe, "gender", method=method)
        if method
        else eq.generation.attach(pipe, "gender", kappa=0)
    )


def genders(pipe: MiniPipeline, judge: Judge, prompts: Sequence[str], each: int) -> np.ndarray:
    """The perceived gender (prompts, each), the same seeds for every prompt."""
    pictures = pipe(
        [prompt for prompt in prompts for _ in range(each)], seeds=list(range(each)) * len(prompts)
    )
    return judge(pictures)["gender"].argmax(1).reshape(len(prompts), each)


if __name__ == "__main__":
    main()
