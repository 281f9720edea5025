"""CelebA: faces with 40 attributes; the paper's task is blond hair, by gender and age."""

from __future__ import annotations

from pathlib import Path

from equipoise.datasets import _files as files
from equipoise.datasets._dataset import Dataset, Frame, Sieve
from equipoise.errors import InputError

DOWNLOAD = (
    "Download CelebA (mmlab.ie.cuhk.edu.hk/projects/CelebA.html): img_align_celeba,"
    " list_attr_celeba and list_eval_partition, as txt or csv"
)
SPLITS = {"train": 0, "val": 1, "test": 2}
_LABELS = {"Blond_Hair": ("blond", "non-blond")}


def celeba(
    root: files.Where,
    *,
    label: str = "Blond_Hair",
    splits: tuple[str, ...] = ("val", "test"),
    on_missing: str = "raise",
) -> Dataset:
    """Return columns path, label, gender (male, female), age (young, old), split.

    label: any of the 40 attributes; Blond_Hair gives "blond" and "non-blond", others their name and
    "not ..." before it.
    """
    folder = files.root_of(root, "CelebA", DOWNLOAD)
    files.chosen(splits, SPLITS, "splits")
    attributes = _attributes(_find(folder, "list_attr_celeba"))
    partition = _partition(_find(folder, "list_eval_partition"))
    if label not in attributes.columns:
        raise InputError(
            f"label={label!r} is not an attribute of CelebA; legal are"
            f" {', '.join(attributes.columns)}"
        )
    images = files.folder_of(folder, ("img_align_celeba", "Img/img_align_celeba"))
    # Kaggle's archive has the folder inside a folder of the same name
    if (images / "img_align_celeba").is_dir():
        images = images / "img_align_celeba"
    sieve = Sieve(_table(attributes, partition, label, images))
    sieve.drop(sieve.table["split"].isna(), "in no split")
    sieve.drop(~sieve.table["split"].isin(splits), "in another split")
    return sieve.without_missing_files(on_missing).result("CelebA", ("gender", "age"))


def _find(folder: Path, name: str) -> Path:
    """Return an annotation file, of whichever layout and kind was downloaded."""
    names = []
    for place in ("", "Anno/", "Eval/"):
        names += [f"{place}{name}.txt", f"{place}{name}.csv"]
    return files.find(folder, names, "CelebA", DOWNLOAD)


def _table(attributes: Frame, partition: Frame, label: str, images: Path) -> Frame:
    import pandas as pd

    def words(column: str, yes: str, no: str) -> Frame:
        codes = {1: yes, -1: no, 0: no}
        return files.mapped(attributes[column], codes, f"CelebA's {column}").to_numpy()

    splits = {code: name for name, code in SPLITS.items()}
    named = files.mapped(partition, splits, "CelebA's list_eval_partition")
    yes, no = _LABELS.get(label, (label, f"not {label}"))
    columns = {
        "path": [str(images / name) for name in attributes.index],
        "label": words(label, yes, no),
        "gender": words("Male", "male", "female"),
        "age": words("Young", "young", "old"),
        "split": named.reindex(attributes.index).to_numpy(),
    }
    return pd.DataFrame(columns)


def _attributes(path: Path) -> Frame:
    """Return a table of images x attributes, 1 and -1."""
    if ".csv" in path.suffixes:
        return files.csv(path, ["image_id", "Male", "Young"]).set_index("image_id")
    # the header names 40 of the 41 columns, so that pandas takes the first for the index
    table = files.csv(path, ["Male", "Young"], sep=r"\s+", skiprows=1)
    with files.opened(path) as file:
        count = file.readline().strip()
    if count != str(len(table)):
        raise InputError(
            f"{path} says it has {count!r} images and has {len(table)}; download it again"
        )
    return table


def _partition(path: Path) -> Frame:
    if ".csv" in path.suffixes:
        table = files.csv(path, ["image_id", "partition"]).set_index("image_id")["partition"]
    else:
        table = files.csv(path, [0, 1], sep=r"\s+", header=None).set_index(0)[1]
    files.require_once(table.index, path)
    return table
