"""Stage 8, third part: the gallery. Of the candidates, those that somebody looked at and called
good, with what an independent classifier sees in them.

The judge names the groups of all of them. ``--before`` is compared with what is kept now.

python -m training.gallery --candidates candidates.parquet --fitness fitness.parquet \
    --work WORK --before gallery.parquet --out gallery.parquet
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
import torch

import equipoise_mini
from training.arrays import TEST, TRAIN, VALIDATION, Sights
from training.candidates import GOOD, decoded, drawn
from training.judging import Judge, kernel_distance, nearest, says
from training.labels import GENDERS

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
NAMED = {"man": "male", "male": "male", "woman": "female", "female": "female"}
# a picture is kept when its classifier is at least as sure as this of the perceived gender
CLEAR = 0.8
COPIES = (
    0.01  # share of test photographs that lie nearer to a training photograph than a picture may
)
FIRST = 5652  # pictures that were drawn for the first gallery; candidates hold those it kept
LEARNED_FROM = ("fairface", "celeba", "idenprof", "idenprof_close", "flickr8k_close")
LIKE = (("portrait", "fairface"), ("at work", "idenprof_close"), ("at work", "celeba"))
BLOCK = 256
COLUMNS = [
    *("name", "image", "prompt", "seed", "kind"),
    *("gender", "age", "race", "gender_probability"),
]


def main() -> None:
    """Judge, choose, measure; write OUT and its figures beside it."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("candidates", "fitness", "work", "before", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    args = parser.parse_args()
    table = pd.read_parquet(args.candidates)
    fitness, before = pd.read_parquet(args.fitness), pd.read_parquet(args.before)
    table = table.drop(columns="verdict").merge(drawn()[["seed", "verdict"]], on="seed")
    table = table.merge(fitness, on="seed")
    pictures, judge = decoded(table), Judge(args.work)
    found = judge(pictures)
    for question in ("gender", "age", "race"):
        table[question] = says(found, question)
    table["gender_probability"] = found["gender"].max(1).round(3)
    there = Sights(args.work)
    copies, figures = near_copies(pictures, there)
    named = table["prompt"].map(named_gender)
    fits = (named == "") | (named == table["gender"]) | (table["kind"] == "at work")
    clear = table["gender_probability"] >= CLEAR
    good = table["verdict"] == GOOD
    keep = (good & clear & fits & ~copies).to_numpy()
    kept = cast(pd.DataFrame, table[keep]).sort_values(["kind", "seed"], ascending=[False, True])
    kept = kept.reset_index(drop=True)
    kept["name"] = [f"{i:05d}" for i in range(len(kept))]
    kept[COLUMNS].to_parquet(args.out, compression=None, index=False)
    figures |= {
        "drawn": FIRST + np.count_nonzero(table["seed"] >= FIRST),
        "looked at": np.count_nonzero(table["verdict"] != ""),
        "good, of those": np.count_nonzero(good),
        "clear, of those": round(float(np.mean(np.asarray(clear & fits)[np.asarray(good)])), 4),
        "kept": len(kept),
        "kept by kind": Counter(kept["kind"].tolist()),
        "drawn with": drawn_with(table),
        "KID": distances(judge, there, {"before": before, "now": kept}),
        "women": women(table, keep),
    }
    figures["classifier"] = json.loads((args.work / "perceive.json").read_text())
    args.out.with_suffix(".json").write_text(json.dumps(figures, indent=1) + "\n")
    print(json.dumps(figures, indent=1))


def named_gender(prompt: str) -> str:
    """The gender that a prompt names; "" where it names none."""
    return next((NAMED[word] for word in prompt.split() if word in NAMED), "")


def drawn_with(table: pd.DataFrame) -> list[dict[str, float]]:
    """Guidance and steps, with the first and last seed of the pictures that were drawn so."""
    out: list[dict[str, float]] = []
    for row in table.sort_values("seed").to_dict("records"):
        same: dict[str, float] = {"guidance": float(row["guidance"]), "steps": int(row["steps"])}
        if not out or {name: out[-1][name] for name in same} != same:
            out.append({**same, "first seed": int(row["seed"])})
        out[-1]["last seed"] = int(row["seed"])
    return out


