"""The gallery of people who do not exist: how its files are made and checked, what an audit opens with, and what is shipped."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from html import unescape

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import equipoise as eq
from equipoise._audit.embedded_gallery import judged
from equipoise.report import _number_format as numbers
from tests.helpers.audits import saved
from tests.helpers.common import ROOT, component, embedded_file, embedded_model, typed
from tests.helpers.pages import visible

COLUMNS = ["name", "image", "prompt", "seed", "kind", "gender", "age", "race", "gender_probability"]
RACES = [
    "White",
    "Black",
    "Latino_Hispanic",
    "East Asian",
    "Southeast Asian",
    "Indian",
    "Middle Eastern",
]
CLASSIFIER = {
    "gender": {"accuracy": 0.884, "n": 5000},
    "gender of close-ups": {"accuracy": 0.708, "n": 154},
    "gender from afar": {"accuracy": 0.659, "n": 458},
    "age": {"accuracy": 0.545, "n": 5000},
    "race": {"accuracy": 0.629, "n": 4321},
}


def jpeg(pixels: np.ndarray) -> bytes:
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "JPEG", quality=88)
    return out.getvalue()


def blots(n: int = 140, side: int = 64) -> pd.DataFrame:
    """What training.gallery writes, with blots in place of people."""
    rng = np.random.default_rng(0)
    coarse = [Image.fromarray(rng.integers(0, 255, (4, 4, 3), dtype=np.uint8)) for _ in range(n)]
    pictures = [
        jpeg(np.asarray(picture.resize((side, side), Image.Resampling.BICUBIC)))
        for picture in coarse
    ]
    columns = {
        "name": [f"{i:05d}" for i in range(n)],
        "image": pictures,
        "prompt": ["a photo of a doctor"] * n,
        "seed": range(n),
    }
    seen = {
        "kind": ["portrait", "at work"] * (n // 2),
        "gender": ["male", "female"] * (n // 2),
        "age": ["20-29"] * n,
    }
    return pd.DataFrame(columns | seen | {"race": (RACES * n)[:n], "gender_probability": [0.9] * n})


def exported(table: pd.DataFrame, work, folder) -> subprocess.CompletedProcess:
    """Stage 11, as it is typed."""
    table.to_parquet(work / "drawn.parquet", compression=None, index=False)
    figures = {"drawn": 200, "kept": len(table), "classifier": CLASSIFIER}
    (work / "drawn.json").write_text(json.dumps(figures))
    command = [
        "-m",
        "training.export_gallery",
        "--gallery",
        str(work / "drawn.parquet"),
        "--folder",
        str(folder),
    ]
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'mini'}:{ROOT / 'mini' / 'src'}"}
    return subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, check=False, env=environment
    )


@pytest.fixture(scope="module")
def package():
    return component("equipoise_mini")


@pytest.fixture(scope="module")
def bare(package, tmp_path_factory):
    """The encoder's files alone."""
    embedded_model()
    folder = tmp_path_factory.mktemp("bare")
    for name in (
        "encoder.json",
        "image.onnx",
        "text.onnx",
        "tokenizer.json",
        "weights.safetensors",
    ):
        (folder / name).symlink_to(package.FOLDER / name)
    return folder


@pytest.fixture(scope="module")
def stand_in(bare, tmp_path_factory):
    """The encoder's files, and a gallery of blots."""
    folder = tmp_path_factory.mktemp("stand_in")
    for file in bare.iterdir():
        (folder / file.name).symlink_to(file.resolve())
    made = exported(blots(), tmp_path_factory.mktemp("work"), folder)
    assert made.returncode == 0, made.stderr
    return folder


def audit(*arguments) -> int:
    """Run ``equipoise audit`` in this process; the exit code."""
    return typed("audit", *arguments)


QUICK = ("--resamples", "20", "--workers", "0")


# --- The files ---------------------------------------------------------------------------------------------------------------


def test_what_is_exported_is_found_with_the_classifiers_error(package, stand_in, monkeypatch):
    monkeypatch.setattr(package, "FOLDER", stand_in)
    table, figures = package.gallery()
    assert list(pd.read_parquet(table).columns) == COLUMNS
    assert figures == {"drawn": 200, "kept": 140, "classifier": CLASSIFIER}


