"""Every reader through ``equipoise evaluate``: small files in each dataset's own layout."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import equipoise as eq
from equipoise.datasets._facet import SMALLEST_CLASS
from equipoise.datasets._named import KNOWN
from tests.helpers.common import embedded_model, typed

COUNT = 16
QUICK = ["--model", "mini", "--resamples", 20, "--permutations", 5, "--probe", 0, "--workers", 0]
WATER = """
name = "background"
[groups.land]
phrases = ["on land"]
[groups.water]
phrases = ["on water"]
"""


@pytest.fixture(autouse=True)
def mini():
    """The encoder of these tests, or a skip."""
    embedded_model()


def pictures(folder: Path, names: list[str]) -> None:
    rng = np.random.default_rng(0)
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        pixels = rng.integers(0, 255, (24, 24, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / name)


def alternate(*values):
    """The values in turn, ``COUNT`` in all."""
    return [values[i % len(values)] for i in range(COUNT)]


def queries(root: Path) -> list:
    """Prompts to search with, for datasets that have no captions."""
    (root / "queries.txt").write_text("a photo of a doctor\na photo of a nurse\n")
    return ["--task", "retrieval", "--prompts", root / "queries.txt"]


def celeba(root: Path) -> list:
    names = [f"{i:06}.jpg" for i in range(1, COUNT + 1)]
    pictures(root / "img_align_celeba", names)
    marks = zip(alternate(1, 1, -1, -1), alternate(1, -1), alternate(1, 1, 1, -1, -1), strict=True)
    lines = [
        f"{name} {hair} {male} {young}"
        for name, (hair, male, young) in zip(names, marks, strict=True)
    ]
    header = f"{COUNT}\nBlond_Hair Male Young\n"
    (root / "list_attr_celeba.txt").write_text(header + "\n".join(lines) + "\n")
    parts = [f"{name} {split}" for name, split in zip(names, alternate(1, 2), strict=True)]
    (root / "list_eval_partition.txt").write_text("\n".join(parts) + "\n")
    return ["celeba", "--root", root, "--group-columns", "gender"]


def fairface(root: Path) -> list:
    names = [f"val/{i}.jpg" for i in range(1, COUNT + 1)]
    pictures(root, names)
    table = {
        "file": names,
        "age": alternate("20-29", "3-9"),
        "gender": alternate("Male", "Female"),
        "race": alternate("Black", "White", "Indian"),
        "service_test": alternate(True),
    }
    pd.DataFrame(table).to_csv(root / "fairface_label_val.csv", index=False)
    return ["fairface", "--root", root, "--group-columns", "gender", *queries(root)]


def utkface(root: Path) -> list:
    genders = alternate(0, 1)
    races = alternate(0, 1, 2)
    names = [f"{20 + i}_{genders[i]}_{races[i]}_2017{i:013}.jpg.chip.jpg" for i in range(COUNT)]
    pictures(root, names)
    return ["utkface", "--root", root, "--group-columns", "gender", *queries(root)]


def waterbirds(root: Path) -> list:
    names = [f"001.Black_footed_Albatross/{i}.jpg" for i in range(COUNT)]
    pictures(root, names)
    table = {
        "img_id": range(COUNT),
        "img_filename": names,
        "y": alternate(0, 0, 1, 1),
        "split": alternate(2),
        "place": alternate(0, 1),
        "place_filename": alternate("/b/bamboo_forest/1.jpg"),
    }
    pd.DataFrame(table).to_csv(root / "metadata.csv", index=False)
    (root / "background.toml").write_text(WATER)
    book = {}
    for bird in ("a photo of a landbird", "a photo of a waterbird"):
        book[bird] = {place: {"anchor": f"{bird} on {place}"} for place in ("land", "water")}
    eq.PromptBook(prompts=book).save(root / "book.json")
    worded = ["--attribute", root / "background.toml", "--book", root / "book.json"]
    return ["waterbirds", "--root", root, *worded]


def flickr30k(root: Path) -> list:
    names = [f"{1000 + i}.jpg" for i in range(COUNT)]
    pictures(root / "flickr30k-images", names)
    lines = []
    for i, (name, noun) in enumerate(zip(names, alternate("man", "lady"), strict=True)):
        lines += [f"{name}#0\tA {noun} rides bicycle {i} .", f"{name}#1\tSomebody outdoors ."]
    (root / "results_20130124.token").write_text("\n".join(lines) + "\n")
    (root / "one.txt").write_text("\n".join(names))
    return ["flickr30k", "--root", root, "--task", "retrieval", "--one-person", root / "one.txt"]


def coco2017(root: Path) -> list:
    names = [f"{i:012}.jpg" for i in range(COUNT)]
    pictures(root / "val2017", names)
    images = [{"id": i, "file_name": name} for i, name in enumerate(names)]
    captions = [{"image_id": i, "caption": f"A man with kite {i}."} for i in range(COUNT)]
    (root / "annotations").mkdir()
    document = json.dumps({"images": images, "annotations": captions})
    (root / "annotations" / "captions_val2017.json").write_text(document)
    people = {
        "id": range(COUNT),
        "bb_gender": alternate("Male", "Female"),
        "bb_skin": alternate("Light", "Light", "Dark"),
    }
    pd.DataFrame(people).to_csv(root / "images_val2014.csv", index=False)
    asked = ["--task", "retrieval", "--group-columns", "gender"]
    return ["coco2017", "--root", root, *asked]


def facet(root: Path) -> list:
    """Two classes, just large enough for the paper's rule; the photographs are not here."""
    people = 2 * SMALLEST_CLASS
    masculine = [i % 2 for i in range(people)]
    table = {
        "person_id": range(people),
        "filename": [f"sa_{i}.jpg" for i in range(people)],
        "class1": ["lawman"] * SMALLEST_CLASS + ["nurse"] * SMALLEST_CLASS,
        "bounding_box": ['{"x": 4.4, "y": 5, "width": 10, "height": 12.2}'] * people,
        "gender_presentation_masc": masculine,
        "gender_presentation_fem": [1 - mark for mark in masculine],
        "gender_presentation_non_binary": 0,
        "gender_presentation_na": 0,
    }
    (root / "annotations").mkdir()
    pd.DataFrame(table).to_csv(root / "annotations" / "annotations.csv", index=False)
    rows = np.random.default_rng(0).standard_normal((people, embedded_model().dim))
    np.save(root / "rows.npy", rows.astype(np.float32))
    return ["facet", "--root", root, "--embeddings", root / "rows.npy"]


