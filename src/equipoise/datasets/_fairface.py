"""FairFace: faces by gender, age (9 ranges) and race (7 groups)."""

from __future__ import annotations

from equipoise.datasets import _files as files
from equipoise.datasets._dataset import Dataset, Sieve

DOWNLOAD = (
    "Download FairFace (github.com/joojs/fairface): fairface_label_train.csv,"
    " fairface_label_val.csv and the folders train and val"
)
SPLITS = {"train": "fairface_label_train.csv", "val": "fairface_label_val.csv"}


def fairface(
    root: files.Where, *, splits: tuple[str, ...] = ("val",), on_missing: str = "raise"
) -> Dataset:
    """Return columns path, gender (male, female), age, race, split."""
    import pandas as pd

    folder = files.root_of(root, "FairFace", DOWNLOAD)
    parts = []
    for split, name in zip(splits, files.chosen(splits, SPLITS, "splits"), strict=True):
        path = files.find(folder, [name], "FairFace", DOWNLOAD)
        part = files.csv(path, ["file", "age", "gender", "race"])
        parts.append(part.assign(split=split))
    table = pd.concat(parts, ignore_index=True)
    gender = files.mapped(
        table["gender"], {"Male": "male", "Female": "female"}, "FairFace's gender"
    )
    paths = [str(folder / name) for name in table["file"]]
    columns = {
        "path": paths,
        "gender": gender,
        "age": table["age"],
        "race": table["race"],
        "split": table["split"],
    }
    sieve = Sieve(pd.DataFrame(columns)).without_missing_files(on_missing)
    return sieve.result("FairFace", ("gender", "age", "race"))
