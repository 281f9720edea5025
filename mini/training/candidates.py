"""Stage 8: candidates for the gallery, pictures of people who do not exist.

drawn.csv says what is drawn: kind, prompt, seed, guidance, steps; and what somebody who looked at
the picture called it: good, odd or broken, nothing where nobody looked.

python -m training.candidates --out candidates.parquet --have gallery.parquet
"""

from __future__ import annotations

import argparse
import io
from pathlib import Path
from typing import cast

import numpy as np
import pandas as pd
from PIL import Image

import equipoise as eq
import equipoise_mini

DRAWN = Path(__file__).parent / "drawn.csv"
QUALITY = 88  # of the JPEGs
GOOD, ODD, BROKEN = "good", "odd", "broken"


def main() -> None:
    """Draw what is not there yet, write OUT."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument(
        "--have", type=Path, nargs="*", default=[], help="Tables with pictures by prompt and seed."
    )
    parser.add_argument("--threads", type=int)
    args = parser.parse_args()
    wanted = drawn()
    pictures = {}
    for path in args.have:
        table = pd.read_parquet(path, columns=["prompt", "seed", "image"])
        keys = zip(table["prompt"], table["seed"], strict=True)
        pictures |= dict(zip(keys, table["image"], strict=True))
    keys = list(zip(wanted["prompt"], wanted["seed"], strict=True))
    missing = wanted[[key not in pictures for key in keys]]
    pictures |= draw(cast(pd.DataFrame, missing), args.threads)
    wanted["image"] = [pictures[key] for key in keys]
    wanted.to_parquet(args.out, compression=None, index=False)
    print(f"{len(wanted):,} candidates, {len(missing):,} drawn now")


def drawn() -> pd.DataFrame:
    """What drawn.csv says, a line a picture."""
    table = pd.read_csv(DRAWN, keep_default_na=False)
    if table["seed"].duplicated().any():
        raise ValueError(f"{DRAWN} gives two pictures the same noise; give each a seed of its own")
    return table


def draw(wanted: pd.DataFrame, threads: int | None) -> dict[tuple[str, int], bytes]:
    """Each picture, as a JPEG, by prompt and seed."""
    generator, encoder = equipoise_mini.generator(threads), eq.load_encoder("mini")
    out = {}
    for settings, some in wanted.groupby(["guidance", "steps"]):
        guidance, steps = cast(tuple[float, int], settings)
        rows = encoder.encode_text(some["prompt"].tolist())
        pictures = generator.sample(rows, some["seed"].tolist(), float(guidance), int(steps))
        keys = zip(some["prompt"], some["seed"], strict=True)
        out |= {key: jpeg(picture) for key, picture in zip(keys, pictures, strict=True)}
    return out


def jpeg(picture: np.ndarray) -> bytes:
    """Compressed."""
    out = io.BytesIO()
    Image.fromarray(picture).save(out, "JPEG", quality=QUALITY)
    return out.getvalue()


def decoded(table: pd.DataFrame) -> np.ndarray:
    """The pictures of a table, as bytes (n, 64, 64, 3)."""
    return np.stack([np.asarray(Image.open(io.BytesIO(picture))) for picture in table["image"]])


if __name__ == "__main__":
    main()
