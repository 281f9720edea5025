"""Runs of ``equipoise generate`` on real small pipelines: drawn, killed and gone on, labelled, replaced, measured, reported."""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import equipoise as eq
from equipoise._annotate.labels import Label
from equipoise._verbs.generate import GenerationRequest as Request
from equipoise._verbs.generate import generate as perform
from equipoise.errors import InputError
from equipoise.generation import _table as table
from equipoise.generation import draw, read_provenance
from equipoise.generation._labels import LabelFile, read_labels, unanimous
from equipoise.generation._manifest import MANIFEST, Manifest
from equipoise.generation._painters import DiffusersPainter, load_painter
from equipoise.generation._plan import STRIDE, make_plan
from equipoise.generation._results_document import GenerationResults, TableCell
from equipoise.prompts._book_writers import GrammarWriter
from equipoise.report import _number_format as numbers
from tests.helpers import models
from tests.helpers.common import ROOT, component, rounding

component("diffusers")
component("torch")

from tests.helpers import pipelines  # noqa: E402

GENDER = eq.Attribute.load("gender")
PROMPTS = [
    "a photo of a doctor",
    "a photo of a nurse",
    "a photo of a male doctor",
    "a photo of a female nurse",
]
BOOK = "occupations-gender"
ROUNDING = 1e-12  # of means of at most a thousand float64 numbers below one


@pytest.fixture(scope="module")
def places(tmp_path_factory) -> dict[str, Path]:
    """A pipeline, a CLIP that did not condition it, and a list of prompts, on the disk."""
    folder = tmp_path_factory.mktemp("generate")
    pipelines.sd1().save_pretrained(folder / "sd1")
    models.clip(folder / "clip", tokens=77)
    (folder / "prompts.txt").write_text("\n".join(PROMPTS) + "\n")
    book = eq.PromptBook.load(BOOK).subset(PROMPTS[:2])
    book.save(folder / "book.json")
    return {
        "sd1": folder / "sd1",
        "clip": folder / "clip",
        "prompts": folder / "prompts.txt",
        "book": folder / "book.json",
    }


def request(places, out: Path, **options) -> Request:
    given = {
        "prompts": str(places["prompts"]),
        "book": str(places["book"]),
        "per_prompt": 3,
        "steps": 1,
        "methods": ("closed-form",),
    }
    return Request(
        out,
        str(places["sd1"]),
        **{
            **given,
            "gate": False,
            "resamples": 50,
            "loading": {"device": "cpu", "offline": True},
            **options,
        },
    )


@pytest.fixture(scope="module")
def run(places, tmp_path_factory) -> tuple[Path, dict]:
    """A whole run: drawn, labelled by an encoder, scored by another, reported."""
    out = tmp_path_factory.mktemp("run") / "run"
    manifest, results = perform(
        request(
            places, out, annotator=f"encoder:hf:{places['clip']}", clip_score=f"hf:{places['clip']}"
        )
    )
    assert len(manifest.pictures) == 2 * 4 * 3
    return out, results


def pixels(path: Path) -> np.ndarray:
    with Image.open(path) as image:
        return np.asarray(image)


def files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted((folder / "images").rglob("*.png"))
    }


# --- Drawing -------------------------------------------------------------------------------------------------------------


def test_pictures_say_where_they_are_from(run):
    out, _ = run
    for picture in Manifest(out).pictures.values():
        said = read_provenance(out / picture.image)
        assert {
            key: getattr(said, key)
            for key in ("prompt", "method", "seed", "attempt", "explicit_group")
        } == {
            key: getattr(picture, key)
            for key in ("prompt", "method", "seed", "attempt", "explicit_group")
        }
        assert said.equipoise == eq.__version__ and said.steps == 1 and "sd1" in said.model
        assert re.fullmatch("[0-9a-f]{12}", said.revision) and said.precision == "float32 on cpu"
        assert bool(said.spaces) == (picture.method == "closed-form")
    groups = {picture.prompt: picture.explicit_group for picture in Manifest(out).pictures.values()}
    assert list(groups.values()) == ["", "", "male", "female"]


def test_other_weights_in_the_same_folder_are_another_run(places, tmp_path):
    shutil.copytree(places["sd1"], tmp_path / "sd1")
    moved = places | {"sd1": tmp_path / "sd1"}
    request(moved, tmp_path / "run", per_prompt=1).perform()
    request(moved, tmp_path / "run", per_prompt=1).perform()
    other = pipelines.sd1()
    other.unet.conv_in.bias.data += 1
    other.save_pretrained(tmp_path / "sd1")
    with pytest.raises(InputError, match=r"holds another run \(what differs: revision\)"):
        request(moved, tmp_path / "run", per_prompt=2).perform()