def table(suffix: str) -> Callable[[Path], list]:
    def make(root: Path) -> list:
        names = [f"photos/{i}.png" for i in range(COUNT)]
        pictures(root, names)
        columns = {"file": names, "job": alternate("doctor", "doctor", "nurse", "nurse")}
        frame = pd.DataFrame(columns | {"gender": alternate("male", "female")})
        path = root / f"people{suffix}"
        if suffix == ".parquet":
            frame.to_parquet(path)
        else:
            frame.to_csv(path, index=False, sep="\t" if ".tsv" in suffix else ",")
        return [path, "--label-column", "job", "--group-columns", "gender"]

    return make


def folder(root: Path) -> list:
    names = [f"{gender}/{i}.png" for i, gender in enumerate(alternate("male", "female"))]
    pictures(root / "people", names)
    by_folder = ["--group-columns", "label", "--attribute", "gender"]
    return [root / "people", *by_folder, *queries(root)]


def fiftyone(root: Path) -> list:
    names = [f"data/{i}.png" for i in range(COUNT)]
    pictures(root, names)
    samples = [
        {
            "_id": {"$oid": f"{i:024x}"},
            "filepath": name,
            "_media_type": "image",
            "ground_truth": {"_cls": "Classification", "label": job},
            "gender": gender,
        }
        for i, (name, job, gender) in enumerate(
            zip(
                names,
                alternate("doctor", "doctor", "nurse", "nurse"),
                alternate("male", "female"),
                strict=True,
            )
        )
    ]
    (root / "samples.json").write_text(json.dumps({"samples": samples}))
    columns = ["--label-column", "ground_truth", "--group-columns", "gender"]
    return ["fiftyone", "--root", root, *columns]


TABLES = {suffix: table(suffix) for suffix in (".csv", ".tsv", ".parquet", ".csv.gz")}
READERS: dict[str, Callable[[Path], list]] = {
    "celeba": celeba,
    "facet": facet,
    "flickr30k": flickr30k,
    "coco2017": coco2017,
    "fairface": fairface,
    "utkface": utkface,
    "waterbirds": waterbirds,
    "fiftyone": fiftyone,
    "folder": folder,
    **TABLES,
}


@pytest.mark.parametrize("name", READERS)
def test_a_dataset_is_evaluated_on_the_command_line(name, tmp_path, capsys):
    out = tmp_path / "run.json"
    arguments = READERS[name](tmp_path)
    status = typed("evaluate", *arguments, *QUICK, "--out", out)
    assert status == 0, capsys.readouterr().err
    run = json.loads(out.read_text())
    expected = 2 * SMALLEST_CLASS if name == "facet" else COUNT
    assert run["counts"]["images"] == expected
    assert sum(run["counts"]["groups"].values()) == expected
    assert {row["method"] for row in run["rows"]} == {"none", "closed-form"}


def test_every_known_dataset_is_among_them():
    assert set(KNOWN) <= set(READERS)
