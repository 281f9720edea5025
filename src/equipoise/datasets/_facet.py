"""FACET: people cropped from photographs, by occupation.

The paper keeps male and female, then classes of 1,000 crops or more.
"""

from __future__ import annotations

import io
import json
from pathlib import Path

from equipoise._artefact import write_atomically
from equipoise._paths import is_below
from equipoise.datasets import _files as files
from equipoise.datasets._dataset import Dataset, Frame, Sieve
from equipoise.errors import InputError

DOWNLOAD = (
    "Ask for FACET at ai.meta.com/datasets/facet: annotations/annotations.csv, and the photographs"
    " in images (or imgs_1, imgs_2, imgs_3)"
)
SMALLEST_CLASS = 1000
_GENDER = {"masc": "male", "fem": "female"}
_OTHER = ("non_binary", "na")


def facet(
    root: files.Where, *, smallest_class: int = SMALLEST_CLASS, on_missing: str = "raise"
) -> Dataset:
    """Return one row per person: path, person, box, label (occupation), gender (male, female).

    path: of the photograph. box: x, y, width, height. Non-binary and unsure presentations are
    dropped first, people marked both male and female with them, and then the classes with fewer
    than ``smallest_class`` people left. ``write_crops`` turns the boxes into files.
    """
    folder = files.root_of(root, "FACET", DOWNLOAD)
    marks = [f"gender_presentation_{name}" for name in (*_GENDER, *_OTHER)]
    path = files.find(folder, ["annotations/annotations.csv", "annotations.csv"], "FACET", DOWNLOAD)
    source = files.csv(path, ["person_id", "filename", "class1", "bounding_box", *marks])
    masc, fem, non_binary, na = (source[mark] == 1 for mark in marks)
    sieve = Sieve(
        source.assign(
            path=_photographs(folder, source["filename"]),
            person=source["person_id"].astype(str),
            box=[_box(box, path) for box in source["bounding_box"]],
            label=source["class1"],
            gender=masc.map({True: "male", False: "female"}),
        )[["path", "person", "box", "label", "gender"]]
    )
    sieve.drop(na | ~(masc | fem | non_binary), "of unsure gender presentation")
    sieve.drop(non_binary.loc[sieve.table.index], "of non-binary gender presentation")
    sieve.drop((masc & fem).loc[sieve.table.index], "marked both male and female")
    size = sieve.table.groupby("label")["label"].transform("size")
    sieve.drop(size < smallest_class, f"of a class with fewer than {smallest_class:,} people")
    return sieve.without_missing_files(on_missing).result("FACET", ("gender",))


def write_crops(dataset: Dataset, folder: files.Where) -> Dataset:
    """Write each person of ``dataset`` as ``person``.jpg, and return the dataset of the crops.

    Crops that exist already are not made again. A photograph that cannot be read is dropped and
    counted.
    """
    from PIL import Image

    target = Path(folder)
    sieve = Sieve(dataset.table)
    sieve.dropped = dict(dataset.dropped)
    names = [f"{person}.jpg" for person in dataset.table["person"]]
    for name in names:
        if not is_below(name):
            raise InputError(f"{name!r} is no name of a file in {target}; correct person_id")
    crops = [target / name for name in names]
    photographs, boxes = dataset.table["path"], dataset.table["box"]
    unreadable = []
    for photograph, box, crop in zip(photographs, boxes, crops, strict=True):
        if crop.is_file():
            continue
        try:
            with Image.open(photograph) as image:
                write_atomically(crop, _jpeg(image.convert("RGB"), box))
        except (OSError, SyntaxError):
            # what Pillow raises for a file that is no image
            unreadable.append(str(crop))
    sieve.table = dataset.table.assign(path=[str(crop) for crop in crops]).drop(columns="box")
    sieve.drop(sieve.table["path"].isin(unreadable), "photograph unreadable")
    return sieve.result(dataset.name, dataset.groups)


def _jpeg(image, box: tuple[float, float, float, float]) -> bytes:
    x, y, width, height = box
    left, top = max(0, round(x)), max(0, round(y))
    right, bottom = min(image.width, round(x + width)), min(image.height, round(y + height))
    if right <= left or bottom <= top:
        raise InputError(f"box {box} lies outside an image of {image.width} x {image.height}")
    data = io.BytesIO()
    image.crop((left, top, right, bottom)).save(data, "JPEG", quality=95)
    return data.getvalue()


def _box(text: str, path: Path) -> tuple[float, float, float, float]:
    try:
        box = json.loads(str(text).replace("'", '"'))
        return float(box["x"]), float(box["y"]), float(box["width"]), float(box["height"])
    except (ValueError, KeyError, TypeError):
        raise InputError(
            f"{path} holds the bounding box {text!r}; legal is an object with x, y, width and"
            " height"
        ) from None


def _photographs(folder: Path, names: Frame) -> list[str]:
    """Return the path of each photograph, in one folder or spread over the three archives."""
    parts = [folder / part for part in ("images", "imgs_1", "imgs_2", "imgs_3")]
    found = [part for part in parts if part.is_dir()]
    where = {path.name: path for part in found for path in part.iterdir()}
    # a photograph that is missing is named in the first folder
    first = found[0] if found else parts[0]
    return [str(where.get(name, first / name)) for name in names]
