"""The audit as a user runs it: real small models, real files, the command line; what is measured, what is written, what goes wrong."""

from __future__ import annotations

import io
import json
import os
import re
import sys
from html import unescape
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import typer
from PIL import Image
from rich.console import Console

import equipoise as eq
from equipoise import _cli as cli
from equipoise import _embedding as embedding
from equipoise import metrics
from equipoise._audit import (
    AuditSettings,
    Pictures,
    association,
    dial,
    intervals,
    read,
    run,
    sources,
    write,
)
from equipoise._audit.fitted_methods import prepare
from equipoise._audit.plan import columns_for, make_plan
from equipoise._audit.results import AuditDocument, Ranged
from equipoise._audit.skew import choose_m
from equipoise._audit.sources import ImageSource, read_images
from equipoise.errors import EquipoiseError, InputError
from equipoise.methods._specs import parse
from equipoise.metrics._intervals import SHARE
from equipoise.prompts._text_vectors import TextVectors
from equipoise.report import _number_format as numbers
from equipoise.report import _sentences as words
from equipoise.report import _terminal as terminal
from equipoise.report import comparison, model_card, page
from tests.helpers import models
from tests.helpers.audits import made_plan, saved
from tests.helpers.common import component, embedded_file, shared_data, typed
from tests.helpers.pages import visible

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*texts are longer than the 24 tokens", "ignore:.*could not be read"
)
QUICK = AuditSettings(resamples=40, permutations=10)
GROUPS = {"male": ["a man", "a photo of a man"], "female": ["a woman", "a photo of a woman"]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Photographs in a folder, in a csv and in a parquet, a store, a model."""
    component("transformers")
    root = tmp_path_factory.mktemp("people")
    rng = np.random.default_rng(0)
    (root / "photos").mkdir()
    lines = ["file,job,gender,age,same,blank,caption"]
    for i in range(120):
        Image.fromarray(rng.integers(0, 255, (3, 3, 3), dtype=np.uint8)).resize(
            (40, 40), Image.Resampling.NEAREST
        ).save(root / "photos" / f"{i}.png")
        gender, age = (
            ("Male", "Female", "unknown")[0 if i < 58 else 1 if i < 115 else 2],
            ("young", "old")[i % 2],
        )
        lines.append(
            f"photos/{i}.png,{('doctor', 'nurse')[i % 2]},{gender},{age},Male,,a photo of a person {i}"
        )
    (root / "photos" / "broken.png").write_bytes(b"no picture")
    lines.append("photos/broken.png,nurse,Male,old,Male,,a photo of a person")
    (root / "people.csv").write_text("\n".join(lines))
    table = pd.read_csv(root / "people.csv")
    table["image"] = [(root / name).read_bytes() for name in table["file"]]
    table.to_parquet(root / "people.parquet")
    models.siglip(root / "model")  # one that sees both groups among random pictures
    models.sentence_texts(root / "texts")
    return root


@pytest.fixture(scope="module")
def encoder(folder):
    return eq.load_encoder(f"hf:{folder / 'model'}", workers=0, cache=folder / "cache.sqlite")


@pytest.fixture(scope="module")
def audited(folder, tmp_path_factory):
    """One audit by the command line, with all that can be asked for."""
    out = tmp_path_factory.mktemp("out") / "audit"
    columns = ["--group-columns", "gender", "--label-column", "job", "--caption-column", "caption"]
    methods = ["--method", "closed-form", "--method", "adapted"]
    command(
        folder,
        folder / "people.csv",
        *columns,
        "--out",
        out,
        "--resamples",
        40,
        *methods,
    )
    return out


def command(folder, *arguments, model=True):
    """``equipoise audit`` with the folder's model; the exit code."""
    return typed(
        "audit",
        *(["--model", f"hf:{folder / 'model'}", "--workers", "0"] if model else []),
        *arguments,
    )


# --- What is measured --------------------------------------------------------------------------------------------------------


def test_a_lean_is_a_difference_of_similarities_and_the_groups_cancel(rng):
    prototypes, texts = (
        x / np.linalg.norm(x, axis=1, keepdims=True)
        for x in (rng.standard_normal((3, 8)), rng.standard_normal((5, 8)))
    )
    leans = association.leans(texts, prototypes)
    similar = texts @ prototypes.T
    np.testing.assert_allclose(leans[:, 0], similar[:, 0] - similar[:, 1:].mean(1))
    np.testing.assert_allclose(leans.sum(1), 0, atol=1e-12)


def test_projection_removes_the_lean_and_no_method_measures_its_own_yardstick(rng):
    rows = rng.standard_normal((6, 2, 16))
    rows /= np.linalg.norm(rows, axis=2, keepdims=True)
    stick = association.yardstick(rows, 20, 0)
    space = eq.AttributeSpace.from_prototypes(dict(zip("ab", stick.prototypes, strict=True)))
    texts = rng.standard_normal((4, 16))
    np.testing.assert_allclose(
        association.leans(eq.debias(texts, space, kappa=np.inf), stick.prototypes), 0, atol=1e-12
    )
    assert stick.explicit > 0 and stick.n == 6


def test_skew_of_each_prompt_is_that_of_the_metric_and_its_mean_is_in_the_summary(
    audited, folder, encoder
):
    results, _ = saved(audited)
    source = read_images(folder / "people.csv", group_columns=["gender"])
    rows = encoder.encode_images(source.pictures)
    kept = np.isfinite(rows).all(1)
    gender = source.table["gender"].to_numpy(dtype=object)[kept]
    prompts = [entry["prompt"] for entry in results["prompts"]]
    scores = encoder.encode_text(prompts).astype(np.float64) @ rows[kept].T.astype(np.float64)
    expected = metrics.max_skew(
        scores, sensitive_features=gender, m=results["settings"]["m"], average=False
    )
    found = [entry["max_skew"][0]["value"] for entry in results["prompts"]]
    np.testing.assert_allclose(found, expected, atol=1e-9)
    (mean,) = (row for row in results["summary"] if row["key"] == "max_skew")
    assert mean["values"][0]["value"] == pytest.approx(np.mean(expected)) and mean["n"] == 115
    for entry in results["prompts"]:
        for method, shares in enumerate(entry["top"]):
            assert sum(one["value"] for one in shares) == pytest.approx(1), (
                entry["prompt"],
                method,
            )


def test_every_estimate_holds_its_value_and_every_method_its_change(audited):
    results, _ = saved(audited)
    keys = {row["key"] for row in results["summary"]}
    assert {
        "lean",
        "max_skew",
        "ndkl",
        "probe",
        "leakage_texts",
        "leakage_images",
        "self_loss_texts",
        "self_loss_images",
    } <= keys
    assert {
        "macro F1",
        "EO_max",
        "R@5",
        "explicit_nearest",
        "explicit_top",
        "explicit_top_gated",
    } <= keys
    for row in results["summary"]:
        assert row["n"] > 0 and row["over"] and len(row["values"]) == 3
        for i, value in enumerate(row["values"]):
            assert value["low"] - 1e-9 <= value["value"] <= value["high"] + 1e-9, row["key"]
            if i:
                assert value["change"]["value"] == pytest.approx(
                    value["value"] - row["values"][0]["value"]
                )


def test_every_interval_is_centred_as_the_report_says_of_all(rng):
    """A gap of two rates that are equal is above zero in most resamples; the interval is about its value all the same."""
    classes, gender = np.array(["a", "b"] * 60), np.repeat(["male", "female"], 60)
    right = metrics.bootstrap_classification(
        classes, {"none": classes}, sensitive_features=gender, resamples=50
    )
    wrong = np.where(np.arange(120) % 6 < 2, "a", classes)
    some = metrics.bootstrap_classification(
        classes, {"none": wrong, "same": wrong}, sensitive_features=gender, resamples=200
    )
    plain = some.estimate("none", "EO max (printed)", kind="percentile")
    gap = some.estimate("none", "EO max (printed)", limits=SHARE)
    assert gap.value == 0 < plain.low
    (entry, other) = intervals.of_estimates(
        [gap, gap], [some.difference("same", "none", "EO max (printed)")]
    )
    assert entry.low == 0 <= entry.high < 1
    assert other.change == Ranged(value=0, low=0, high=0)
    [whole] = intervals.of_estimates([right.estimate("none", "accuracy")], [])
    assert whole.to_plain() == {"value": 1, "low": 1, "high": 1}


def test_what_chance_gives_has_the_range_that_is_said(folder, encoder):
    source = read_images(folder / "people.csv", group_columns=["gender"])
    options = {"source": source, "group_columns": ["gender"], "specs": parse(["none"])}
    wide, narrow = (
        run(
            make_plan(
                encoder,
                eq.Attribute.load("gender"),
                settings=AuditSettings(resamples=10, level=level),
                **options,
            )
        ).document
        for level in (0.95, 0.5)
    )
    for key in ("max_skew", "ndkl", "mean_max_skew"):
        outer, inner = getattr(wide.chance, key), getattr(narrow.chance, key)
        assert outer.low < inner.low < inner.high < outer.high
    assert "lean more than 50 % of random rankings do" in filled(narrow)[0]


def test_one_resample_makes_no_interval(rng):
    for found in (
        intervals.values(np.ones(2), np.full((2, 1), 3.0), 0.95),
        intervals.of_means(rng.standard_normal((2, 9)), 1, 0.95, 0),
    ):
        assert all(entry.low is None and entry.high is None for entry in (*found, found[1].change))


def test_the_share_of_all_images_is_that_of_those_whose_group_is_known(audited):
    document, _ = read(audited)
    assert document.subject.images.unknown == 5
    assert sum(one.share for one in document.chance.top) == pytest.approx(1)
    assert "of all images of a known group are" in words.sentences(document)[0]


def test_recall_is_of_captions_whether_or_not_a_group_is_known(audited, folder, encoder):
    by_key = {row["key"]: row for row in saved(audited)[0]["summary"]}
    table = read_images(folder / "people.csv", caption_column="caption")
    rows = encoder.encode_images(table.pictures)
    kept = np.isfinite(rows).all(1)
    scores = encoder.encode_text(table.table["caption"][kept].tolist()) @ rows[kept].T
    assert by_key["R@5"]["values"][0]["value"] == pytest.approx(
        metrics.recall_at_k(scores, np.arange(120), 5)
    )
    assert (by_key["R@5"]["n"], by_key["R@5"]["over"]) == (120, "captions")
    assert (by_key["accuracy"]["n"], by_key["accuracy"]["over"]) == (
        115,
        "images",
    )  # five groups are unknown


def test_certificates_stay_within_their_bounds(audited):
    results, _ = saved(audited)
    closed, adapted = results["certificates"][1:]
    assert closed["cross"]["within"] and closed["cross"]["largest"] <= closed["cross"]["bound"]
    assert closed["images"]["differs_from_theory_by"]["leakage"] < 1e-5
    assert adapted["images"] is None and adapted["cross"]["within"]  # images are left alone


def test_the_dial_at_a_methods_kappa_gives_what_the_method_gives(audited):
    results, _ = saved(audited)
    by_key = {row["key"]: row["values"] for row in results["summary"]}
    for method, grid in enumerate(results["dials"]):
        if grid is None:
            continue
        place = grid["kappas"].index(1.0)
        assert grid["max_skew"][place] == pytest.approx(by_key["max_skew"][method]["value"])
        assert grid["lean"][place] == pytest.approx(by_key["lean"][method]["value"])
        assert grid["max_skew"][0] == pytest.approx(
            by_key["max_skew"][0]["value"]
        )  # kappa 0 is the model as it is
        assert grid["kappas"][-1] == "inf" and grid["leakage_texts"][-1] == 0
    closed = results["dials"][1]
    assert closed["self_loss_images"][closed["kappas"].index(1.0)] == pytest.approx(
        by_key["self_loss_images"][1]["value"], abs=1e-6
    )


def test_leakage_and_loss_are_of_directions_whatever_length_a_method_leaves(folder, encoder):
    """Of unit rows, as MATH.md defines both; prism-mini's rows are shorter."""
    source = read_images(folder / "photos")
    audit = run(
        make_plan(
            encoder,
            eq.Attribute.load("gender"),
            source=source,
            specs=parse(["prism-mini"]),
            settings=QUICK,
        )
    )
    rows = encoder.encode_images(source.pictures)
    rows = rows[np.isfinite(rows).all(1)]
    book = eq.PromptBook.curated("occupations-gender")
    operator = eq.methods.create("prism-mini").fit(
        eq.FitContext(eq.Attribute.load("gender"), encoder=encoder, book=book)
    )
    changed = operator.image(rows)
    lengths = np.linalg.norm(changed, axis=1)
    assert not operator.unit and lengths.max() < 1
    found = {row["key"]: row["values"][1]["value"] for row in audit.document.to_plain()["summary"]}
    assert found["leakage_images"] == pytest.approx(
        (np.linalg.norm(changed @ audit.space.basis, axis=1) / lengths).mean(), abs=1e-6
    )
    assert found["self_loss_images"] == pytest.approx(
        1 - ((changed * rows).sum(1) / lengths).mean(), abs=1e-6
    )


def test_the_paper_and_the_balanced_page_are_measured_unless_others_are_named():
    results = run(made_plan()).document.to_plain()
    assert [method["label"] for method in results["methods"]] == ["none", "closed-form", "balanced"]
    assert results["methods"][2]["params"]["k"] == results["settings"]["m"]


def test_the_certificate_of_every_search_is_in_the_results_and_in_the_page():
    """Its shares are those that the prompts see, so that of the images' own labels stand beside them, not in it."""
    audit = run(made_plan())
    closed, balanced = audit.document.to_plain()["certificates"][1:]
    assert closed["search"] is None and closed["pages"] is None
    pages, search = balanced["pages"], balanced["search"]
    assert len(pages) == search["n"] == search["exact"] == len(audit.document.to_plain()["prompts"])
    for one in pages:
        assert one["k"] == audit.document.to_plain()["settings"]["m"] and one["exact"]
        assert abs(one["gap"]) < 1e-9 and one["kept"] <= 1 + 1e-9
        assert sum(one["before"].values()) == pytest.approx(1)
        assert one["target"] == search["target"] and one["strength"] == 1
        # r + 1 images may be tied at the edge of the page
        assert one["kept_of_bound"] == pytest.approx(1, abs=2 / one["k"])
    assert search["kept"]["least"] == min(one["kept"] for one in pages)
    shown = page(audit.document, audit.pictures)
    assert "the certificate of each search" in shown and "The shares aimed at:" in shown
    assert sum(search["target"].values()) == pytest.approx(1)
    assert search["out_of_reach"] == 0 and search["doubt"] == "" and "In doubt" not in shown
    told = " ".join(filled(audit.document))
    assert f"Certified: the first {search['k']} results of {search['n']} of {search['n']}" in told


def filled(document):
    """The sentences of the verdict, as a reader sees them."""
    return [numbers.fill(sentence, document) for sentence in words.sentences(document)]


def test_the_gate_leaves_explicit_prompts_as_they_were(audited):
    by_key = {row["key"]: row["values"] for row in saved(audited)[0]["summary"]}
    assert by_key["explicit_lean_gated"][1]["value"] == by_key["explicit_lean_gated"][0]["value"]
    assert by_key["explicit_lean"][1]["value"] < by_key["explicit_lean"][0]["value"]


def test_on_real_clip_embeddings_adapted_with_an_infinite_kappa_is_near_chance():
    """The numbers of MATH.md: celebrities, gender, M = 100; skew falls to about half with kappa infinity."""
    with np.load(shared_data("embeddings/celeba1000_clip_vitb32.npz"), allow_pickle=False) as file:
        rows, male = (
            file["image"].astype(np.float32),
            file["attrs"][:, list(file["attr_names"]).index("Male")] > 0,
        )
        table = pd.DataFrame(
            {"path": file["filename"].astype(str), "gender": np.where(male, "male", "female")}
        )
    vectors = TextVectors.load(shared_data("embeddings/text_clip_vitb32_objects.npz"))
    with np.load(
        shared_data("embeddings/text_clip_vitb32_objects.npz"), allow_pickle=False
    ) as file:
        people = {"a Man", "a Woman", "a Boy", "a Girl", "a Human face"}
        named = zip(file["prompt"].tolist(), file["source"].tolist(), strict=True)
        prompts = [prompt for prompt, source in named if source == "oid" and prompt not in people]
    book = eq.PromptBook.of(
        {"a Person": {"male": ["a Man", "a Boy"], "female": ["a Woman", "a Girl"]}}
    )
    options = {
        "prompts": prompts,
        "book": book,
        "group_columns": ["gender"],
        "source": ImageSource("CelebA", table, None, rows),
    }
    plan = make_plan(
        vectors,
        eq.Attribute.load("gender"),
        specs=parse(["adapted:kappa=inf"]),
        settings=QUICK,
        **options,
    )
    results = run(plan).document.to_plain()
    skews = next(row["values"] for row in results["summary"] if row["key"] == "max_skew")
    assert skews[0]["value"] == pytest.approx(0.320, abs=0.001) and skews[1][
        "value"
    ] == pytest.approx(0.146, abs=0.001)
    assert results["chance"]["max_skew"]["value"] == pytest.approx(0.0722, abs=1e-4)
    verdict = results["verdict"]
    assert verdict["state"] == "leans" and verdict["methods"][0]["outcome"] == "lowered"
    assert results["settings"]["exact_dial"] is False and len(results["dials"][1]["kappas"]) == len(
        dial.COARSE
    )


@pytest.fixture(scope="module")
def demonstration(tmp_path_factory):
    """``equipoise audit`` as make demo types it."""
    embedded_file(component("equipoise_mini").gallery)
    out = tmp_path_factory.mktemp("demo") / "demo"
    assert typed("audit", "--out", out, "--workers", 0, "--resamples", 200) == 0
    return out


@pytest.mark.slow
def test_the_demonstration_is_balanced_to_within_twice_what_shuffled_labels_give(demonstration):
    results, _ = saved(demonstration)
    skews = next(row["values"] for row in results["summary"] if row["key"] == "max_skew")
    before, paper, balanced = (value["value"] for value in skews)
    assert balanced <= 2 * results["chance"]["mean_max_skew"]["value"]
    assert before > 0.35 and paper > 0.25
    told = " ".join(filled(read(demonstration)[0]))
    assert "shuffled labels would give 7 %" in told and "to 5 % above it" in told
    assert "to 5 % above it" in re.sub(r"<[^>]+>", "", (demonstration / "report.html").read_text())


@pytest.mark.slow
def test_a_skew_beyond_chance_has_an_interval_that_leaves_the_floor_out(demonstration):
    results, _ = saved(demonstration)
    alone, together = results["chance"]["max_skew"], results["chance"]["mean_max_skew"]
    (mean,) = (row for row in results["summary"] if row["key"] == "max_skew")
    estimates = [(value, together) for value in mean["values"]]
    for entry in results["prompts"]:
        estimates += [(value, alone) for value in entry["max_skew"]]
    beyond = [pair for pair in estimates if pair[0]["value"] > pair[1]["high"]]
    assert beyond
    for value, chance in beyond:
        assert chance["value"] < value["low"] <= value["value"]


# --- Where photographs come from ---------------------------------------------------------------------------------------------


def test_a_folder_a_table_a_parquet_and_a_store_are_the_same_images(folder, encoder, tmp_path):
    embedding.embed(
        embedding.read_source(folder / "people.csv", "image", "file"), tmp_path / "store", encoder
    )
    found = {}
    for name in (
        folder / "photos",
        folder / "people.csv",
        folder / "people.parquet",
        tmp_path / "store",
    ):
        source = read_images(name)
        plan = make_plan(
            encoder,
            eq.Attribute.load("gender"),
            source=source,
            specs=parse(["none"]),
            settings=QUICK,
        )
        found[name.name] = run(plan).document.to_plain()
    skews = {
        name: round(
            next(row for row in r["summary"] if row["key"] == "max_skew")["values"][0]["value"], 6
        )
        for name, r in found.items()
    }
    assert len(set(skews.values())) == 1, skews
    assert all(
        r["subject"]["images"]["n"] == 120 and r["subject"]["groups_from"] == "zero-shot"
        for r in found.values()
    )
    assert all(r["gallery"] for r in found.values())
    assert "1 of 121 images could not be read" in found["people.csv"]["notes"][0]


def test_a_stores_pictures_are_those_it_was_made_of_wherever_it_is_read(
    folder, encoder, tmp_path, monkeypatch
):
    embedding.embed(embedding.read_source(folder / "photos"), tmp_path / "store", encoder)
    (tmp_path / "here").mkdir()
    Image.new("RGB", (9, 9)).save(tmp_path / "here" / "7.png")  # another picture, of the same name
    monkeypatch.chdir(tmp_path / "here")
    source = read_images(tmp_path / "store")
    assert source.pictures == [str(folder / "photos" / name) for name in source.names]


def test_pictures_of_one_name_in_two_folders_find_their_own_rows(
    folder, encoder, tmp_path, monkeypatch
):
    for i in range(6):
        (tmp_path / "photos" / "ab"[i % 2]).mkdir(parents=True, exist_ok=True)
        (tmp_path / "photos" / "ab"[i % 2] / f"{i // 2}.png").write_bytes(
            (folder / "photos" / f"{i}.png").read_bytes()
        )
    monkeypatch.chdir(tmp_path)
    store = embedding.embed(embedding.read_source("photos"), tmp_path / "store", encoder)
    for images in (Path("photos"), tmp_path / "photos"):
        found, there = sources.rows(read_images(images, tmp_path / "store"), encoder)
        assert there.all()
        np.testing.assert_allclose(found, store.load(), atol=1e-6)


def test_a_group_column_never_takes_the_place_of_another(folder, encoder, tmp_path):
    table = pd.read_parquet(folder / "people.parquet").rename(columns={"gender": "label"})
    table.to_parquet(tmp_path / "people.parquet")
    table.assign(file=[str(folder / name) for name in table["file"]]).drop(columns="image").to_csv(
        tmp_path / "people.csv", index=False
    )
    embedding.embed(
        embedding.read_source(tmp_path / "people.csv", "image", "file"), tmp_path / "store", encoder
    )
    for where in (tmp_path / "people.parquet", tmp_path / "store"):
        with pytest.raises(InputError, match="may not be named label"):
            read_images(where, group_columns=["label"], label_column="job")
        assert set(read_images(where, group_columns=["label"]).table["label"]) == {
            "Male",
            "Female",
            "unknown",
        }


def test_embeddings_without_pictures_have_no_gallery_but_all_numbers(folder, encoder, tmp_path):
    rows = encoder.encode_images(read_images(folder / "photos").pictures)
    np.save(tmp_path / "rows.npy", rows[np.isfinite(rows).all(1)])
    plan = make_plan(
        encoder,
        eq.Attribute.load("gender"),
        source=read_images(tmp_path / "rows.npy"),
        settings=QUICK,
    )
    audit = run(plan)
    assert (
        audit.document.to_plain()["gallery"] is None
        and not audit.pictures.small
        and audit.document.to_plain()["chance"]
    )
    assert "galleries" not in re.findall(r'id="(\w+)"', page(audit.document, audit.pictures))


@pytest.mark.slow
def test_an_intersection_and_several_attributes(folder, tmp_path, capsys):
    columns = ["--group-columns", "gender", "--group-columns", "age"]
    quick = ["--resamples", "20", str(folder / "people.csv"), "--method", "closed-form"]
    assert (
        command(
            folder,
            *quick,
            *columns,
            "-a",
            "gender&age",
            "-p",
            "people-gender-age",
            "--out",
            str(tmp_path / "one"),
        )
        == 0
    )
    results, _ = saved(tmp_path / "one")
    assert (
        len(results["subject"]["attribute"]["groups"]) == 4
        and results["subject"]["space"]["rank"] == 3
    )
    assert (
        command(
            folder, *quick, *columns, "-a", "gender", "-a", "age", "--out", str(tmp_path / "two")
        )
        == 0
    )
    assert {path.name for path in (tmp_path / "two").iterdir()} == {"gender", "age", "report.html"}
    assert saved(tmp_path / "two" / "age")[0]["subject"]["group_columns"] == ["age"]


def test_columns_belong_to_the_attribute_they_are_named_after():
    assert columns_for(eq.Attribute.load("age"), ["gender", "age"]) == ("age",)
    assert columns_for(eq.Attribute.load("gender & age"), ["age", "gender"]) == ("gender", "age")
    assert columns_for(eq.Attribute.load("gender"), ["sex"]) == ("sex",)


def test_text_only(folder, encoder, tmp_path):
    assert command(folder, "--out", str(tmp_path / "a"), "--resamples", "20") == 0
    results, _ = saved(tmp_path / "a")
    assert results["chance"] is None and results["subject"]["images"] is None
    assert [method["method"] for method in results["methods"]] == [
        "none",
        "closed-form",
        "orth-proj",
    ]
    lean = next(row["values"] for row in results["summary"] if row["key"] == "lean")
    assert (
        lean[2]["value"] == pytest.approx(0, abs=1e-6) and 0 < lean[1]["value"] < lean[0]["value"]
    )
    assert "texts only" in (tmp_path / "a" / "report.html").read_text()


# --- The files ---------------------------------------------------------------------------------------------------------------


def test_a_folder_is_left_with_report_results_space_and_card(audited):
    assert {path.name for path in audited.iterdir()} - {"images.npy"} == {
        "report.html",
        "operators",
        "images.csv",
        "results.json",
        "data.safetensors",
        "space.safetensors",
        "model-card.md",
    }
    results, _ = saved(audited)
    space = eq.AttributeSpace.load(audited / "space.safetensors")
    assert (
        space.fingerprint == results["subject"]["space"]["fingerprint"]
        and space.encoder.fingerprint
    )
    card = (audited / "model-card.md").read_text()
    assert card == model_card(results) and words.headline(results) in card
    names = re.findall(r"^\| ([^|]+) \((?:lower|higher) is better\)", card, re.M)
    assert (
        len(names) == len(set(names)) == len(results["summary"])
    )  # with the gate and without it are told apart


def test_a_narrow_terminal_cuts_no_number(audited):
    results, _ = saved(audited)
    results["prompts"][results["verdict"]["worst"][0]]["prompt"] = (
        "a photo of a person pushing a shopping cart in the street"
    )
    console = Console(width=80, file=io.StringIO())
    console.print(terminal.summary(AuditDocument.model_validate(results)))
    assert "…" not in console.file.getvalue()


def test_the_saved_results_give_the_same_page(audited, tmp_path):
    made = page(*saved(audited))
    assert made == (audited / "report.html").read_text()
    assert typed("report", str(audited), "--out", str(tmp_path / "again.html")) == 0
    assert (tmp_path / "again.html").read_text() == made
    assert (
        typed("report", str(audited / "results.json"), "--out", str(tmp_path / "again.html")) == 2
    )  # nothing is overwritten
    assert (
        typed(
            "report",
            str(audited / "results.json"),
            "--out",
            str(tmp_path / "again.html"),
            "--force",
        )
        == 0
    )


def test_what_another_audit_left_never_lies_beside_new_results(audited, tmp_path):
    document, pictures = read(audited)
    write(tmp_path, document, pictures)
    assert read(tmp_path)[1].small
    write(tmp_path, document, Pictures())
    assert not read(tmp_path)[1].small and not read(tmp_path)[1].arrays


def test_results_alone_give_a_page_without_pictures(audited, tmp_path):
    (tmp_path / "results.json").write_bytes((audited / "results.json").read_bytes())
    made = page(*saved(tmp_path))
    assert "data:image/jpeg" not in made and "grid of kappas" in made


def test_the_summary_names_the_worst_prompts_and_the_report(folder, tmp_path, capsys):
    assert (
        command(
            folder,
            str(folder / "photos"),
            "--out",
            str(tmp_path / "a"),
            "--resamples",
            "20",
        )
        == 0
    )
    told = " ".join(capsys.readouterr().out.split())
    results, _ = saved(tmp_path / "a")
    assert words.headline(results) in told and "report.html" in told and "zero-shot" in told
    for place in results["verdict"]["worst"]:
        assert results["prompts"][place]["prompt"][:20] in told


def test_json_is_the_results_and_ci_gets_its_exit_code(folder, tmp_path, capsys):
    quick = ["--resamples", "20", "--method", "none"]
    assert command(folder, *quick, "--out", str(tmp_path / "a"), "--json", "--fail-above", "0") == 3
    told = capsys.readouterr()
    assert json.loads(told.out) == saved(tmp_path / "a")[0] and "is above 0" in told.err
    assert command(folder, *quick, "--out", str(tmp_path / "b"), "--fail-above", "5") == 0
    assert (tmp_path / "a" / "report.html").is_file()  # a failed check still leaves its report


def test_the_benchmark_audits(capsys):
    assert (
        typed(
            "bench",
            "audit",
            "--count",
            300,
            "--prompt-count",
            6,
            "--dim",
            16,
            "--resamples",
            20,
            "--json",
        )
        == 0
    )
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert row["images"] == 300 and row["seconds"] > 0 and 0.1 < row["page_megabytes"] < 5


def test_it_is_repeatable(encoder):
    plan = make_plan(encoder, eq.Attribute.load("gender"), settings=QUICK)
    first, second = (run(plan).document.to_plain() for _ in range(2))
    assert first == second


# --- What goes wrong ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["{}/people.csv", "-a", "gender", "--group-columns", "same"], "has one value"),
        (
            ["{}/people.csv", "-a", "gender", "--group-columns", "nothing"],
            "has no column nothing",
        ),
        (["{}/nowhere"], "there is no"),
        (["{}/people.csv", "-m", "500"], "smaller --skew-at"),
        (["--group-columns", "gender"], "pass IMAGES"),
        (["--method", "adapted"], "there are none; pass IMAGES"),
        (["--method", "nonsense"], "there is no method"),
        (["--method", "closed-form:scope=per prompt"], "pass scope=shared"),
        (["--prompts", "{}/nothing.txt"], "neither a file nor a curated book"),
        (["--prompts", "{}/things.txt"], "speaks of a person"),
        (["--prompts", "{}/named.txt"], "name a group themselves"),
        (["--attribute", "height"], "no ready-made attribute"),
        (["--kappa", "-1"], "kappa"),
        (["{}/empty"], "empty holds no images (.bmp, .gif, .jpeg, "),
        (["{}/notes"], ", .webp); the 1 files in it are none"),
        (["{}/unreadable"], "can be read"),
        (["{}/gone.csv"], "1 of the 121 images"),
        (["{}/unnamed.csv"], "has no column named path"),
        (["{}/none.npy"], "one row per image"),
        (["{}/photos", "--label-column", "job"], "has no column job"),
        (["{}/people.csv", "--label-column", "same"], "needs two classes"),
        (["{}/people.csv", "--label-column", "blank"], "no class"),
        (["{}/people.csv", "--caption-column", "blank"], "holds no caption"),
        (["-a", "gender", "-a", "gender"], "named twice"),
    ],
)
def test_what_is_wrong_is_said_before_long_work(folder, tmp_path, capsys, arguments, told):
    (folder / "things.txt").write_text("zzz qqq\n")
    (folder / "named.txt").write_text("a photo of a female doctor\n")
    (folder / "empty").mkdir(exist_ok=True)
    (folder / "notes").mkdir(exist_ok=True)
    (folder / "notes" / "a.txt").write_text("x")
    (folder / "unreadable").mkdir(exist_ok=True)
    (folder / "unreadable" / "a.png").write_bytes(b"nothing")
    (folder / "gone.csv").write_text(
        (folder / "people.csv").read_text().replace("photos/7.png", "photos/seven.png")
    )
    (folder / "unnamed.csv").write_text("which,gender\nphotos/0.png,Male\n")
    np.save(folder / "none.npy", np.zeros((0, 16), np.float32))
    given = [argument.format(folder) for argument in arguments]
    if "things.txt" in given[-1]:
        given += ["--book", "grammar"]
    assert command(folder, *given, "--out", str(tmp_path / "out")) == 2
    said = capsys.readouterr().err
    assert told in said and "Traceback" not in said
    assert not (tmp_path / "out").exists()
    own = re.sub(r"equipoise (?!audit)\w+ --[\w-]+", "", said)  # what it advises can be typed
    assert set(re.findall(r"--\w[\w-]+", own)) <= {
        option for parameter in audit_options() for option in parameter.opts
    }


