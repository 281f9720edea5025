"""COCO2017 captions; perceived gender and skin tone by Zhao, Wang and Russakovsky (2021)."""

from __future__ import annotations

import json
from pathlib import Path

from equipoise.datasets import _files as files
from equipoise.datasets._dataset import Dataset, Frame, Sieve
from equipoise.errors import InputError
from equipoise.prompts import _nine_words as nine_words

DOWNLOAD = (
    "Download COCO 2017 (cocodataset.org): train2017, val2017 and annotations/captions_*2017.json;"
    " ask for images_val2014.csv at princetonvisualai.github.io/imagecaptioning-bias"
)
CAPTIONS = ("captions_train2017.json", "captions_val2017.json")
GENDERS = {"Male": "male", "Female": "female"}
TONES = {"Light": "light", "Dark": "dark"}
_REST = ("Both", "Unsure", "")


def coco2017(
    root: files.Where, *, captions_per_image: int | None = None, on_missing: str = "raise"
) -> Dataset:
    """Return one row per caption: path, caption, query, gender and skin_tone.

    query: the caption with its gender words made "person". gender: male, female. skin_tone: light,
    dark. Images marked unsure, or showing people of both kinds, are dropped. captions_per_image:
    the first so many captions of each image.
    """
    folder = files.root_of(root, "COCO2017", DOWNLOAD)
    labels = files.find(
        folder, ["images_val2014.csv", "annotations/images_val2014.csv"], "COCO2017", DOWNLOAD
    )
    people = files.csv(labels, ["id", "bb_gender", "bb_skin"], keep_default_na=False)
    files.require_once(people["id"], labels)
    sieve = Sieve(people.rename(columns={"id": "image"})[["image", "bb_gender", "bb_skin"]])
    for column, legal, what in (("bb_gender", GENDERS, "gender"), ("bb_skin", TONES, "skin tone")):
        names = legal | dict.fromkeys(_REST, "")
        files.mapped(sieve.table[column], names, f"{labels.name}'s {column}")
        sieve.drop(sieve.table[column].isin(["Unsure", ""]), f"images of unsure {what}")
        sieve.drop(sieve.table[column] == "Both", f"images of more than one {what}")
    captions = _captions(folder)
    sieve.drop(~sieve.table["image"].isin(captions["image"]), "images without captions")
    if captions_per_image is not None:
        captions = captions[captions.groupby("image").cumcount() < captions_per_image]
    sieve.table = sieve.table.merge(captions, on="image", validate="1:m")
    sieve.table = sieve.table.assign(
        query=sieve.table["caption"].map(nine_words.without_gender),
        gender=sieve.table["bb_gender"].map(GENDERS),
        skin_tone=sieve.table["bb_skin"].map(TONES),
    )[["path", "image", "caption", "query", "gender", "skin_tone"]]
    return sieve.without_missing_files(on_missing).result("COCO2017", ("gender", "skin_tone"))


def _captions(folder: Path) -> Frame:
    """Return columns image, path and caption, from whichever of the two files exist."""
    import pandas as pd

    parts = []
    for name in CAPTIONS:
        try:
            path = files.find(folder, [f"annotations/{name}", name], "COCO2017", DOWNLOAD)
        except InputError:
            continue
        images = folder / name.removeprefix("captions_").removesuffix(".json")
        try:
            document = json.loads(files.text(path))
            where = {image["id"]: str(images / image["file_name"]) for image in document["images"]}
            parts += [
                (a["image_id"], where[a["image_id"]], a["caption"].strip())
                for a in document["annotations"]
            ]
        except (ValueError, KeyError, TypeError):
            raise InputError(
                f"{path} is not a COCO caption file: images with id and file_name, annotations with"
                " image_id and caption"
            ) from None
    if not parts:
        raise InputError(f"COCO2017: neither {' nor '.join(CAPTIONS)} is in {folder}. {DOWNLOAD}")
    return pd.DataFrame(parts, columns=["image", "path", "caption"])
