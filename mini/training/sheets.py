"""Stage 12: contact sheets for the documentation, each chosen by rule: the surest, a random draw,
and what the sifting threw away; and the
same pictures with their text row as it is and edited.

python -m training.sheets --work WORK --gallery gallery.parquet --out FOLDER
"""

from __future__ import annotations

import argparse
import io
from pathlib import Path
from typing import cast

import numpy as np
import pandas as pd
from PIL import Image

from equipoise.generation._mini import MiniPipeline
from training.gallery import asked
from training.generator import Drawer
from training.measure_generator import METHODS, OnDevice, attached

COLUMNS, ROWS, SEED = 12, 4, 0
EDITED = ("a photo of a doctor", "a photo of a judge", "a photo of a chef")


def main() -> None:
    """Read WORK and the gallery, write one JPEG a sheet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--gallery", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    kept, rng = pd.read_parquet(args.gallery), np.random.default_rng(SEED)
    count = COLUMNS * ROWS
    for kind, name in (("portrait", "portraits"), ("at work", "at_work")):
        of = cast(pd.DataFrame, kept[kept["kind"] == kind])
        write(
            decoded(of.sort_values("gender_probability", ascending=False).head(count)),
            args.out / f"gallery_{name}_surest.jpg",
        )
        write(
            decoded(of.iloc[rng.choice(len(of), count, replace=False)]),
            args.out / f"gallery_{name}_typical.jpg",
        )
    drawn, there = asked(), set(zip(kept["prompt"], kept["seed"], strict=True))
    gone = [(prompt, seed) for _, prompt, seed in drawn if (prompt, seed) not in there]
    some = [gone[i] for i in rng.choice(len(gone), count, replace=False)]
    drawer = Drawer(args.work)
    write(
        drawer([prompt for prompt, _ in some], [seed for _, seed in some]),
        args.out / "gallery_sifted_out.jpg",
    )
    write(
        np.concatenate([edited(drawer, method) for method in METHODS.values()]),
        args.out / "generator_edits.jpg",
    )


def edited(drawer: Drawer, method: str | None) -> np.ndarray:
    """The first pictures of each of EDITED, drawn from text rows that a method edits, or none."""
    each = COLUMNS // len(EDITED)
    half = OnDevice(drawer)
    pipe = MiniPipeline(half, half)
    with attached(pipe, method):
        return pipe(
            [prompt for prompt in EDITED for _ in range(each)],
            seeds=list(range(each)) * len(EDITED),
        )


def decoded(table: pd.DataFrame) -> np.ndarray:
    """Bytes (n, 64, 64, 3)."""
    return np.stack([np.asarray(Image.open(io.BytesIO(picture))) for picture in table["image"]])


def write(pictures: np.ndarray, path: Path) -> None:
    """In rows."""
    rows = [
        np.concatenate(list(row), axis=1) for row in np.split(pictures, len(pictures) // COLUMNS)
    ]
    Image.fromarray(np.concatenate(rows)).save(path, quality=90)


if __name__ == "__main__":
    main()