def audit_options():
    return typer.main.get_command(cli.app).commands["audit"].params


def test_saved_operators_that_cannot_stand_beside_the_model_are_refused(folder, encoder, tmp_path):
    """One that narrows rows, whose texts have no lean; one whose file is named like the model as it is."""
    attribute, rows = (
        eq.Attribute.load("gender"),
        encoder.encode_images(read_images(folder / "photos").pictures[:40]),
    )
    book = eq.PromptBook.curated("occupations-gender")
    context = eq.FitContext(
        attribute,
        encoder=encoder,
        book=book,
        images=rows,
        sensitive_features=["male", "female"] * 20,
    )
    eq.methods.create("clip-clip", m=4).fit(context).save(tmp_path / "narrow.safetensors")
    eq.methods.create("closed-form").fit(context).save(tmp_path / "none.safetensors")
    for name, told in (("narrow", "rows 28 wide"), ("none", "two methods have one name")):
        with pytest.raises(InputError, match=told):
            run(
                make_plan(
                    encoder,
                    attribute,
                    specs=parse([str(tmp_path / f"{name}.safetensors")]),
                    settings=QUICK,
                )
            )


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")
def test_a_file_name_that_is_no_text_is_named(folder, tmp_path, capsys):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / os.fsdecode(b"caf\xe9.png")).write_bytes(
        (folder / "photos" / "0.png").read_bytes()
    )
    assert command(folder, tmp_path / "photos", "--out", tmp_path / "out") == 2
    assert "1 file names in" in (said := capsys.readouterr().err) and "not UTF-8" in said