@pytest.mark.parametrize("name", ["gallery.parquet", "gallery.json"])
def test_a_damaged_file_is_named(package, bare, monkeypatch, tmp_path, capsys, name):
    folder, work = tmp_path / "model", tmp_path / "work"
    folder.mkdir()
    work.mkdir()
    assert exported(blots(), work, folder).returncode == 0
    data = bytearray((folder / name).read_bytes())
    data[-7] ^= 1
    (folder / name).write_bytes(data)
    monkeypatch.setattr(package, "FOLDER", folder)
    with pytest.raises(ValueError, match=f"{re.escape(name)} is damaged"):
        package.gallery()
    assert audit(
        "--out", tmp_path / "out"
    ) == 2 and f"{name} is damaged" in capsys.readouterr().err.replace("\n", "")
    (folder / "checksums.json").write_text("{")
    with pytest.raises(ValueError, match=r"checksums\.json cannot be read"):
        package.gallery()


@pytest.mark.parametrize(
    ("table", "told"),
    [(blots(side=32), "not 64 x 64"), (blots().drop(columns="seed"), "needs the columns")],
)
def test_a_gallery_that_is_not_whole_is_not_exported(tmp_path, table, told):
    (tmp_path / "model").mkdir()
    made = exported(table, tmp_path, tmp_path / "model")
    assert made.returncode == 1 and told in made.stderr and not list((tmp_path / "model").iterdir())


# --- The audit ---------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def audited(package, stand_in, tmp_path_factory):
    """``equipoise audit`` as a newcomer types it; its folder."""
    out = tmp_path_factory.mktemp("out") / "audit"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(package, "FOLDER", stand_in)
        assert audit("--out", out, *QUICK) == 0
    return out


def test_an_audit_opens_with_the_gallery(audited):
    results, pictures = saved(audited)
    images = results["subject"]["images"]
    assert (
        images["n"] == 140
        and images["name"] == "the gallery of equipoise-mini"
        and images["generated"] == CLASSIFIER
    )
    assert results["subject"]["groups_from"] == "classifier" and results["subject"][
        "group_columns"
    ] == ["gender"]
    assert {one["group"]: one["n"] for one in images["groups"]} == {"male": 70, "female": 70}
    assert results["gallery"]["prompts"] and pictures.small
    small = Image.open(io.BytesIO(next(iter(pictures.small.values()))))
    assert small.size == (64, 64)


@pytest.mark.parametrize("file", ["report.html", "model-card.md"])
def test_the_report_says_that_nobody_exists_and_how_far_the_classifier_errs(audited, file):
    text = re.sub(r"<[^>]+>", "", (audited / file).read_text())
    assert "people in these pictures do not exist" in text and "docs/gallery.md" in text
    assert (
        "as an independent classifier perceives them, which on real photographs agrees with annotators for"
        in text
    )
    assert (
        "88.4 % of 5,000 (gender), 70.8 % of 154 (gender of close-ups) and 65.9 % of 458 (gender from afar)."
        in text
    )
    assert "no sample of any people" in text


def test_its_numbers_are_those_of_the_results(audited):
    results, _ = saved(audited)
    spans, rest = visible((audited / "report.html").read_text())
    assert "subject.images.generated.gender.accuracy" in {path for path, _, _ in spans}
    for path, form, shown in spans:
        assert unescape(shown) == numbers.text(numbers.at(results, path), form), path
    rest = unescape(rest)
    for word in ("95 in 100", *results["notes"]):
        rest = rest.replace(word, "")
    assert [line.strip() for line in rest.splitlines() if re.search(r"\d", line)] == []


