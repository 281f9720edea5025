"""Stage 8: the gallery.

Pictures of people who do not exist, what the independent classifier sees in them, and which are
kept by rule.

python -m training.gallery --work WORK --out gallery.parquet
"""

from __future__ import annotations

import argparse
import io
import json
from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
import torch
from PIL import Image
from torch.nn import functional as F

from training.arrays import SOURCES, TEST, TRAIN, VALIDATION
from training.augment import centre
from training.generator import Drawer
from training.joint import Batches
from training.judging import Judge, nearest, says
from training.teacher import DEVICE

AGES = ("young", "middle-aged", "old")
LOOKS = ("white", "Black", "East Asian", "Southeast Asian", "Indian", "Middle Eastern", "Latino")
AT_WORK = (
    "chef",
    "doctor",
    "engineer",
    "farmer",
    "firefighter",
    "judge",
    "mechanic",
    "pilot",
    "police officer",
    "waiter",
)
BY_TEXT = (
    "nurse", "teacher", "lawyer", "scientist", "secretary", "carpenter", "hairdresser", "librarian", "plumber", "receptionist",
    "soldier", "dentist", "cashier", "singer", "electrician", "dancer", "professor", "cleaner", "baker", "model",
)  # fmt: skip
# a picture is kept when it lies as near to photographs as this share of other photographs does
NEAR_REAL = 0.95
# a picture is kept when the classifier is as sure as this of the perceived gender: it sees a person
CLEAR = 0.9
COPIES = (
    0.01  # share of test photographs that lie nearer to a training photograph than a picture may
)
QUALITY = 88  # of the JPEGs


def prompts() -> list[tuple[str, str, int]]:
    """(kind, prompt, how many are drawn): portraits over gender, age and looks; people at work,
    mostly with no gender named.
    """
    portraits = [
        ("portrait", f"a photo of a{'n' * (first[0] in 'aeiouAEIOU')} {first} {' '.join(rest)}", 56)
        for first, *rest in product(AGES, LOOKS, ("man", "woman"))
    ]
    neutral = [
        ("at work", f"a photo of a{'n' * (name[0] in 'aeiou')} {name}", 90)
        for name in (*AT_WORK, *BY_TEXT)
    ]
    explicit = [
        ("at work", f"a photo of a {gender} {name}", 30)
        for name in AT_WORK
        for gender in ("male", "female")
    ]
    return [*portraits, *neutral, *explicit]


def asked(share: float = 1.0) -> list[tuple[str, str, int]]:
    """(kind, prompt, seed) of every picture, each with a seed of its own."""
    wanted = [
        (kind, prompt)
        for kind, prompt, count in prompts()
        for _ in range(max(1, round(count * share)))
    ]
    return [(kind, prompt, seed) for seed, (kind, prompt) in enumerate(wanted)]