def test_a_model_of_texts_alone_audits_texts_and_refuses_pictures(folder, tmp_path, capsys):
    component("sentence_transformers")
    given = ["--model", f"st:{folder / 'texts' / 'st'}", "--resamples", "10"]
    assert command(folder, *given, "--out", str(tmp_path / "a"), model=False) == 0
    assert (
        command(
            folder,
            *given,
            str(folder / "photos"),
            "--out",
            str(tmp_path / "b"),
            model=False,
        )
        == 2
    )
    assert "encodes texts only" in capsys.readouterr().err


def test_nothing_is_overwritten_without_force(folder, tmp_path, capsys):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("keep")
    assert (
        command(folder, "--out", str(tmp_path / "out")) == 2
        and "--force" in capsys.readouterr().err
    )
    assert command(folder, "--out", str(tmp_path / "out" / "mine.txt")) == 2
    assert command(folder, "--out", str(tmp_path / "out"), "--force", "--resamples", "10") == 0
    assert (tmp_path / "out" / "mine.txt").read_text() == "keep" and (
        tmp_path / "out" / "report.html"
    ).is_file()


def test_groups_that_prompts_cannot_tell_apart_are_not_balanced():
    """The images' labels have nothing to do with what the prompts see: a note by default, an error where it was asked for."""
    blind = made_plan(sees=0.0)
    results = run(blind).document.to_plain()
    assert [method["label"] for method in results["methods"]] == ["none", "closed-form"]
    [note] = results["notes"]
    assert note.startswith("balanced was left out: the prompts do not tell the groups of gender")
    with pytest.raises(InputError, match="balancing would follow noise"):
        run(made_plan(sees=0.0, methods=["balanced"]))


