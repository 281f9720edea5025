"""Waterbirds: birds pasted on land and water; the background is the group."""

from __future__ import annotations

from equipoise.datasets import _files as files
from equipoise.datasets._dataset import Dataset, Sieve

DOWNLOAD = (
    "Download waterbird_complete95_forest2water2 (github.com/kohpangwei/group_DRO): metadata.csv"
    " and a folder for each species"
)
SPLITS = {"train": 0, "val": 1, "test": 2}


def waterbirds(
    root: files.Where, *, splits: tuple[str, ...] = ("test",), on_missing: str = "raise"
) -> Dataset:
    """Return columns path, label (landbird, waterbird), background (land, water), split."""
    import pandas as pd

    folder = files.root_of(root, "Waterbirds", DOWNLOAD)
    files.chosen(splits, SPLITS, "splits")
    path = files.find(folder, ["metadata.csv", "waterbirds_metadata.csv"], "Waterbirds", DOWNLOAD)
    table = files.csv(path, ["img_filename", "y", "split", "place"])
    names = {code: name for name, code in SPLITS.items()}
    columns = {
        "path": [str(folder / name) for name in table["img_filename"]],
        "label": files.mapped(table["y"], {0: "landbird", 1: "waterbird"}, "Waterbirds' y"),
        "background": files.mapped(table["place"], {0: "land", 1: "water"}, "Waterbirds' place"),
        "split": files.mapped(table["split"], names, "Waterbirds' split"),
    }
    sieve = Sieve(pd.DataFrame(columns))
    sieve.drop(~sieve.table["split"].isin(splits), "in another split")
    return sieve.without_missing_files(on_missing).result("Waterbirds", ("background",))