def main() -> None:
    """Draw, judge, sift, write OUT and its figures beside it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument(
        "--share", type=float, default=1.0, help="Of the pictures to draw, to try things out."
    )
    args = parser.parse_args()
    drawer, judge = Drawer(args.work), Judge(args.work)
    wanted = asked(args.share)
    pictures = drawer([prompt for _, prompt, _ in wanted], [seed for _, _, seed in wanted])
    found = judge(pictures)
    batches = Batches(args.work, (TRAIN,), [], 1)
    table = pd.DataFrame(
        {
            "name": [f"{i:05d}" for i in range(len(wanted))],
            "image": [jpeg(picture) for picture in pictures],
            "prompt": [prompt for _, prompt, _ in wanted],
            "seed": [seed for _, _, seed in wanted],
            "kind": [kind for kind, _, _ in wanted],
            "gender": says(found, "gender"),
            "age": says(found, "age"),
            "race": says(found, "race"),
            "gender_probability": found["gender"].max(1).round(3),
        }
    )
    near, figures = near_real(table["kind"].to_numpy(), found["features"], batches, judge)
    copies, more = near_copies(pictures, drawer, batches)
    clear = (table["gender_probability"] >= CLEAR).to_numpy()
    kept = cast(pd.DataFrame, table[near & clear & ~copies]).reset_index(drop=True)
    kept.to_parquet(args.out, compression=None, index=False)
    figures |= more | {
        "clear, of those": round(float(clear[near].mean()), 4),
        "drawn": len(table),
        "kept": len(kept),
        "kept by kind": Counter(kept["kind"].tolist()),
    }
    args.out.with_suffix(".json").write_text(json.dumps(figures, indent=1) + "\n")
    print(json.dumps(figures, indent=1))


def near_real(
    kind: np.ndarray, features: np.ndarray, batches: Batches, judge: Judge
) -> tuple[np.ndarray, dict[str, float]]:
    """Whether each picture lies near photographs of its kind in the classifier's features; the rule
    is set by test photographs alone.
    """
    keep, figures = np.zeros(len(kind), bool), {}
    for name, sources in (("portrait", ("fairface", "celeba")), ("at work", ("idenprof_close",))):
        real, test = (
            photographs(batches, sources, parts) for parts in ((TRAIN, VALIDATION), (TEST,))
        )
        there = judge(real)["features"]
        limit = float(np.quantile(nearest(judge(test)["features"], there), NEAR_REAL))
        of = kind == name
        keep[of] = nearest(features[of], there) <= limit
        figures[f"near photographs, {name}"] = round(float(keep[of].mean()), 4)
    return keep, figures


def near_copies(
    pictures: np.ndarray, drawer: Drawer, batches: Batches
) -> tuple[np.ndarray, dict[str, Any]]:
    """Which pictures, or their mirror images, lie nearer to a training photograph, by pixels or by
    embedding, than COPIES of test photographs do.
    """
    real, test = (
        photographs(batches, ("fairface", "celeba", "idenprof", "idenprof_close"), parts)
        for parts in ((TRAIN, VALIDATION), (TEST,))
    )
    copies, figures = np.zeros(len(pictures), bool), dict[str, Any]()
    for name, rows in (("pixels", thumbnails), ("embedding", drawer.image_rows)):
        there = rows(real)
        theirs, ours = (
            np.minimum(nearest(rows(some), there), nearest(rows(some[:, :, ::-1]), there))
            for some in (test, pictures)
        )
        limit = float(np.quantile(theirs, COPIES))
        copies |= ours < limit
        figures[f"nearest by {name}"] = {
            "limit": round(limit, 4),
            "least": round(float(ours.min()), 4),
            "median": round(float(np.median(ours)), 4),
            "median of test photographs": round(float(np.median(theirs)), 4),
            "near-copies": int((ours < limit).sum()),
        }
    return copies, figures


def photographs(batches: Batches, sources: tuple[str, ...], parts: tuple[int, ...]) -> np.ndarray:
    """The middle of photographs, as bytes (n, 64, 64, 3)."""
    rows = torch.cat([batches.of(SOURCES.index(source), parts) for source in sources])
    pixels = torch.cat(
        [
            ((centre(batches.pictures[part]) + 1) * 127.5).round().to(torch.uint8)
            for part in rows.split(4096)
        ]
    )
    return pixels.permute(0, 2, 3, 1).cpu().numpy()


def thumbnails(pictures: np.ndarray) -> np.ndarray:
    """Pixels at 32 x 32 with brightness and contrast taken out, as rows whose distances compare."""
    pixels = torch.from_numpy(np.ascontiguousarray(pictures)).permute(0, 3, 1, 2)
    rows = torch.cat(
        [F.avg_pool2d(part.to(DEVICE).float(), 2).flatten(1).half() for part in pixels.split(4096)]
    ).float()
    rows = rows - rows.mean(1, keepdim=True)
    return (rows / rows.norm(dim=1, keepdim=True).clamp(min=1e-6)).cpu().numpy()


def jpeg(picture: np.ndarray) -> bytes:
    """Compressed."""
    out = io.BytesIO()
    Image.fromarray(picture).save(out, "JPEG", quality=QUALITY)
    return out.getvalue()


if __name__ == "__main__":
    main()