def near_copies(pictures: np.ndarray, there: Sights) -> tuple[np.ndarray, dict[str, Any]]:
    """Which pictures, or their mirror images, lie nearer to a training photograph, by pixels or by
    embedding, than COPIES of test photographs do.
    """
    real, test = (
        photographs(there, LEARNED_FROM, parts) for parts in ((TRAIN, VALIDATION), (TEST,))
    )
    copies, figures = np.zeros(len(pictures), bool), dict[str, Any]()
    for name, rows in (("pixels", thumbnails), ("embedding", embedded)):
        learned = rows(real)
        theirs, ours = (
            np.minimum(nearest(rows(some), learned), nearest(rows(some[:, :, ::-1]), learned))
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


def photographs(there: Sights, sources: tuple[str, ...], parts: tuple[int, ...]) -> np.ndarray:
    """Crops of photographs as the generator saw them, as bytes (n, 64, 64, 3)."""
    rows = [there.of(source, part) for source in sources for part in parts]
    return there.crops(np.concatenate(rows))


def thumbnails(pictures: np.ndarray) -> np.ndarray:
    """Pixels at 32 x 32 with brightness and contrast taken out, as rows whose distances compare."""
    count = len(pictures)
    small = pictures.reshape(count, 32, 2, 32, 2, 3).mean((2, 4), dtype=np.float32)
    rows = small.reshape(count, -1)
    rows -= rows.mean(1, keepdims=True)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True).clip(1e-6)


def embedded(pictures: np.ndarray) -> np.ndarray:
    """Unit rows of mini."""
    model = equipoise_mini.torch_model().eval()
    parts = torch.from_numpy(np.ascontiguousarray(pictures)).split(BLOCK)
    with torch.inference_mode():
        return torch.cat([model.encode_image(part) for part in parts]).numpy()


def distances(
    judge: Judge, there: Sights, sets: dict[str, pd.DataFrame]
) -> dict[str, dict[str, float]]:
    """KID of each kind of picture against test photographs, in the judge's features; and of as many
    training photographs.
    """
    out = {}
    for kind, source in LIKE:
        test, train = (photographs(there, (source,), (part,)) for part in (TEST, TRAIN))
        some = np.random.default_rng(0).choice(len(train), len(test), replace=False)
        far = judge(test)["features"]
        drawn_features = {
            name: judge(decoded(cast(pd.DataFrame, table[table["kind"] == kind])))["features"]
            for name, table in sets.items()
        }
        drawn_features["training photographs"] = judge(train[some])["features"]
        out[f"{kind}, {source}"] = {
            name: round(kernel_distance(near, far), 4) for name, near in drawn_features.items()
        }
    return out


def occupation(prompt: str) -> str:
    """The occupation that a prompt names."""
    return next((name for name in (*AT_WORK, *BY_TEXT) if f" {name} " in f"{prompt} "), "")


def women(table: pd.DataFrame, keep: np.ndarray) -> dict[str, dict[str, float]]:
    """The share of women among people at work of whom the prompt names no gender: of all that were
    candidates, and of those kept.
    """
    neutral = (table["kind"] == "at work") & (table["prompt"].map(named_gender) == "")
    names = table["prompt"].map(occupation)
    female = (table["gender"] == GENDERS[1]).to_numpy()
    out = {}
    for name in (*AT_WORK, *BY_TEXT):
        before = (neutral & (names == name)).to_numpy()
        after = before & keep
        out[name] = {
            "candidates": round(float(np.mean(female[before])), 3),
            "of": int(before.sum()),
            "kept": round(float(np.mean(female[after])), 3) if after.any() else None,
            "of kept": int(after.sum()),
        }
    return out


if __name__ == "__main__":
    main()