def test_who_comes_first_is_asked_of_fewer_places_than_there_are_images(folder, encoder):
    """All images in first place would show the collection, and there are not twenty places."""
    few = read_images(folder / "photos")
    few = ImageSource("few", few.table[:18], few.pictures[:18])
    settings = AuditSettings(m=5, resamples=10, permutations=5)
    results = run(
        make_plan(
            encoder,
            eq.Attribute.load("gender"),
            source=few,
            specs=parse(["none"]),
            settings=settings,
        )
    ).document.to_plain()
    assert results["settings"]["places"] == 5
    (row,) = (row for row in results["summary"] if row["key"] == "explicit_top")
    assert row["name"].startswith("share of the first 5 results")
    fifths = [share["value"] * 5 for entry in results["prompts"] for share in entry["top"][0]]
    np.testing.assert_allclose(fifths, np.round(fifths), atol=1e-5)


def test_images_of_an_unknown_group_take_no_place_behind_explicit_prompts(folder, encoder):
    """The same numbers as without them."""
    source = read_images(folder / "people.csv", group_columns=["gender"])
    hidden = np.arange(len(source.table)) % 3 > 0
    some = ImageSource(
        "some",
        source.table[~hidden].reset_index(drop=True),
        [p for p, out in zip(source.pictures, hidden, strict=True) if not out],
    )
    unknown = ImageSource(
        "unknown",
        source.table.assign(gender=source.table["gender"].mask(hidden, None)),
        source.pictures,
    )
    found = []
    for given in (some, unknown):
        options = {
            "source": given,
            "group_columns": ["gender"],
            "specs": parse(["closed-form"]),
            "settings": QUICK,
        }
        results = run(
            make_plan(encoder, eq.Attribute.load("gender"), **options)
        ).document.to_plain()
        found.append(
            {
                row["key"]: [v["value"] for v in row["values"]]
                for row in results["summary"]
                if row["key"].startswith("explicit_top")
            }
        )
    assert found[0] == found[1]