def test_the_terminal_says_it_too(package, stand_in, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(package, "FOLDER", stand_in)
    assert audit("--out", tmp_path / "a", *QUICK, "--method", "none") == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "do not exist" in told and "88.4 % of 5,000 (gender)" in told and "{" not in told


def test_groups_of_another_attribute(package, stand_in, monkeypatch, tmp_path):
    """Race has a column; age is asked of the model itself, because the classifier's ranges are not young and old."""
    monkeypatch.setattr(package, "FOLDER", stand_in)
    (tmp_path / "jobs.txt").write_text("a photo of a doctor\na photo of a nurse")
    asked = (
        "-a",
        "race",
        "--prompts",
        tmp_path / "jobs.txt",
        "--book",
        "grammar",
        "--method",
        "none",
    )
    assert audit("--out", tmp_path / "a", *QUICK, *asked) == 0
    results, _ = saved(tmp_path / "a")
    assert (
        results["subject"]["groups_from"] == "classifier"
        and len(results["subject"]["images"]["groups"]) == 7
    )
    assert "62.9 %" in (tmp_path / "a" / "report.html").read_text()
    race, gender = eq.Attribute.load("race"), eq.Attribute.load("gender")
    assert judged(gender & race) == ("gender", "race") and judged(eq.Attribute.load("age")) == ()


def test_texts_only_and_the_gallery_for_another_model(package, stand_in, monkeypatch, tmp_path):
    monkeypatch.setattr(package, "FOLDER", stand_in)
    monkeypatch.chdir(tmp_path)
    assert audit("--out", "texts", *QUICK, "none", "--method", "none") == 0
    assert saved(tmp_path / "texts")[0]["subject"]["images"] is None
    other = ("--model", f"onnx:{stand_in}", *QUICK, "--method", "none")
    assert audit("--out", "other", *other) == 0
    assert saved(tmp_path / "other")[0]["subject"]["groups_from"] == "text"
    assert audit("--out", "both", *other, "gallery") == 0
    assert saved(tmp_path / "both")[0]["subject"]["groups_from"] == "classifier"


def test_a_folder_of_that_name_is_a_folder(package, stand_in, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(package, "FOLDER", stand_in)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gallery").mkdir()
    assert audit("gallery", *QUICK) == 2 and "gallery holds no images" in capsys.readouterr().err


def test_where_no_gallery_is_shipped_texts_are_audited(
    package, bare, monkeypatch, tmp_path, capsys
):
    monkeypatch.setattr(package, "FOLDER", bare)
    assert audit("--out", tmp_path / "a", *QUICK, "--method", "none") == 0
    assert saved(tmp_path / "a")[0]["subject"]["groups_from"] == "text"
    assert (
        audit("--out", tmp_path / "b", "gallery") == 2
        and "there is no gallery here" in capsys.readouterr().err
    )
    assert (
        audit("--out", tmp_path / "b", "--group-columns", "gender") == 2
        and "pass IMAGES" in capsys.readouterr().err
    )


# --- What is shipped -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shipped(package):
    return embedded_file(package.gallery)


@pytest.fixture(scope="module")
def table(shipped):
    return pd.read_parquet(shipped.table)


def test_its_columns(table):
    assert list(table.columns) == COLUMNS and not table.isna().any(axis=None)
    assert (
        table["name"].is_unique and table["seed"].is_unique
    )  # no two pictures from the same noise
    assert set(table["kind"]) == {"portrait", "at work"} and set(table["gender"]) == {
        "male",
        "female",
    }
    assert (
        set(table["race"]) <= set(RACES) and table["gender_probability"].between(0.8, 1).all()
    )  # the rule of training/gallery.py
    assert 1200 <= len(table) <= 2500


def test_it_covers_looks_and_occupations(table):
    """Gender, age and looks as the prompts of portraits name them; thirty occupations."""
    asked = r"^a photo of an? (?:smiling )?(.+)$"
    portraits = table.loc[table["kind"] == "portrait", "prompt"].str.extract(asked)[0]
    assert portraits.nunique() == 2 * 3 * 7 and portraits.value_counts().min() >= 7
    occupation = r"^a photo of an? (?:smiling )?(?:young )?(?:(?:fe)?male )?(.+?)(?: with .*)?$"
    jobs = table.loc[table["kind"] == "at work", "prompt"].str.extract(occupation)[0]
    assert jobs.nunique() == 30 and jobs.value_counts().min() >= 3


def test_every_picture_opens(table):
    for name, data in zip(table["name"], table["image"], strict=True):
        picture = Image.open(io.BytesIO(data))
        picture.load()
        assert picture.format == "JPEG" and picture.size == (64, 64) and picture.mode == "RGB", name


def test_its_figures_say_how_it_was_sifted(table, shipped):
    figures = shipped.figures
    assert figures["kept"] == len(table) <= figures["drawn"]
    for name in (
        "pixels",
        "embedding",
    ):  # those nearer than the limit are left out, if there were any
        near = figures[f"nearest by {name}"]
        assert near["limit"] > 0 and (near["near-copies"] > 0) == (near["least"] < near["limit"])
    for column in ("gender", "age", "race"):
        assert (
            0 < figures["classifier"][column]["accuracy"] < 1
            and figures["classifier"][column]["n"] >= 1000
        )


def test_the_pages_quote_its_figures(shipped):
    for page in (ROOT / "docs" / "gallery.md", ROOT / "mini" / "README.md"):
        text = page.read_text()
        assert "TODO-LEAD" not in text, page.name
        for figure in (shipped.figures["kept"], shipped.figures["drawn"]):
            assert f"{figure:,}" in text, page.name
        assert f"{100 * shipped.figures['classifier']['gender']['accuracy']:.1f} %" in text, (
            page.name
        )


def test_the_pages_quote_what_was_measured_of_the_generator():
    found = json.loads((ROOT / "mini" / "generator.json").read_text())
    page, card = (
        (ROOT / "docs" / "gallery.md").read_text(),
        (ROOT / "mini" / "README.md").read_text(),
    )
    asked = found["asked"]
    for figure in (asked["gender"], asked["occupation"]):
        quoted = (
            f"{100 * figure['value']:.1f} % [{100 * figure['low']:.1f}, {100 * figure['high']:.1f}]"
        )
        assert quoted in page and quoted in card
    for prompts in ("at work", "by text alone"):
        for method in found[prompts]["methods"].values():
            sp = method["sp"]
            assert (
                f"| {100 * sp['value']:.1f} [{100 * sp['low']:.1f}, {100 * sp['high']:.1f}] |"
                in page
            )
            if "change" in sp:
                assert (
                    f"{100 * sp['change']['value']:+.1f} [{100 * sp['change']['low']:+.1f}, {100 * sp['change']['high']:+.1f}]"
                    in page
                )
    for name, figure in found["classifier"].items():
        assert re.search(
            rf"\| {name} \(\d+\) \| {100 * figure['accuracy']:.1f} % \| {figure['n']:,},", page
        ), name
    distance = f"{found['kernel distance']['drawn']:.4f}"
    assert distance in page and distance in card


@pytest.mark.slow
def test_a_prompt_and_its_seed_redraw_the_picture(package, shipped, table):
    """Up to what JPEG loses and the half precision that the gallery was drawn in, which by measurement is no more than as much again."""
    generator, encoder = embedded_file(package.generator), embedded_model()
    some = table.iloc[[0, len(table) // 2, len(table) - 1]]
    for prompt, seed, data, name in zip(
        some["prompt"], some["seed"], some["image"], some["name"], strict=True
    ):
        text = encoder.encode_text([prompt])
        picture = generator.sample(text, [seed], **shipped.drawn_with(seed))[0]
        there, compressed = (
            np.asarray(Image.open(io.BytesIO(file)), float) for file in (data, jpeg(picture))
        )
        lost = np.sqrt(((compressed - picture) ** 2).mean())
        assert np.sqrt(((there - picture) ** 2).mean()) < 3 * lost, name


@pytest.mark.slow
def test_the_picture_of_the_docs(browser, shipped, tmp_path):
    """Who comes first, in the report of ``equipoise audit``. Written to docs/pictures where EQUIPOISE_PICTURES is set."""
    assert audit("--out", tmp_path / "audit", *QUICK) == 0
    folder = ROOT / "docs" / "pictures" if os.environ.get("EQUIPOISE_PICTURES") else tmp_path
    tab = browser.new_page(viewport={"width": 1100, "height": 900})
    tab.goto((tmp_path / "audit" / "report.html").as_uri())
    first = tab.locator(".beside")
    first.locator("li img").first.wait_for()
    assert "do not exist" in tab.inner_text(".flag")
    box, edge = first.bounding_box(), 16
    clip = {"x": box["x"] - edge, "y": box["y"] - edge}
    clip |= {"width": box["width"] + 2 * edge, "height": box["height"] + 2 * edge}
    tab.screenshot(path=folder / "gallery-report.png", full_page=True, clip=clip)
    tab.close()
    Image.open(folder / "gallery-report.png").convert("RGB").quantize(128).save(
        folder / "gallery-report.png", optimize=True
    )
    assert 10_000 < (folder / "gallery-report.png").stat().st_size < 200_000


def test_everything_binary_is_small():
    listed = subprocess.run(
        ["git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True,
        check=False,
    )
    if listed.returncode:
        pytest.skip("not a git checkout")
    files = [ROOT / name.decode() for name in listed.stdout.split(b"\0") if name]
    binary = [path for path in files if path.is_file() and b"\0" in path.read_bytes()[:8192]]
    assert sum(path.stat().st_size for path in binary) < 45e6
