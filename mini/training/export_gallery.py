"""Stage 11: the gallery as it is shipped, checked, with the error of the classifier that named its
groups.

python -m training.export_gallery --gallery gallery.parquet
"""

from __future__ import annotations

import argparse
import io
import json
import shutil
from pathlib import Path

import pandas as pd
from PIL import Image

from equipoise_mini import FOLDER, PIXELS
from equipoise_mini.files import seal

COLUMNS = ("name", "image", "prompt", "seed", "kind", "gender", "age", "race", "gender_probability")
TABLE, FIGURES = "gallery.parquet", "gallery.json"
LIMIT = 6_000_000  # bytes


def main() -> None:
    """Read the gallery and its figures beside it; write the gallery's files of the package."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gallery", type=Path, required=True)
    parser.add_argument("--folder", type=Path, default=FOLDER, help="Where to write.")
    args = parser.parse_args()
    check(args.gallery)
    figures = json.loads(args.gallery.with_suffix(".json").read_text())
    shutil.copyfile(args.gallery, args.folder / TABLE)
    (args.folder / FIGURES).write_text(json.dumps(figures, indent=1) + "\n")
    seal(args.folder, TABLE, FIGURES)


def check(path: Path) -> None:
    """Raise unless every line has a picture of the right size, and what it was drawn from."""
    if path.stat().st_size > LIMIT:
        raise ValueError(
            f"{path} has {path.stat().st_size:,} bytes, and {LIMIT:,} are shipped at most"
        )
    table = pd.read_parquet(path)
    if (
        tuple(table.columns) != COLUMNS
        or table.isna().any(axis=None)
        or table["name"].duplicated().any()
    ):
        raise ValueError(
            f"{path} needs the columns {', '.join(COLUMNS)}, a value in each and no name twice; it"
            f" has {list(table.columns)}"
        )
    for name, data in zip(table["name"], table["image"], strict=True):
        size = Image.open(io.BytesIO(data)).convert("RGB").size
        if size != (PIXELS, PIXELS):
            raise ValueError(f"picture {name} is {size}, not {PIXELS} x {PIXELS}")


if __name__ == "__main__":
    main()