def test_a_gallery_is_full_at_every_kappa_however_few_places_skew_looks_at(folder, encoder):
    source, settings = (
        read_images(folder / "photos"),
        AuditSettings(m=5, resamples=10, permutations=5),
    )
    subject = prepare(
        make_plan(
            encoder,
            eq.Attribute.load("gender"),
            source=source,
            specs=parse(["closed-form"]),
            settings=settings,
        )
    )
    given = (
        subject.texts,
        subject.prompts,
        subject.yardstick.prototypes,
        subject.index.rows,
        subject.index.groups,
        subject.index.m,
    )
    document, firsts = dial.grid(
        subject.operators["closed-form"], dial.Inputs(*given), settings.gallery, {}
    )
    assert [first.shape for first in firsts] == [(len(subject.prompts), 12)] * len(document.kappas)


def test_places_are_fewer_than_images():
    assert (
        choose_m(None, 100_000) == 1000
        and choose_m(None, 3000) == 300
        and choose_m(None, 50) == 20
        and choose_m(7, 8) == 7
    )
    for m, known in ((None, 20), (8, 8)):
        with pytest.raises(InputError, match="smaller `m`"):
            choose_m(m, known)


@pytest.mark.parametrize(
    "text",
    ["{}", "[]", '{"kind": "other"}', "no json", '{"kind": "equipoise audit", "format": 99}'],
)
def test_other_files_are_no_results(tmp_path, text):
    (tmp_path / "results.json").write_text(text)
    with pytest.raises(EquipoiseError):
        read(tmp_path)
    with pytest.raises(EquipoiseError):
        read(tmp_path / "nowhere")


