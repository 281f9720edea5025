"""Dataset readers: published counts on the real annotation files, layouts, what is dropped and why, and clear errors."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import equipoise as eq
from equipoise.datasets import _files as files
from equipoise.errors import InputError
from equipoise.prompts import _nine_words as nine_words
from tests.helpers.common import component, shared_data


def picture(path: Path, size=(40, 30), color=(200, 100, 50)) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, color).save(path)
    return path


def annotation(name: str, folder: Path, target: str | None = None) -> Path:
    """A real annotation file at the place where its distribution has it."""
    source = shared_data(f"annotations/{name}")
    path = folder / (target or source.name)
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, path)
    return path


# CelebA


@pytest.fixture(scope="module")
def celeba_root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("celeba")
    annotation("list_attr_celeba.txt.gz", folder, "Anno/list_attr_celeba.txt.gz")
    annotation("list_eval_partition.txt.gz", folder, "Eval/list_eval_partition.txt.gz")
    return folder


def test_celeba_has_the_published_counts(celeba_root):
    data = eq.datasets.celeba(celeba_root, on_missing="keep")
    assert data.kept == 39_829 and data.dropped == {"in no split": 0, "in another split": 162_770}
    assert data.table["split"].value_counts().to_dict() == {"val": 19_867, "test": 19_962}
    assert data.groups == ("gender", "age") and set(data.table["label"]) == {"blond", "non-blond"}
    assert set(data.table["gender"]) == {"male", "female"} and set(data.table["age"]) == {
        "young",
        "old",
    }
    _, names, *lines = files.text(celeba_root / "Anno/list_attr_celeba.txt.gz").splitlines()
    raw = dict(
        zip(
            names.split(),
            next(line for line in lines if line.startswith("182640")).split()[1:],
            strict=True,
        )
    )
    row = data.table[data.table["path"].str.endswith("182640.jpg")].iloc[0]
    assert (row["label"] == "blond") == (raw["Blond_Hair"] == "1") and (
        row["gender"] == "male"
    ) == (raw["Male"] == "1")
    assert (row["age"] == "young") == (raw["Young"] == "1")


def test_celeba_as_csv_with_images(tmp_path):
    attributes = pd.DataFrame(
        {
            "image_id": ["1.jpg", "2.jpg", "3.jpg"],
            "Blond_Hair": [1, -1, -1],
            "Male": [1, -1, -1],
            "Young": [-1, 1, 1],
        }
    )
    attributes.assign(Smiling=[1, 1, -1]).to_csv(tmp_path / "list_attr_celeba.csv", index=False)
    pd.DataFrame({"image_id": ["1.jpg", "2.jpg", "3.jpg"], "partition": [1, 2, 0]}).to_csv(
        tmp_path / "list_eval_partition.csv", index=False
    )
    first = picture(tmp_path / "img_align_celeba" / "img_align_celeba" / "1.jpg")
    with pytest.raises(InputError, match=r"1 of 2 images are missing, first .*2\.jpg.*on_missing"):
        eq.datasets.celeba(tmp_path)
    data = eq.datasets.celeba(tmp_path, on_missing="drop")
    assert data.table.to_dict("records") == [
        {"path": str(first), "label": "blond", "gender": "male", "age": "old", "split": "val"}
    ]
    assert data.dropped == {"in no split": 0, "in another split": 1, "image file missing": 1}
    assert str(data) == "CelebA: 1 rows kept; dropped: 1 in another split, 1 image file missing"
    smiling = eq.datasets.celeba(
        tmp_path, label="Smiling", splits=("train", "test"), on_missing="keep"
    )
    assert smiling.table["label"].tolist() == ["Smiling", "not Smiling"]


def test_celeba_says_what_is_wrong(tmp_path, celeba_root):
    for call, says in (
        (lambda: eq.datasets.celeba(tmp_path / "nowhere"), "is not a folder.*Download"),
        (lambda: eq.datasets.celeba(tmp_path), "list_attr_celeba.txt.*Download"),
        (lambda: eq.datasets.celeba(celeba_root, label="Hat"), "Wearing_Hat"),
        (lambda: eq.datasets.celeba(celeba_root, splits=("dev",)), "train, val, test"),
        (lambda: eq.datasets.celeba(celeba_root, splits="val"), "tuple"),
        (lambda: eq.datasets.celeba(celeba_root, on_missing="ignore"), "raise, drop, keep"),
    ):
        with pytest.raises(InputError, match=says):
            call()
    (tmp_path / "list_attr_celeba.txt").write_text("5\nMale Young Blond_Hair\n1.jpg 1 1 1\n")
    (tmp_path / "list_eval_partition.txt").write_text("1.jpg 1\n")
    with pytest.raises(InputError, match="says it has '5' images and has 1"):
        eq.datasets.celeba(tmp_path)
    (tmp_path / "list_attr_celeba.txt").write_text("1\nMale Young Blond_Hair\n1.jpg 1 1 7\n")
    with pytest.raises(InputError, match="Blond_Hair holds \\[7\\]"):
        eq.datasets.celeba(tmp_path, on_missing="keep")
    (tmp_path / "list_eval_partition.txt").write_text("1.jpg 1\n1.jpg 2\n")
    with pytest.raises(InputError, match=r"1 rows of images that it had before, first 1\.jpg"):
        eq.datasets.celeba(tmp_path, on_missing="keep")


# FairFace, UTKFace, Waterbirds


def test_fairface_has_the_published_counts(tmp_path):
    for split in ("train", "val"):
        annotation(f"fairface_label_{split}.csv.gz", tmp_path)
    both = eq.datasets.fairface(tmp_path, splits=("train", "val"), on_missing="keep")
    assert both.table["split"].value_counts().to_dict() == {"train": 86_744, "val": 10_954}
    assert (
        set(both.table["gender"]) == {"male", "female"}
        and both.table["age"].nunique() == 9
        and both.table["race"].nunique() == 7
    )
    picture(tmp_path / "val" / "1.jpg")
    real = eq.datasets.fairface(tmp_path, on_missing="drop")
    assert real.kept == 1 and real.dropped == {"image file missing": 10_953}
    assert real.table.iloc[0][["gender", "age", "race"]].tolist() == ["male", "3-9", "East Asian"]


def test_utkface_reads_names_and_counts_bad_ones(tmp_path):
    picture(tmp_path / "25_0_1_20170116174525125.jpg.chip.jpg")
    picture(tmp_path / "part2" / "61_1_4_20170109142408075.jpg")
    picture(
        tmp_path / "39_1_20170116174525125.jpg.chip.jpg"
    )  # one of three of the distribution that lack a part
    data = eq.datasets.utkface(tmp_path)
    assert data.table[["years", "gender", "race"]].to_numpy().tolist() == [
        [25, "male", "Black"],
        [61, "female", "Others"],
    ]
    assert list(data.dropped.values()) == [1, 0]
    with pytest.raises(InputError, match="no jpg"):
        (tmp_path / "empty").mkdir()
        eq.datasets.utkface(tmp_path / "empty")


def test_waterbirds_has_the_published_counts(tmp_path):
    annotation("waterbirds_metadata.csv.gz", tmp_path, "metadata.csv.gz")
    data = eq.datasets.waterbirds(tmp_path, splits=("train", "val", "test"), on_missing="keep")
    assert data.kept == 11_788
    assert data.table["split"].value_counts().to_dict() == {
        "train": 4_795,
        "val": 1_199,
        "test": 5_794,
    }
    train = (
        data.table[data.table["split"] == "train"].groupby(["label", "background"]).size().to_dict()
    )
    assert train == {
        ("landbird", "land"): 3_498,
        ("landbird", "water"): 184,
        ("waterbird", "land"): 56,
        ("waterbird", "water"): 1_057,
    }
    assert eq.datasets.waterbirds(tmp_path, on_missing="keep").dropped == {
        "in another split": 5_994
    }


# FACET


def facet_folder(folder: Path, people: list[tuple[str, str, str]]) -> Path:
    """people: class, marks out of m, f, n, u, file name."""
    marks = {"m": "masc", "f": "fem", "n": "non_binary", "u": "na"}
    rows = []
    for i, (label, given, name) in enumerate(people):
        row = {
            "person_id": i,
            "filename": name,
            "class1": label,
            "class2": "",
            "bounding_box": json.dumps(
                {"x": 4.4, "y": 5, "width": 10, "height": 12.2, "dict_attributes": {}}
            ),
        }
        rows.append(
            row
            | {f"gender_presentation_{word}": int(mark in given) for mark, word in marks.items()}
        )
    (folder / "annotations").mkdir()
    pd.DataFrame(rows).to_csv(folder / "annotations" / "annotations.csv", index=False)
    return folder


def test_facet_drops_in_the_papers_order(tmp_path):
    """Nurses are four before the unsure are dropped and two after, so a threshold of three drops the class."""
    people = (
        [("lawman", "m", "a.jpg")] * 3
        + [("nurse", "f", "b.jpg")] * 2
        + [
            ("nurse", "u", "b.jpg"),
            ("nurse", "n", "b.jpg"),
            ("nurse", "mf", "b.jpg"),
            ("nurse", "", "b.jpg"),
        ]
    )
    data = eq.datasets.facet(facet_folder(tmp_path, people), smallest_class=3, on_missing="keep")
    assert data.table["label"].tolist() == ["lawman"] * 3 and set(data.table["gender"]) == {"male"}
    assert list(data.dropped.items()) == [
        ("of unsure gender presentation", 2),
        ("of non-binary gender presentation", 1),
        ("marked both male and female", 1),
        ("of a class with fewer than 3 people", 2),
    ]
    assert data.table["box"].iloc[0] == (4.4, 5, 10, 12.2)


def test_facet_crops(tmp_path):
    root = facet_folder(
        tmp_path, [("lawman", "m", "a.jpg"), ("lawman", "f", "b.jpg"), ("lawman", "f", "c.jpg")]
    )
    picture(root / "imgs_1" / "a.jpg")
    picture(root / "imgs_2" / "b.jpg", size=(12, 14))
    (root / "imgs_2" / "c.jpg").write_bytes(b"no image")
    data = eq.datasets.write_crops(eq.datasets.facet(root, smallest_class=1), tmp_path / "crops")
    assert (
        data.kept == 2 and data.dropped["photograph unreadable"] == 1 and data.groups == ("gender",)
    )
    sizes = [Image.open(path).size for path in data.table["path"]]
    assert sizes == [(10, 12), (8, 9)], "a box is cut at the edge of its photograph"
    stamps = [Path(path).stat().st_mtime_ns for path in data.table["path"]]
    again = eq.datasets.write_crops(eq.datasets.facet(root, smallest_class=1), tmp_path / "crops")
    assert [Path(path).stat().st_mtime_ns for path in again.table["path"]] == stamps, (
        "crops that are there are not made again"
    )


# Captions


def test_gender_words_are_whole_words():
    assert nine_words.gender_of("A woman walks") == "female", "woman holds man"
    assert nine_words.gender_of("A MAN, and a boy.") == "male"
    assert nine_words.gender_of("A man and a woman") == "both"
    assert nine_words.gender_of("Men and women at a table, her manual") == "none", (
        "the paper's nine words are singular"
    )
    assert (
        nine_words.without_gender("Woman with a female dog; a man-made guy.")
        == "Person with a person dog; a person-made person."
    )


@pytest.mark.parametrize("caption", ["Woman with a dog", "A LADY and a guy.", "the boy"])
def test_readers_and_neutralize_write_the_same_words(caption):
    assert nine_words.without_gender(caption) == eq.neutralize(caption, protocol="paper")
    capitals = [letter.isupper() for letter in (caption[0], nine_words.without_gender(caption)[0])]
    assert capitals[0] == capitals[1]


def flickr_tokens(folder: Path) -> Path:
    """The real captions of Flickr30K in its own token layout."""
    lines = []
    for part in ("train", "val", "test_2016"):
        names = shared_data(f"annotations/flickr30k/{part}_images.txt").read_text().split()
        texts = [
            files.text(shared_data(f"annotations/flickr30k/{part}.{i}.en.gz")).splitlines()
            for i in range(1, 6)
        ]
        lines += [f"{name}#{i}\t{texts[i][j]}" for j, name in enumerate(names) for i in range(5)]
    (folder / "results_20130124.token").write_text("\n".join(lines), encoding="utf-8")
    return folder


def test_flickr30k_on_the_real_captions(tmp_path):
    root = flickr_tokens(tmp_path)
    data = eq.datasets.flickr30k(root, one_person=None, on_missing="keep")
    assert data.kept + sum(data.dropped.values()) == 5 * 31_014
    male, female = (
        re.compile(r"(?i)\b(man|boy|gentleman|guy|male)\b"),
        re.compile(r"(?i)\b(woman|girl|lady|female)\b"),
    )
    for row in data.table.sample(500, random_state=0).itertuples():
        assert bool(male.search(row.caption)) == (row.gender == "male") and bool(
            female.search(row.caption)
        ) == (row.gender == "female")
        assert (
            "person" in row.query.lower()
            and not male.search(row.query)
            and not female.search(row.query)
        )
    assert (data.table.groupby("image")["gender"].nunique() == 1).all()
    few = data.table["image"].unique()[:10]
    chosen = eq.datasets.flickr30k(root, one_person=few, on_missing="keep")
    assert set(chosen.table["image"]) == set(few)
    (tmp_path / "one.txt").write_text("\n".join(few))
    assert eq.datasets.flickr30k(
        root, one_person=tmp_path / "one.txt", on_missing="keep"
    ).table.equals(chosen.table)


def test_flickr30k_as_karpathy_json(tmp_path):
    entries = [{"filename": "1.jpg", "sentences": [{"raw": "A man runs."}, {"raw": "Running."}]}, {"filename": "2.jpg", "sentences": [{"raw": "A lady and a guy."}]},
               {"filename": "3.jpg", "sentences": [{"raw": "A girl."}, {"raw": "A boy."}]}]  # fmt: skip
    (tmp_path / "dataset_flickr30k.json").write_text(json.dumps({"images": entries}))
    path = picture(tmp_path / "flickr30k-images" / "1.jpg")
    data = eq.datasets.flickr30k(tmp_path, one_person=None)
    assert data.table[["path", "query", "gender"]].to_numpy().tolist() == [
        [str(path), "A person runs.", "male"]
    ]
    assert data.dropped == {
        "captions without a gender word": 1,
        "captions with words of both genders": 1,
        "captions of images whose captions disagree": 2,
        "image file missing": 0,
    }


def test_files_that_a_windows_program_wrote(tmp_path):
    """A byte-order mark, two bytes at the end of a line, a space after a name: no image may get lost."""
    mark = "\ufeff".encode()
    (tmp_path / "results_20130124.token").write_bytes(
        mark + "1.jpg#0\tA man\x0bruns.\r\n2.jpg#0\tA lady\u2028runs.\r\n".encode()
    )
    (tmp_path / "one.txt").write_bytes(mark + b"1.jpg\r\n2.jpg \r\n")
    data = eq.datasets.flickr30k(tmp_path, one_person=tmp_path / "one.txt", on_missing="keep")
    assert data.table["image"].tolist() == ["1.jpg", "2.jpg"] and data.table["gender"].tolist() == [
        "male",
        "female",
    ]
    (tmp_path / "list_attr_celeba.txt").write_bytes(
        mark + b"1\r\nMale Young Blond_Hair \r\n1.jpg 1 1 1\r\n"
    )
    (tmp_path / "list_eval_partition.txt").write_bytes(mark + b"1.jpg 1\r\n")
    assert eq.datasets.celeba(tmp_path, on_missing="keep").table["split"].tolist() == ["val"]


def test_caption_files_that_are_not(tmp_path):
    (tmp_path / "results_20130124.token").write_text("no tab here\n")
    with pytest.raises(InputError, match="not a token file"):
        eq.datasets.flickr30k(tmp_path, one_person=None)
    (tmp_path / "results_20130124.token").unlink()
    (tmp_path / "dataset_flickr30k.json").write_text("[1]")
    with pytest.raises(InputError, match="Karpathy"):
        eq.datasets.flickr30k(tmp_path, one_person=None)
    with pytest.raises(InputError, match="one_person"):
        (tmp_path / "dataset_flickr30k.json").write_text(
            '{"images": [{"filename": "1.jpg", "sentences": [{"raw": "A man."}]}]}'
        )
        eq.datasets.flickr30k(tmp_path, one_person="nowhere.txt")


def test_coco_on_the_real_captions(tmp_path):
    annotation("coco_captions_val2017.json.gz", tmp_path, "annotations/captions_val2017.json.gz")
    document = json.loads(files.text(tmp_path / "annotations/captions_val2017.json.gz"))
    ids = [image["id"] for image in document["images"]][:6]
    labels = [
        ("Male", "Light"),
        ("Female", "Dark"),
        ("Unsure", "Light"),
        ("Male", "Unsure"),
        ("Both", "Light"),
        ("Female", "Both"),
    ]
    rows = [
        {"id": i, "split": "val", "bb_gender": g, "bb_skin": s}
        for i, (g, s) in zip(ids, labels, strict=True)
    ]
    pd.DataFrame([*rows, {"id": 1, "split": "val", "bb_gender": "Male", "bb_skin": "Dark"}]).to_csv(
        tmp_path / "images_val2014.csv", index=False
    )
    data = eq.datasets.coco2017(tmp_path, on_missing="keep")
    expected = {
        i: [a["caption"].strip() for a in document["annotations"] if a["image_id"] == i]
        for i in ids[:2]
    }
    assert data.table.groupby("image")["caption"].apply(list).to_dict() == expected
    assert data.table.groupby("image")[["gender", "skin_tone"]].first().to_numpy().tolist() == [
        {ids[0]: ["male", "light"], ids[1]: ["female", "dark"]}[i] for i in sorted(ids[:2])
    ]
    assert data.dropped == {
        "images of unsure gender": 1,
        "images of more than one gender": 1,
        "images of unsure skin tone": 1,
        "images of more than one skin tone": 1,
        "images without captions": 1,
    }
    assert Path(data.table["path"].iloc[0]).parent.name == "val2017"
    assert eq.datasets.coco2017(tmp_path, captions_per_image=1, on_missing="keep").kept == 2
    with pytest.raises(InputError, match="10 of 10 images are missing"):
        eq.datasets.coco2017(tmp_path)
    pd.DataFrame(rows[:2] * 2).to_csv(tmp_path / "images_val2014.csv", index=False)
    with pytest.raises(InputError, match=f"2 rows of images that it had before, first {ids[0]}"):
        eq.datasets.coco2017(tmp_path, on_missing="keep")


# Your own


def test_a_table_that_a_new_user_wrote(tmp_path):
    for name in ("a.jpg", "b.png", "c.jpg"):
        picture(tmp_path / "photos" / name)
    (tmp_path / "people.csv").write_text(
        "image,job,sex,age\na.jpg,doctor,woman,old\nb.png,nurse,,young\nc.jpg,doctor,man,young\nd.jpg,nurse,man,old\n,nurse,man,old\n"
    )
    options = {
        "images": tmp_path / "photos",
        "label_column": "job",
        "group_columns": ["sex", "age"],
    }
    with pytest.raises(InputError, match=r"1 of 4 images.*d\.jpg"):
        eq.datasets.table(tmp_path / "people.csv", **options)
    data = eq.datasets.table(tmp_path / "people.csv", on_missing="drop", **options)
    assert data.kept == 3 and data.dropped == {
        "rows without a file name": 1,
        "image file missing": 1,
    }
    assert data.groups == ("sex", "age") and list(data.table.columns) == [
        "path",
        "label",
        "sex",
        "age",
    ]
    cells = eq.metrics.Cells.count(
        data.table["label"], data.table["label"], sensitive_features=data.table[list(data.groups)]
    )
    assert cells.groups == ("man & young", "woman & old") and cells.left_out == 1
    data.table.to_parquet(tmp_path / "people.parquet")
    same = eq.datasets.table(
        tmp_path / "people.parquet", label_column="label", group_columns=["sex", "age"]
    )
    pd.testing.assert_frame_equal(same.table, data.table, check_dtype=False)


def test_numbers_in_a_table_stay_what_they_are(tmp_path):
    (tmp_path / "t.tsv").write_text("name\tclass\tsex\n007\t1\t2\n012\t0\t\n")
    data = eq.datasets.table(
        tmp_path / "t.tsv", label_column="class", group_columns=["sex"], on_missing="keep"
    )
    assert [Path(path).name for path in data.table["path"]] == ["007", "012"]
    cells = eq.metrics.Cells.count(
        data.table["label"], [1, 0], sensitive_features=data.table["sex"]
    )
    assert cells.groups == (2,) and cells.left_out == 1 and cells.accuracy() == 1


def test_table_says_what_is_wrong(tmp_path):
    (tmp_path / "t.csv").write_text("picture,job\na.jpg,doctor\n")
    read = lambda **kw: eq.datasets.table(tmp_path / "t.csv", **kw)  # noqa: E731
    for options, says in (
        ({}, "name it with `path_column`"),
        ({"path_column": "picture", "label_column": "work"}, "no column work; it has picture, job"),
        ({"path_column": "picture", "group_columns": "job"}, "is a string"),
    ):
        with pytest.raises(InputError, match=says):
            read(**options)
    for name, says in (
        ("none.csv", "not a file"),
        ("t.xlsx", "unknown kind"),
        ("t.parquet", "cannot be read as parquet"),
    ):
        if name != "none.csv":
            (tmp_path / name).write_text("x")
        with pytest.raises(InputError, match=says):
            eq.datasets.table(tmp_path / name)
    (tmp_path / "commas.csv").write_text("path,gender\na.jpg,male,\nb.jpg,female,\n")
    with pytest.raises(
        InputError, match="more fields than its header names"
    ):  # a.jpg would be a row's name, and male its path
        eq.datasets.table(tmp_path / "commas.csv", group_columns=["gender"], on_missing="keep")
    (tmp_path / "old.csv").write_bytes("path,gender\né.jpg,male\n".encode("latin-1"))
    with pytest.raises(InputError, match="save it as UTF-8"):
        eq.datasets.table(tmp_path / "old.csv", group_columns=["gender"])
    (tmp_path / "empty.csv").write_text("")
    with pytest.raises(InputError, match="cannot be read as csv"):
        eq.datasets.table(tmp_path / "empty.csv")


def test_a_folder_of_folders(tmp_path):
    for name in ("doctor/a.jpg", "doctor/b.JPG", "nurse/c.png", "d.jpg"):
        picture(tmp_path / name)
    (tmp_path / "notes.txt").write_text("x")
    data = eq.datasets.folder(tmp_path)
    assert sorted(data.table["label"]) == ["", "doctor", "doctor", "nurse"] and data.dropped == {
        "files that are no images": 1
    }
    with pytest.raises(InputError, match="holds no images"):
        (tmp_path / "only").mkdir()
        (tmp_path / "only" / "x.txt").write_text("x")
        eq.datasets.folder(tmp_path / "only")


# One person


def test_one_person_by_a_real_detector(tmp_path):
    """A YOLOS of random weights, the real architecture and processor: its counts are those of running it by hand, and a run goes on."""
    torch, transformers = component("torch"), component("transformers")
    torch.manual_seed(0)
    config = transformers.YolosConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, image_size=[64, 64], patch_size=16,
        num_detection_tokens=5, num_labels=3, id2label={0: "dog", 1: "person", 2: "car"}, label2id={"dog": 0, "person": 1, "car": 2},
        initializer_range=1.0,
    )  # fmt: skip
    model = transformers.YolosForObjectDetection(config).eval()
    with torch.no_grad():
        for layer in model.class_labels_classifier.layers:
            torch.nn.init.normal_(layer.weight, std=0.5)
    model.save_pretrained(tmp_path / "model")
    processor = transformers.YolosImageProcessor(size={"height": 64, "width": 64})
    processor.save_pretrained(tmp_path / "model")
    rng = np.random.default_rng(0)
    paths = []
    for i in range(12):
        path = tmp_path / f"{i}.png"
        Image.fromarray(rng.integers(0, 255, (50, 70, 3), dtype=np.uint8)).save(path)
        paths.append(path)
    (tmp_path / "broken.png").write_bytes(b"nothing")
    expected, counts = [], []
    for path in paths:
        inputs = processor(images=Image.open(path), return_tensors="pt")
        with torch.no_grad():
            (found,) = processor.post_process_object_detection(
                model(**inputs), threshold=0.4, target_sizes=[(50, 70)]
            )
        counts.append(int((found["labels"] == 1).sum()))
        expected += [path.name] if counts[-1] == 1 else []

    def run(paths, **kw):
        return eq.datasets.one_person_images(
            paths, detector=str(tmp_path / "model"), threshold=0.4, batch=5, **kw
        )

    seen = []
    assert (
        run(
            [*paths, tmp_path / "broken.png"],
            cache=tmp_path / "counts.json",
            progress=lambda done, of: seen.append((done, of)),
        )
        == expected
    )
    assert seen == [(5, 13), (10, 13), (13, 13)] and len(set(counts)) > 1, (
        "the detector must tell the pictures apart for this to mean anything"
    )
    shutil.rmtree(tmp_path / "model")
    assert run(paths, cache=tmp_path / "counts.json") == expected, (
        "all counts are kept; no model is needed"
    )
    with pytest.raises(InputError, match="was made by"):
        eq.datasets.one_person_images(paths, detector="other", cache=tmp_path / "counts.json")
    with pytest.raises(InputError, match="the same name"):
        run([paths[0], tmp_path / "elsewhere" / paths[0].name], cache=tmp_path / "counts.json")
    with pytest.raises(InputError, match="cannot be loaded"):
        run(paths)
