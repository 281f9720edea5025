"""Stage 12: contact sheets for the documentation, each chosen by rule: a random hundred of each kind,
the fittest and the least fit of those kept, and some that were left out; and, with WORK, the same
pictures with their text row as it is and edited.

python -m training.sheets --gallery gallery.parquet --candidates candidates.parquet \
    --fitness fitness.parquet --out FOLDER
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import cast

import numpy as np
import pandas as pd
from PIL import Image

from training.candidates import decoded

COLUMNS, ROWS, SEED = 12, 4, 0
HUNDRED, ACROSS = 100, 10
EDITED = ("a photo of a doctor", "a photo of a judge", "a photo of a chef")


def main() -> None:
    """Read the gallery and its candidates, write an image a sheet."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("gallery", "candidates", "fitness", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--work", type=Path, help="For the edited pictures.")
    args = parser.parse_args()
    kept, rng = pd.read_parquet(args.gallery), np.random.default_rng(SEED)
    fitness = pd.read_parquet(args.fitness)
    kept = kept.merge(fitness, on="seed").sort_values("not good", kind="stable")
    count = COLUMNS * ROWS
    for kind, name in (("portrait", "portraits"), ("at work", "at_work")):
        of = cast(pd.DataFrame, kept[kept["kind"] == kind]).reset_index(drop=True)
        some = rng.choice(len(of), HUNDRED, replace=False)
        write(decoded(of.iloc[some]), args.out / f"gallery_{name}_random.webp", ACROSS)
        write(decoded(of.head(count)), args.out / f"gallery_{name}_best.webp")
        write(decoded(of.tail(count)), args.out / f"gallery_{name}_worst.webp")
    drawn = pd.read_parquet(args.candidates)
    gone = drawn[~drawn["seed"].isin(kept["seed"])]
    some = rng.choice(len(gone), count, replace=False)
    write(decoded(gone.iloc[some]), args.out / "gallery_left_out.webp")
    if args.work:
        write_edited(args.work, args.out / "generator_edits.jpg")


def write_edited(work: Path, path: Path) -> None:
    """Write the first pictures of each of EDITED, drawn from text rows as they are and as each
    method edits them.
    """
    from equipoise.generation._mini import MiniPipeline
    from training.generator import Drawer
    from training.measure_generator import METHODS, OnDevice, attached

    drawer, each = Drawer(work), COLUMNS // len(EDITED)
    half = OnDevice(drawer)
    pipe = MiniPipeline(half, half)
    prompts = [prompt for prompt in EDITED for _ in range(each)]
    rows = []
    for method in METHODS.values():
        with attached(pipe, method):
            rows.append(pipe(prompts, seeds=list(range(each)) * len(EDITED)))
    write(np.concatenate(rows), path)


def write(pictures: np.ndarray, path: Path, across: int = COLUMNS) -> None:
    """In rows."""
    rows = [
        np.concatenate(list(row), axis=1) for row in np.split(pictures, len(pictures) // across)
    ]
    Image.fromarray(np.concatenate(rows)).save(path, quality=82, method=6)


if __name__ == "__main__":
    main()