def test_the_hub_s_commit_is_the_revision(places, tmp_path, monkeypatch):
    """Loaded by its name from the hub's cache, as the hub lays it out."""
    repository, commit = tmp_path / "models--someone--small", "0123456789abcdef" * 2 + "01234567"
    shutil.copytree(places["sd1"], repository / "snapshots" / commit)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(commit)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    assert load_painter("someone/small", device="cpu", offline=True).revision == commit[:12]


def test_the_same_noise_for_every_method(places, tmp_path):
    """kappa = 0 is the original model, so its pictures are the original's, pixel for pixel; and those of kappa = 1 are not."""
    request(places, tmp_path, methods=("closed-form:kappa=0", "closed-form")).perform()
    manifest = Manifest(tmp_path)
    by = {
        method: [
            pixels(tmp_path / p.image) for p in manifest.pictures.values() if p.method == method
        ]
        for method in ("none", "closed-form", "closed-form (kappa=0)")
    }
    assert len(by["none"]) == 12
    assert all(
        np.array_equal(a, b) for a, b in zip(by["none"], by["closed-form (kappa=0)"], strict=True)
    )
    assert not all(np.array_equal(a, b) for a, b in zip(by["none"], by["closed-form"], strict=True))
    assert not np.array_equal(by["none"][0], by["none"][1])


def test_the_gate_gives_the_original_pictures_of_explicit_prompts(places, tmp_path):
    request(places, tmp_path, gate=True).perform()
    shown = {
        picture.slot: pixels(tmp_path / picture.image)
        for picture in Manifest(tmp_path).pictures.values()
    }
    same = {
        prompt: np.array_equal(shown["none", prompt, 0], shown["closed-form", prompt, 0])
        for prompt in PROMPTS
    }
    assert list(same.values()) == [False, False, True, True]


def test_a_contact_sheet_a_prompt(run):
    out, _ = run
    sheets = sorted((out / "sheets").glob("*.png"))
    assert len(sheets) == 4
    assert pixels(sheets[0]).std() > 0


def test_a_run_again_draws_nothing_and_what_vanished_is_drawn_again(places, run, tmp_path):
    out = tmp_path / "run"
    shutil.copytree(run[0], out)
    before = files(out)
    stamps = {path: path.stat().st_mtime_ns for path in (out / "images").rglob("*.png")}
    request(places, out).perform()
    assert stamps == {path: path.stat().st_mtime_ns for path in (out / "images").rglob("*.png")}
    manifest = Manifest(out)
    gone = out / manifest.pictures["none", PROMPTS[1], 0].image
    gone.unlink()
    with pytest.raises(InputError, match="no longer there, first images/none/001"):
        Manifest(out).require_files()
    with (out / MANIFEST).open("a") as file:
        file.write('{"image": "images/no')  # torn by a kill
    request(places, out).perform()
    assert files(out).keys() == before.keys()
    assert len((out / MANIFEST).read_text().splitlines()) == 24


def test_more_pictures_may_be_asked_for_and_nothing_else_may_differ(places, run, tmp_path):
    out = tmp_path / "run"
    shutil.copytree(run[0], out)
    before = files(out)
    request(places, out, per_prompt=4).perform()
    after = files(out)
    assert len(after) == 32 and all(after[name] == data for name, data in before.items())
    with pytest.raises(InputError, match=r"holds another run .what differs: seed"):
        request(places, out, per_prompt=4, seed=3).perform()
    with pytest.raises(InputError, match="what differs: images"):
        request(places, out, per_prompt=3).perform()


def test_methods_may_be_added_and_one_that_could_not_be_drawn_replaced(places, run, tmp_path):
    out = tmp_path / "run"
    shutil.copytree(run[0], out)
    before = files(out)
    with pytest.raises(InputError, match="sfid needs 20 anchors"):
        request(places, out, methods=("closed-form", "orth-proj", "sfid:on=unet")).perform()
    manifest, results = request(
        places, out, methods=("closed-form", "orth-proj"), annotator=f"encoder:hf:{places['clip']}"
    ).perform()
    after = files(out)
    assert len(after) == len(manifest.pictures) == 36 and all(
        after[name] == data for name, data in before.items()
    )
    assert [method.label for method in results.methods] == [
        "none",
        "closed-form",
        "orth-proj",
    ]
    with pytest.raises(InputError, match="what differs: methods"):
        request(places, out, methods=("closed-form",)).perform()