def test_results_that_somebody_changed_are_refused(audited, tmp_path, capsys):
    results, _ = saved(audited)
    for change in ({"summary": []}, {"verdict": {}}, {"prompts": "none"}, {"dials": []}):
        (tmp_path / "results.json").write_text(json.dumps(results | change))
        assert typed("report", str(tmp_path), "--out", str(tmp_path / "page.html")) == 2
        assert (
            "run the audit again" in capsys.readouterr().err
            and not (tmp_path / "page.html").exists()
        )


# --- The page, without a browser -----------------------------------------------------------------------------------------------


def test_what_nothing_exceeds_is_rounded_up(audited):
    assert [numbers.text(x, "u3") for x in (0.0921, 0.092, 0.0, 1e-9)] == [
        "0.093",
        "0.092",
        "0.000",
        "0.001",
    ]
    document, _ = read(audited)
    told = " ".join(filled(document))
    cross = document.certificates[document.verdict.best].cross
    (most, bound) = (
        float(x)
        for x in re.search(
            r"by ([\d.]+) at most \(the guaranteed bound is ([\d.]+)\)", told
        ).groups()
    )
    assert most >= cross.largest and bound >= cross.bound


@pytest.mark.parametrize("kind", ["audit", "comparison"])
def test_every_number_in_the_page_is_that_of_the_results(audited, kind):
    results, pictures = saved(audited)
    html = (
        page(results, pictures)
        if kind == "audit"
        else comparison([("one", results), ("two", results)])
    )
    found = json.loads(html.split('id="results">')[1].split("</script>")[0])
    assert results in (found, *(run["results"] for run in found.get("runs", ())))
    spans, rest = visible(html)
    assert len(spans) > 100
    for path, form, shown in spans:
        assert unescape(shown) == numbers.text(numbers.at(found, path), form), path
    rest = unescape(rest)
    for word in results["notes"]:
        rest = rest.replace(word, "")
    assert [line.strip() for line in rest.splitlines() if re.search(r"\d", line)] == []


def test_nothing_in_the_page_comes_from_elsewhere(audited):
    html = (audited / "report.html").read_text()
    head = html.split("<script>")[0]
    assert "Content-Security-Policy" in head and "default-src 'none'" in head
    assert not re.search(r'<(?:script|img|link|iframe)[^>]+(?:src|href)="(?!data:|#)', head)


def test_hostile_words_stay_words(encoder):
    nasty = [
        "a photo of a </script><script>alert(1)</script> doctor",
        "a photo of a {settings.m|n} nurse & <b>teacher</b>",
    ]
    book = eq.PromptBook.of({"a photo of a person": GROUPS})
    audit = run(
        make_plan(encoder, eq.Attribute.load("gender"), prompts=nasty, book=book, settings=QUICK)
    )
    html = page(audit.document, audit.pictures)
    assert "<script>alert" not in html and "<b>teacher" not in html and "{settings.m|n}" in html
    assert (
        json.loads(html.split('id="results">')[1].split("</script>")[0])
        == audit.document.to_plain()
    )