def test_a_device_without_room_gets_smaller_batches(tmp_path):
    """The painter's own memory error, as CUDA words it: the batch is halved, nothing is lost, and later batches are as small."""
    sizes = []

    class Cramped(DiffusersPainter):
        def paint(self, prompts, seeds):
            if len(prompts) > 2:
                raise RuntimeError("CUDA out of memory. Tried to allocate 20.00 GiB")
            sizes.append(len(prompts))
            return super().paint(prompts, seeds)

    plan = make_plan("sd1", GENDER, PROMPTS[:1], ["none"], 8, steps=1)
    draw(plan, Cramped(pipelines.sd1(), steps=1), GENDER, tmp_path, batch_size=8)
    assert sizes == [2, 2, 2, 2] and len(Manifest(tmp_path).pictures) == 8


def command(places, out: Path, *more: str) -> list[str]:
    given = [
        "--out",
        str(out),
        "--pipeline",
        str(places["sd1"]),
        "--book",
        str(places["book"]),
        "--device",
        "cpu",
        "--offline",
        "--steps",
        "1",
    ]
    return [sys.executable, "-m", "equipoise", "generate", *given, *more]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}


@pytest.mark.slow
def test_the_papers_preset_killed_and_gone_on_fills_table_4(places, tmp_path):
    """All 68 prompts and five methods, killed, gone on to the same pictures, labelled, scored, reported."""
    typed = command(
        places,
        tmp_path / "run",
        "--preset",
        "paper",
        "--per-prompt",
        "2",
        "--method",
        "orth-proj",
        "--method",
        "orth-cali",
    )
    typed += [
        "--method",
        "sfid:on=unet,steps=1,k=4,tau=0.5",
        "--method",
        "closed-form",
        "--book",
        BOOK,
    ]
    process = subprocess.Popen(typed, env=environment())
    manifest = tmp_path / "run" / MANIFEST
    while not manifest.is_file() or manifest.read_bytes().count(b"\n") < 150:
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    judged = [
        "--annotator",
        f"encoder:hf:{places['clip']}",
        "--clip-score",
        f"hf:{places['clip']}",
        "--json",
    ]
    done = subprocess.run(
        [*typed, *judged], env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    results = GenerationResults.model_validate_json(done.stdout)
    assert results.methods[0].label == "none" and len(results.methods) == 5
    assert [column.key for column in results.columns] == [
        "sp",
        "sp_5",
        "clip",
        "accuracy",
        "clip_gated",
        "accuracy_gated",
    ]
    assert [column.prompts for column in results.columns] == [34, 5, 34, 5, 34, 5]
    for method in results.methods:
        assert method.pictures == 136
        for entry in method.cells.values():
            assert entry.low - ROUNDING <= entry.value <= entry.high + ROUNDING
    again = subprocess.run(
        [*typed[:5], str(tmp_path / "whole"), *typed[6:]],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert again.returncode == 0, again.stderr
    assert files(tmp_path / "run") == files(tmp_path / "whole")
    assert "as published, SD v2.1" in (tmp_path / "run" / "table.md").read_text()


def test_the_papers_prompts_and_methods():
    """Section 18 of the protocol: 34 and 34, 20 of them male; through the method; the subsets chosen under the original model."""
    plan = Request(Path("x"), "sd", preset="paper").plan(GENDER)
    explicit = [asked for asked in plan.prompts if asked.explicit_group]
    assert len(plan.prompts) == 68 and len(explicit) == 34
    assert sum(asked.explicit_group == "male" for asked in explicit) == 20
    assert {"a photo of a male CEO", "a photo of a female nurse"} <= {
        asked.prompt for asked in explicit
    }
    assert all(asked.neutral in {one.prompt for one in plan.prompts} for asked in explicit)
    assert (
        plan.images == 100
        and not plan.gate
        and list(plan.specs())
        == ["none", "orth-proj", "orth-cali", "sfid (on=unet)", "closed-form"]
    )
    embedded = Request(Path("x"), "mini", preset="paper").plan(GENDER)
    assert list(embedded.specs()) == [
        "none",
        "orth-proj",
        "orth-cali",
        "sfid (tau=0.9)",
        "closed-form",
    ]
    with pytest.raises(InputError, match="its own prompts"):
        Request(Path("x"), "sd", preset="paper", prompts="a photo of a doctor").plan(GENDER)


# --- Measuring -----------------------------------------------------------------------------------------------------------


def test_table_4_has_the_metrics_of_the_pictures(run):
    out, results = run
    answers = {
        label.image: label.answer
        for label in read_labels(next((out / "labels").glob("*.csv")), GENDER.groups)
    }
    pictures = Manifest(out).pictures.values()
    keys = [column.key for column in results.columns]
    assert keys == ["sp", "sp_2", "clip", "accuracy", "clip_gated", "accuracy_gated"] or keys == [
        "sp",
        "sp_5",
        "clip",
        "accuracy",
        "clip_gated",
        "accuracy_gated",
    ]
    for method in results.methods:
        mine = [picture for picture in pictures if picture.method == method.label]
        sp = [
            eq.metrics.statistical_parity(
                [answers[p.image] for p in mine if p.prompt == prompt], groups=GENDER.groups
            )
            for prompt in PROMPTS[:2]
        ]
        assert method.cells["sp"].value == pytest.approx(np.mean(sp))
        stated = [answers[p.image] == p.explicit_group for p in mine if p.explicit_group]
        assert method.cells["accuracy"].value == pytest.approx(np.mean(stated))
        assert method.cells["accuracy"].n == 6
    first, second = results.methods
    assert (
        second.cells["clip_gated"].value == first.cells["clip"].value
    )  # the gate gives the original's pictures
    assert second.cells["accuracy_gated"].value == first.cells["accuracy"].value
    assert second.cells["clip"].value != first.cells["clip"].value
    assert second.cells["sp"].change and not first.cells["sp"].change


def test_clip_score_is_the_cosine_with_the_prompt(run, places):
    out, results = run
    encoder = eq.load_encoder(f"hf:{places['clip']}", device="cpu")
    pictures = [
        p for p in Manifest(out).pictures.values() if p.method == "none" and p.explicit_group
    ]
    rows = encoder.encode_images([out / p.image for p in pictures])
    cosines = np.einsum("nd,nd->n", rows, encoder.encode_text([p.prompt for p in pictures])).clip(0)
    # other batches, whose products the encoder rounds otherwise: some sums of its width
    assert results.methods[0].cells["clip"].value == pytest.approx(
        cosines.mean(), abs=4 * rounding(rows.shape[1])
    )


def test_the_encoder_that_conditioned_the_pictures_is_no_judge(places, tmp_path):
    from transformers import CLIPTextModel

    pipe = pipelines.sd1()
    pipe.text_encoder = CLIPTextModel.from_pretrained(places["clip"])
    encoder = eq.load_encoder(f"hf:{places['clip']}", device="cpu")
    assert DiffusersPainter(pipe).conditioned_by(encoder)
    assert not DiffusersPainter(pipelines.sd1()).conditioned_by(encoder)
    half = pipelines.sd1()
    half.text_encoder = CLIPTextModel.from_pretrained(places["clip"]).bfloat16()
    assert DiffusersPainter(half).conditioned_by(encoder)
    pipe.save_pretrained(tmp_path / "same")
    options = {"clip_score": f"hf:{places['clip']}", "per_prompt": 1}
    same = request({**places, "sd1": tmp_path / "same"}, tmp_path / "run", **options)
    with pytest.raises(InputError, match="a judge in its own case"):
        same.perform()
    same.same_encoder = True
    _, results = same.perform()
    assert results.clip.same and "a judge in its own case" in table.note(results)


def test_the_floor_of_parity_is_what_a_fair_generator_gives():
    from equipoise.generation._measures import parity, parity_floor

    rng = np.random.default_rng(0)
    for groups, pictures in ((2, 10), (2, 100), (4, 20)):
        drawn = parity(rng.integers(0, groups, (1, 4000, pictures)), groups)
        assert parity_floor(pictures, groups) == pytest.approx(
            drawn.mean(), rel=0.05
        )  # 4 sd: 0.76 / sqrt(4000)


def test_the_floor_is_of_the_pictures_that_somebody_was_sure_of():
    from equipoise.generation._measures import mean_parity_floor, parity_floor

    codes = np.array(
        [[0, 1] * 4, [0, 1, 1, 0, -1, -1, -1, -1], [-1] * 8]
    )  # eight pictures, four, none
    assert mean_parity_floor(codes, 2) == pytest.approx(
        (parity_floor(8, 2) + parity_floor(4, 2)) / 2
    )
    assert mean_parity_floor(codes[2:], 2) is None


def test_a_run_says_the_floor_of_what_was_labelled(places, run, tmp_path):
    from equipoise.generation._measures import parity_floor

    out = shutil.copytree(run[0], tmp_path / "run")
    answers = {
        picture.image: ("unsure",) if picture.number else ("male",)
        for picture in Manifest(out).pictures.values()
    }
    _, results = request(places, out, labels=say(tmp_path / "labels.csv", answers)).perform()
    assert results.floors["sp_5"] == pytest.approx(
        parity_floor(1, 2)
    )  # of three pictures each, two are left out


def test_intervals_hold_the_truth_about_as_often_as_they_say():
    from equipoise.generation._measures import Resamples

    rng = np.random.default_rng(1)
    truth, held = np.sqrt(2) * 0.3, 0
    for trial in range(100):
        codes = (rng.random((1, 6, 50)) < 0.8).astype(int)
        (entry,) = Resamples(200, seed=trial).parity(codes, 2)
        held += entry.low <= truth <= entry.high
    assert held >= 85  # of 95 expected: five binomial standard deviations


def test_what_nobody_is_sure_of_is_left_out_and_counted():
    from equipoise.generation._measures import Resamples

    codes = np.array(
        [[[0, 0, 1, 0], [-1, -1, -1, -1]], [[0, 1, 1, -1], [1, 1, 1, 1]], [[-1] * 4, [-1] * 4]]
    )
    first, second, third = Resamples(50).parity(codes, 2)
    assert first.value == pytest.approx(np.sqrt(2) / 4) and (first.n, first.left_out) == (
        4,
        4,
    )
    assert second.value == pytest.approx((np.sqrt(2) * (2 / 3 - 1 / 2) + np.sqrt(2) / 2) / 2)
    assert third.value is None and third.change.value is None and third.n == 0
    right = Resamples(50).accuracy(codes, np.array([0, 1]))
    assert [entry.value for entry in right] == [3 / 4, 5 / 7, None]
    (alone,) = Resamples(50).parity(codes[:1, :, :1], 2)
    assert alone.value and alone.low is None  # of one picture a prompt there is no interval


def test_subsets_are_chosen_once(places, run, tmp_path):
    out = tmp_path / "run"
    shutil.copytree(run[0], out)
    chosen = json.loads((out / "subsets.json").read_text())
    assert set(chosen["neutral"]) == set(PROMPTS[:2]) and set(chosen["explicit"]) == set(
        PROMPTS[2:]
    )
    (out / "subsets.json").write_text(json.dumps({"neutral": PROMPTS[:1], "explicit": PROMPTS[3:]}))
    _, results = request(places, out, annotator=f"encoder:hf:{places['clip']}").perform()
    assert results.subsets.to_plain() == {"neutral": PROMPTS[:1], "explicit": PROMPTS[3:]}
    assert [column.name for column in results.columns][:2] == ["SP_all", "SP_1"]


def test_groups_of_any_name_survive_to_the_report(places, tmp_path):
    names = {"Ph.D.": "learned", 'M/"A"\n<b>': "unlearned"}
    groups = "".join(
        f"[groups.{json.dumps(name)}]\nadjectives = [{json.dumps(word)}]\n"
        for name, word in names.items()
    )
    (tmp_path / "degree.toml").write_text('name = "degree.of/learning"\n' + groups)
    attribute = eq.Attribute.load(tmp_path / "degree.toml")
    GrammarWriter().write(PROMPTS[:2], attribute).book.save(tmp_path / "book.json")
    options = {"attribute": str(tmp_path / "degree.toml"), "book": str(tmp_path / "book.json")}
    options |= {"per_prompt": 1, "annotator": f"encoder:hf:{places['clip']}"}
    _, results = perform(request(places, tmp_path / "run", **options))
    assert results is not None and results.attribute.groups == list(names)
    page = (tmp_path / "run" / "report.html").read_text()
    paths = re.findall(r'data-path="([^"]+counts[^"]+)"', page)
    assert paths and all(
        numbers.at(results.to_plain(), html.unescape(path)) in (0, 1) for path in paths
    )


def test_tables_and_page_say_what_the_results_say(run):
    out, results = run
    for name in ("table.csv", "table.md", "table.tex", "report.html", "results.json"):
        assert (out / name).stat().st_size
    assert json.loads((out / "results.json").read_text()) == results.to_plain()
    page = (out / "report.html").read_text()
    shown = re.findall(r'data-path="([^"]+)" data-form="([^"]+)">([^<]*)<', page)
    assert len(shown) > 40
    for path, form, text in shown:
        assert numbers.text(numbers.at(results.to_plain(), path), form) == text.replace(
            "&#39;", "'"
        ).replace("&amp;", "&")
    assert page.count('<img src="data:image/jpeg') == sum(
        len(row.neutral) + len(row.explicit) for f in results.gallery for row in f.rows
    )
    assert "http" not in re.sub(r"data:image/jpeg;base64,[^\"]+", "", page).replace(
        "http-equiv", ""
    )
    markdown = (out / "table.md").read_text()
    assert "| none |" in markdown and "SP_all ↓" in markdown and "Regenerated" in markdown
    change = results.methods[1].cells["sp"].change
    value, low, high = (
        numbers.text(end, "+1%").removesuffix(" %")
        for end in (change.value, change.low, change.high)
    )
    said = f"change | {value} [{low}, {high}]"
    assert said in markdown and said.replace("|", "&") in (out / "table.tex").read_text()


def test_the_page_in_a_browser(places, run, browser, tmp_path):
    """It opens without a complaint, is accessible and fits a phone. Written to docs/pictures where EQUIPOISE_PICTURES is set."""
    axe = component("axe_playwright_python.sync_playwright")
    out, folder = run[0], tmp_path
    if os.environ.get("EQUIPOISE_PICTURES"):
        out, folder = tmp_path / "run", ROOT / "docs" / "pictures"
        judges = {"annotator": "encoder:mini", "clip_score": "mini", "same_encoder": True}
        perform(
            Request(
                out,
                "mini",
                prompts=str(places["prompts"]),
                per_prompt=10,
                methods=("orth-proj", "closed-form"),
                **judges,
            )
        )
    tab = browser.new_page(viewport={"width": 1000, "height": 1250})
    complaints: list[str] = []
    tab.on(
        "console",
        lambda message: (
            complaints.append(message.text) if message.type in ("error", "warning") else None
        ),
    )
    tab.on(
        "request",
        lambda asked: (
            None if asked.url.startswith(("file:", "data:")) else complaints.append(asked.url)
        ),
    )
    tab.goto((out / "report.html").as_uri())
    for scheme in ("dark", "light"):
        tab.emulate_media(color_scheme=scheme)
        found = axe.Axe().run(tab).response["violations"]
        assert [
            (one["id"], one["nodes"][0]["html"][:100])
            for one in found
            if one["impact"] in ("serious", "critical")
        ] == []
    assert complaints == []
    tab.screenshot(path=folder / "generation.png")
    Image.open(folder / "generation.png").convert("RGB").quantize(64).save(
        folder / "generation.png", optimize=True
    )
    assert 10_000 < (folder / "generation.png").stat().st_size < 100_000
    tab.set_viewport_size({"width": 360, "height": 800})
    assert tab.evaluate("document.documentElement.scrollWidth") <= 360
    # On a phone the two prompts of a figure are stacked, so no words may place them beside another.
    stacked = tab.evaluate(
        "[...document.querySelectorAll('.sides')].some(s => s.children.length > 1"
        " && s.children[0].getBoundingClientRect().bottom"
        " <= s.children[1].getBoundingClientRect().top)"
    )
    assert stacked and not re.search(r"\b(left|right)\b:", tab.inner_text("main").lower())
    tab.close()


def test_what_rounds_to_zero_has_no_sign():
    """A change of -0.04 % is printed as 0.0 %, on the page and in the table."""
    for value in (-0.0004, 0.0004, 0.0, -0.0):
        assert numbers.text(value, "1%") == numbers.text(value, "+1%") == "0.0 %"
        assert numbers.text(value, "2") == numbers.text(value, "+2") == "0.00"
        cell = TableCell(value=0.1, low=value, high=0.2, n=1, left_out=0)
        assert table.interval(cell) == "10.0 [0.0, 20.0]"
        assert table.interval(cell, "+.1f") == "+10.0 [0.0, +20.0]"
    assert numbers.text(-0.0005001, "+1%") == "-0.1 %" and numbers.text(0.001, "+1%") == "+0.1 %"


def test_the_figure_numbers_the_minority_left_and_the_mismatches_right(run):
    for figure in run[1].gallery:
        for row in figure.rows:
            assert [p.mark for p in row.neutral if p.mark] == list(
                range(1, sum(p.group == figure.minority for p in row.neutral) + 1)
            )
            stated = "male" if " male " in figure.explicit else "female"
            assert all((p.group not in ("", stated)) == (p.mark is not None) for p in row.explicit)


# --- People --------------------------------------------------------------------------------------------------------------


def say(path: Path, answers: dict[str, tuple[str, ...]]) -> Path:
    rows = [
        f"{image},p{i},{answer},2026-01-0{i + 1}T00:00:00"
        for image, given in answers.items()
        for i, answer in enumerate(given)
    ]
    path.write_text("image,annotator,answer,at\n" + "\n".join(rows) + "\n")
    return path


def test_unanimity(tmp_path):
    path = say(
        tmp_path / "labels.csv",
        {
            "a": ("male",) * 3,
            "b": ("male", "female", "male"),
            "c": ("female", "unsure"),
            "d": ("female",),
        },
    )
    verdicts = unanimous(read_labels(path, GENDER.groups), least=3)
    assert (
        verdicts["a"] == ("male", True)
        and verdicts["b"] == ("", False)
        and verdicts["c"] == ("", False)
        and "d" not in verdicts
    )
    with path.open("a") as file:
        file.write("b,p1,male,2027-01-01T00:00:00\n")  # thought again
    assert unanimous(read_labels(path, GENDER.groups))["b"] == ("male", True)


def test_what_people_disagree_on_is_drawn_again_until_they_agree(places, run, tmp_path):
    out = tmp_path / "run"
    shutil.copytree(run[0], out)
    pictures = list(Manifest(out).pictures.values())
    answers = {picture.image: ("female",) * 3 for picture in pictures}
    bad = [pictures[0].image, pictures[13].image]
    answers[bad[0]], answers[bad[1]] = ("male", "female", "female"), ("unsure",) * 3
    labels = say(tmp_path / "labels.csv", answers)
    options = {"labels": labels, "people": 3, "redraw": True}
    manifest, results = request(places, out, **options).perform()
    new = [picture for picture in manifest.pictures.values() if picture.attempt]
    assert [picture.slot for picture in new] == [pictures[0].slot, pictures[13].slot]
    assert all(
        picture.seed == old.seed + STRIDE and picture.image != old.image
        for picture, old in zip(new, (pictures[0], pictures[13]), strict=True)
    )
    assert not any(
        name in bad
        for name in (
            json.loads(line)["image"] for line in (out / MANIFEST).read_text().splitlines()
        )
    )
    assert [method.regenerated for method in results.methods] == [1, 1]
    assert results.people.to_plain() == {
        "annotators": 3,
        "least": 3,
        "settled": 22,
        "unsettled": 0,
        "unseen": 2,
        "of_replaced": 2,
    }
    say(labels, answers | {picture.image: ("male",) * 3 for picture in new})
    manifest, results = request(places, out, **options).perform()
    assert (
        results.people.settled == 24
        and max(picture.attempt for picture in manifest.pictures.values()) == 1
    )
    assert next(column for column in results.columns if column.key == "sp_5").by == "people"


def test_with_equipoise_annotate_until_unanimous(places, run, tmp_path):
    """The whole of appendix D: three people label, what they disagree on is drawn again, they are asked about it, and agree."""
    component("starlette")
    from equipoise._annotate import Project, labels, people
    from equipoise._annotate.exchange import to_csv

    out = tmp_path / "run"
    shutil.copytree(run[0], out)
    names = ("anna", "ben", "chris")
    with Project.open(out) as project:
        for name in names:
            people.invite(project.database, name)
        for answer in ("female", "male"):  # at first ben is of another mind about one picture
            for name in names:
                while (turn := labels.turn(project.database, name)).picture is not None:
                    contrary = answer == "female" and name == "ben" and turn.left == 1
                    labels.keep(
                        project.database,
                        name,
                        turn.picture,
                        "male" if contrary else answer,
                        f"{name} {turn.picture}",
                    )
            (tmp_path / "labels.csv").write_text(to_csv(labels.said(project.database)))
            manifest, results = request(
                places, out, labels=tmp_path / "labels.csv", people=3, redraw=True
            ).perform()
            project.scan()
    assert sum(picture.attempt for picture in manifest.pictures.values()) == 1
    assert results.people.to_plain() | {"of_replaced": 0} == {
        "annotators": 3,
        "least": 3,
        "settled": 24,
        "unsettled": 0,
        "unseen": 0,
        "of_replaced": 0,
    }


def test_labels_that_cannot_be_read(places, run, tmp_path):
    with pytest.raises(InputError, match="`labels`"):
        request(places, tmp_path / "x", redraw=True).perform()
    for text, message in (
        ("image,who\na,b\n", "has no column annotator"),
        (
            "image,annotator,answer,at\na,b,man,\n",
            "line 2 of .* answers 'man'; answers are male, female or unsure",
        ),
    ):
        (tmp_path / "labels.csv").write_text(text)
        with pytest.raises(InputError, match=message):
            read_labels(tmp_path / "labels.csv", GENDER.groups)
    with pytest.raises(InputError, match="cannot be read"):
        read_labels(tmp_path / "nothing.csv", GENDER.groups)
    strangers = say(tmp_path / "labels.csv", {"elsewhere.png": ("male",)})
    with pytest.raises(InputError, match="no label is of a picture of this run"):
        request(places, run[0], labels=strangers).perform()


def test_a_models_labels_survive_a_kill(tmp_path):
    path = tmp_path / "labels.csv"
    LabelFile(path, "m", GENDER.groups).add({"a": "male", "b": "unsure"})
    with path.open("a") as file:
        file.write("c,m,fem")  # torn
    again = LabelFile(path, "m", GENDER.groups)
    assert again.answers == {"a": "male", "b": "unsure"}
    again.add({"c": "female"})
    assert [label[:3] for label in read_labels(path, GENDER.groups)] == [
        ("a", "m", "male"),
        ("b", "m", "unsure"),
        ("c", "m", "female"),
    ]
    assert isinstance(read_labels(path, GENDER.groups)[0], Label)


# --- Bad input -----------------------------------------------------------------------------------------------------------


def test_bad_input(places, tmp_path):
    for options, message in (
        ({"prompts": None}, "pass `prompts`"),
        ({"prompts": str(tmp_path / "none.txt")}, "none.txt"),
        (
            {"prompts": str(tmp_path / "none.csv")},
            "none.csv is not a text file with one prompt per line",
        ),
        ({"prompts": str(tmp_path)}, "is not a text file with one prompt per line"),
        ({"methods": ("leace",)}, "does not edit generation"),
        ({"methods": ("closed-form:kapa=2",)}, "no parameter 'kapa'"),
        ({"annotator": "somebody"}, "blip2:ID-or-folder, encoder:SPEC"),
        ({"preset": "other"}, "pass `preset` paper"),
        ({"tokens": "all"}, "after-sos, unpadded"),
        ({"per_prompt": 2_000_000}, "images"),
        ({"size": 13}, "size=13 is not legal: .* multiple of 8"),
        ({"guidance": float("nan")}, "guidance=nan is not legal"),
    ):
        with pytest.raises(InputError, match=message):
            request(places, tmp_path / "run", **options).perform()
    with pytest.raises(InputError, match="cannot be loaded as a diffusers pipeline"):
        request({**places, "sd1": tmp_path}, tmp_path / "run").perform()
    with pytest.raises(InputError, match=r"has \d+ tokens"):
        request(
            places, tmp_path / "long", prompts="a photo of a doctor" + " and a nurse" * 40
        ).perform()


def test_what_a_kill_left_is_cleared_and_what_others_left_is_not(places, run, tmp_path):
    out = shutil.copytree(run[0], tmp_path / "run")
    (torn := out / "images" / "none" / ".00001.png.0123456789abcdef").write_bytes(b"half")
    (sheet := out / "sheets" / ".000-a-photo.png.0123456789abcdef").write_bytes(b"half")
    (out / "images" / ".notes" / "deep").mkdir(parents=True)
    (out / "images" / ".DS_Store").write_bytes(b"a desktop's")
    request(places, out).perform()
    assert (
        not torn.exists()
        and not sheet.exists()
        and (out / "images" / ".notes" / "deep").is_dir()
        and (out / "images" / ".DS_Store").is_file()
    )


def test_results_of_something_else_are_not_overwritten(places, tmp_path):
    (tmp_path / "results.json").write_text("an audit's")
    with pytest.raises(InputError, match="not of a run of equipoise generate"):
        perform(request(places, tmp_path, annotator=f"encoder:hf:{places['clip']}"))
    assert (tmp_path / "results.json").read_text() == "an audit's" and not (
        tmp_path / "images"
    ).exists()


def test_the_command_line(places, tmp_path):
    from typer.testing import CliRunner

    from equipoise._cli import app

    typed = [
        "a photo of a doctor",
        "--out",
        str(tmp_path / "run"),
        "--pipeline",
        str(places["sd1"]),
        "--book",
        str(places["book"]),
    ]
    done = CliRunner().invoke(
        app, ["generate", *typed, "-n", "2", "--steps", "1", "--device", "cpu", "--offline"]
    )
    assert done.exit_code == 0, done.output
    assert "4 pictures in" in done.output and len(files(tmp_path / "run")) == 4
