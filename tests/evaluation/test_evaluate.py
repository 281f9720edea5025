"""Evaluation as a user runs it: real small models, real files, the command line; runs, tables, resuming, and what goes wrong."""

from __future__ import annotations

import csv
import io
import json
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image
from rich.console import Console
from scripts import retrieval_by_gender

import equipoise as eq
from equipoise import _cli as cli
from equipoise import _embedding as embedding
from equipoise import evaluation as tasks
from equipoise.datasets._named import read_dataset
from equipoise.evaluation import Evaluation, EvaluationRun, Settings, _evaluation
from equipoise.evaluation import _paper as paper
from equipoise.evaluation import _queries as asked
from equipoise.evaluation import _tables as tables
from equipoise.evaluation._classification import measure_predictions
from equipoise.evaluation._grids import _marks, grids, interval, percent
from equipoise.evaluation._protocol import Protocol
from equipoise.evaluation._run_file import read, write
from equipoise.methods._specs import MethodSpec, parse
from equipoise.metrics._probe import METRIC as PROBE
from tests.helpers import models
from tests.helpers.common import ROOT, component, shared_data

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*texts are longer than the 24 tokens"
)  # the small model reads few
JOBS, QUICK = ("doctor", "nurse", "engineer"), Settings(resamples=40, permutations=10)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder of photographs with a csv: what a new user writes in five minutes."""
    component("transformers")
    root = tmp_path_factory.mktemp("people")
    rng = np.random.default_rng(0)
    lines = ["file,job,gender,caption"]
    for i in range(60):
        Image.fromarray(rng.integers(0, 255, (40, 40, 3), dtype=np.uint8)).save(root / f"{i}.png")
        gender = ("Male", "Female", "unknown")[0 if i < 28 else 1 if i < 55 else 2]
        lines.append(
            f"{i}.png,{JOBS[i % 3]},{gender},a photo of a {('man', 'woman', 'person')[i % 3]} in a park {i}"
        )
    (root / "broken.png").write_bytes(b"no picture")
    lines.append("broken.png,nurse,Male,a photo of a person")
    (root / "people.csv").write_text("\n".join(lines))
    (root / "queries.txt").write_text("a photo of a doctor\na photo of a person with glasses\n")
    models.clip(root / "model")
    return root


@pytest.fixture(scope="module")
def encoder(folder):
    return eq.load_encoder(
        f"hf:{folder / 'model'}", workers=0, batch_size=16
    )  # one size, so that the last bits are the same again


@pytest.fixture(scope="module")
def dataset(folder):
    return eq.datasets.table(
        folder / "people.csv",
        label_column="job",
        group_columns=["gender"],
        caption_column="caption",
    )


@pytest.fixture(scope="module")
def classification(dataset, encoder):
    evaluation = Evaluation("classification", dataset, encoder, settings=QUICK)
    with pytest.warns(UserWarning, match="1 of 61 images could not be read"):
        assert len(evaluation.measured.images[0]) == 60
    return evaluation


@pytest.fixture(autouse=True)
def cache_here(tmp_path, monkeypatch):
    monkeypatch.setenv("EQUIPOISE_CACHE", str(tmp_path / "cache"))


def equipoise(monkeypatch, capsys, *arguments):
    """Exit status, standard output and standard error of a command."""
    monkeypatch.setattr(sys, "argv", ["equipoise", *map(str, arguments)])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    printed = capsys.readouterr()
    return stop.value.code, printed.out, printed.err


@pytest.fixture(scope="module")
def run(classification):
    return classification.run(parse(["closed-form", "orth-proj", "closed-form:scope=per prompt"]))


def test_a_run_says_all_that_a_reader_needs(run, encoder):
    counts = run.counts.to_plain()
    assert counts.pop("first_without")[0].endswith("broken.png")
    assert counts == {
        "images": 60,
        "without_embedding": 1,
        "repeated": 0,
        "groups": {"female": 27, "male": 28},
    }  # the broken one is of a group, and not measured
    assert run.dataset.groups == {"female": 27, "male": 29} and run.dataset.rows == 61
    assert (
        run.encoder.fingerprint == encoder.fingerprint
        and run.versions["equipoise"] == eq.__version__
    )
    assert run.settings.seed == 0 and run.protocol.name == "mended"
    closed = run.methods["closed-form"]
    assert (
        closed.params["scope"] == "shared"
        and closed.changes == ["image", "text"]
        and closed.book.prompts == 3
    )
    row = next(row for row in run.rows if row.method == "closed-form" and row.metric == "EO_avg")
    assert row.n == 55 and row.left_out == 5  # of 60 readable images five are of unknown gender
    assert row.low <= row.high and row.difference.baseline == "none"


def test_a_run_is_the_task_on_the_rows(run, classification):
    rows, there = classification.measured.images
    operator = eq.methods.create("none").fit(eq.FitContext(classification.attribute))
    found = tasks.classify(
        {"none": operator},
        rows,
        classification.asked.by_label,
        labels=classification.measured.column("label")[there],
        sensitive_features=classification.measured.groups[there],
        texts=classification.texts,
        resamples=40,
    )
    values = {row.metric: row.value for row in found.rows()}
    assert values == {
        row.metric: row.value for row in run.rows if row.method == "none" and row.metric != PROBE
    }


def test_the_file_of_a_run_comes_back_and_is_the_same_again(run, classification, tmp_path):
    write(tmp_path / "run.json", run)
    assert read(tmp_path / "run.json") == run
    again = classification.run(parse(["closed-form", "orth-proj", "closed-form:scope=per prompt"]))
    assert again == run
    (tmp_path / "run.json").write_text('{"kind": "else"}')
    with pytest.raises(eq.EquipoiseError, match="is not the file of an evaluation"):
        read(tmp_path / "run.json")


def test_tables_are_made_from_the_file_alone(run):
    loaded = EvaluationRun.model_validate_json(run.to_text())
    text = tables.markdown([loaded])
    for method in ("none", "closed-form", "orth-proj", "closed-form (scope=per prompt)"):
        assert f"| {method} |" in text
    lines = list(csv.DictReader(io.StringIO(tables.csv_text([loaded]))))
    assert len(lines) == 4 * 5 + 3 and {
        "value",
        "low",
        "high",
        "n",
        "difference_value",
        "mark",
    } <= set(lines[0])
    latex = tables.latex([loaded])
    assert latex.count(r"\quad difference & ") == 3
    best = sum(line["mark"] == "best" for line in lines)
    assert latex.count(r"\textbf{[") == best
    assert latex.count(r"\\") >= 5 and r"$\downarrow$" in latex and "EO\\_max" in latex
    assert len(tables.rich_tables([loaded])) == 1


def test_a_narrow_terminal_cuts_nothing(run):
    (table,) = tables.rich_tables([run])
    console = Console(width=80, file=io.StringIO())
    console.print(table)
    shown = console.file.getvalue()
    assert "…" not in shown and all(len(line) <= 80 for line in shown.splitlines())
    assert {"none", "closed-form", "orth-proj", "(scope=per", "prompt)"} <= {
        line[2:].split(" │")[0].strip() for line in shown.splitlines()
    }
    (short,) = tables.rich_tables(
        [run.model_copy(update={"rows": [row for row in run.rows if row.method == "none"]})]
    )
    console.print(short)
    assert "method" in console.file.getvalue().removeprefix(shown)


def marked(*values):
    """Return the marks of made rows: (method, value, the interval of its difference from none)."""
    rows = {}
    for method, value, ends in values:
        gap = None
        if ends is not None:
            gap = SimpleNamespace(low=ends[0], high=ends[1])
        rows[method, "MS@10"] = SimpleNamespace(value=value, better="lower", difference=gap)
    marks = _marks(rows, [method for method, _, _ in values], ("MS@10",))
    return {method: mark for (method, _), mark in marks.items()}


def test_bold_is_the_best_of_all_rows_where_it_differs_beyond_chance():
    lower, higher, unsure = (-0.3, -0.1), (0.1, 0.3), (-0.2, 0.1)
    assert marked(("none", 0.4, None), ("a", 0.3, lower), ("b", 0.2, lower)) == {
        "a": "second",
        "b": "best",
    }
    # the best value in bold although none is better: no longer
    assert marked(("none", 0.1, None), ("a", 0.3, higher), ("b", 0.2, higher)) == {
        "none": "best",
        "b": "second",
    }
    assert marked(("none", 0.1, None), ("a", 0.3, higher), ("b", 0.2, unsure)) == {}
    assert marked(("none", 0.4, None), ("a", 0.3, unsure), ("b", 0.3, unsure)) == {}
    # what prints alike shares a mark
    assert marked(("none", 0.4, None), ("a", 0.2, lower), ("b", 0.20001, lower)) == {
        "a": "best",
        "b": "best",
        "none": "second",
    }


def ranged(document):
    """Return every value with an interval that a document holds."""
    found = []
    if isinstance(document, dict):
        if {"value", "low", "high"} <= set(document) and document["low"] is not None:
            found.append(document)
        for value in document.values():
            found += ranged(value)
    elif isinstance(document, list):
        for value in document:
            found += ranged(value)
    return found


def test_what_rounds_to_zero_is_printed_without_a_sign():
    for share in (-0.0004, -0.0, 0.0, 0.0004):
        assert percent(share, signed=True) == percent(share) == "0.0"
    assert percent(-0.0006, signed=True) == "-0.1" and percent(0.0006, signed=True) == "+0.1"


def test_every_interval_of_a_run_and_of_the_docs_holds_its_value(run):
    """Not "9.2 [11.2, 18.2]", in no cell."""
    files = sorted((ROOT / "docs" / "measurements").glob("*.json"))
    committed = [json.loads(path.read_text()) for path in files]
    own = ranged(run.model_dump())
    cells = own + ranged(committed)
    assert len(own) >= len(run.rows) and len(cells) > 500
    for cell in cells:
        assert cell["low"] <= cell["value"] <= cell["high"], cell


def test_cells_of_fewer_than_twenty_images_are_marked_in_every_table(run):
    """Seven blond men: the numbers that rest on them say so, on a terminal and in files."""
    rng = np.random.default_rng(0)
    sizes = {
        ("blond", "male"): 7,
        ("blond", "female"): 60,
        ("dark", "male"): 70,
        ("dark", "female"): 80,
    }
    labels = np.repeat([label for label, _ in sizes], list(sizes.values()))
    groups = np.repeat([group for _, group in sizes], list(sizes.values()))
    guesses = np.where(rng.random(len(labels)) < 0.8, labels, "dark")
    measured = measure_predictions(
        {"none": guesses}, labels=labels, sensitive_features=groups, classes=2, resamples=50
    )
    rows = {row.metric: row for row in measured.rows()}
    small = {name for name, row in rows.items() if row.small}
    assert small == {name for name in rows if name.startswith(("EO_", "worst-group"))}
    assert rows["worst-group accuracy"].small == ["blond, male 7"]
    assert "† [" in interval(rows["worst-group accuracy"])
    assert "†" not in interval(rows["accuracy"])
    first, *others = [row.model_copy(update={"small": None}) for row in run.rows]
    plain = run.model_copy(update={"rows": [first, *others]})
    cell = first.model_copy(update={"small": ["blond, male 7"]})
    few = run.model_copy(update={"rows": [cell, *others]})
    said = "† rests on fewer than 20 images: blond, male 7."
    assert "† [" in tables.markdown([few]) and said in tables.markdown([few])
    assert r"$^\dagger$" in tables.latex([few]) and said in tables.latex([few])
    assert "blond, male 7" in tables.csv_text([few])
    assert "†" not in tables.markdown([plain])


def test_the_papers_row_stands_beside_ours(run):
    for spec, expected in (
        (MethodSpec("none"), 0.450),
        (MethodSpec("closed-form"), 0.401),
        (MethodSpec("closed-form", {"modality": "text", "scope": "per prompt"}), 0.411),
        (MethodSpec("closed-form", {"prototype": "anchor"}), 0.411),
    ):
        found = paper.cell(
            "CLIP ViT-L/14", "classification", "CelebA", "gender & age", spec, "EO_max"
        )
        assert found is not None and found.value == pytest.approx(expected)
    for spec in (
        MethodSpec("closed-form", {"kappa": 2}),
        MethodSpec("closed-form", {"modality": "text", "prototype": "anchor"}),
    ):
        assert (
            paper.cell("CLIP ViT-L/14", "classification", "CelebA", "gender & age", spec, "EO_max")
            is None
        )
    assert (
        paper.model_of("hf:openai/clip-vit-large-patch14") == "CLIP ViT-L/14"
        and paper.model_of("hf:else") == ""
    )
    printed = paper.PublishedCell(
        table="2", value=0.54, spread=0.005, marker="second", problem="impossible"
    )
    first = run.rows[0].model_copy(update={"published": printed})
    shown = run.model_copy(update={"rows": [first, *run.rows[1:]]})
    assert "as published | 54.0 ±0.5 (!)" in tables.markdown([shown])
    assert r"\quad as published & [54.0]$\pm$0.5 (!)" in tables.latex([shown])
    assert (
        tables.latex(
            [EvaluationRun.model_validate_json(shown.to_text().replace("orth-proj", "a_b~c^d"))]
        ).count(r"a\_b\textasciitilde{}c\textasciicircum{}d")
        == 1
    )


def test_protocols_differ_in_scope_form_and_classes(dataset, encoder, classification):
    printed = Evaluation(
        "classification", dataset, encoder, settings=Settings("paper", resamples=10)
    )
    printed.measured.__dict__["images"] = classification.measured.images  # encoded already
    run = printed.run(parse(["closed-form"]))
    assert (
        run.methods["closed-form"].params["scope"] == "per prompt"
        and run.protocol.equal_opportunity == "printed"
    )


def test_the_released_protocol_is_the_released_code_to_the_letter(dataset, encoder, classification):
    """Its FACET prompts, its group of the unlabelled, its zero for an empty class; said below its tables."""
    labels = np.array(["astronaut", "tennis_player"])
    prompts = {
        name: list(asked.classes(labels, "FACET", Protocol.named(name), None, None, None).prompts)
        for name in ("released", "mended", "paper")
    }
    assert prompts["released"] == [
        "a photo of a person who is a astronaut",
        "a photo of a person who is a tennis_player",
    ]
    assert prompts["mended"][0] == "a photo of a person who is an astronaut"
    assert prompts["paper"] == ["a photo of an astronaut", "a photo of a tennis player"]
    runs = {}
    for name in ("released", "mended"):
        settings = Settings(name, resamples=10, permutations=5, probe=0, m=9)
        evaluation = Evaluation(
            "retrieval", dataset, encoder, settings=settings, prompts=["a photo of a doctor"]
        )
        evaluation.measured.__dict__["images"] = classification.measured.images
        runs[name] = evaluation.run(parse(["none"]))
        rows, there = evaluation.measured.images
        groups = evaluation.measured.groups[there]
        if name == "released":
            groups = np.array([group or "nobody knows" for group in groups], dtype=object)
        scores = evaluation.texts @ rows.T
        expected = eq.metrics.max_skew(scores, sensitive_features=groups, m=9)
        skew = next(row for row in runs[name].rows if row.metric == "MS@9")
        assert skew.value == pytest.approx(expected)
    assert "count as a group of their own" in tables.markdown([runs["released"]])
    assert "As released" not in tables.markdown([runs["mended"]])
    measured = {
        name: measure_predictions(
            {"none": list("aabb")},
            labels=list("aabb"),
            sensitive_features=list("xyxy"),
            classes=4,
            protocol=name,
            resamples=5,
        ).rows()[0]
        for name in ("released", "mended")
    }
    assert measured["released"].value == 0.5 and measured["mended"].value == 1


def test_retrieval_with_captions_and_with_queries(dataset, encoder, classification, folder):
    captions = Evaluation("retrieval", dataset, encoder, settings=QUICK)
    captions.measured.__dict__["images"] = classification.measured.images
    run = captions.run(parse(["closed-form", "orth-proj:modality=both"]))
    assert (
        run.counts.queries == 60 and run.settings.m == 5
    )  # a tenth of the images; the broken one's caption is out
    metrics = {row.metric for row in run.rows}
    assert metrics == {"R@5", "R@10", "MS@5", "NDKL@5", PROBE}
    skew = next(row for row in run.rows if row.metric == "MS@5")
    assert skew.floor > 0 and skew.permuted.permutations == 10
    text = tables.markdown([run])
    assert (
        "floor, exact | floor, permuted labels" in text
        and "floor, exact & floor, permuted" in tables.latex([run])
    )
    queries = Evaluation(
        "retrieval", dataset, encoder, prompts=["a photo of a doctor"], settings=QUICK
    )
    queries.measured.__dict__["images"] = classification.measured.images
    assert {row.metric for row in queries.run(parse(["closed-form"])).rows} == {
        "MS@5",
        "NDKL@5",
        PROBE,
    }


def test_labels_that_are_numbers_may_be_typed(dataset, encoder):
    """A table's 1 is a number; what is typed, and a key of JSON, is text."""
    numbered = eq.datasets.Dataset(
        "x", dataset.table.assign(label=[i % 2 for i in range(61)]), ("gender",)
    )
    prompts = {"0": "a photo of a doctor", "1": "a photo of a nurse"}
    asked = Evaluation(
        "classification", numbered, encoder, prompts=prompts, positive="1", settings=QUICK
    ).asked
    assert asked.by_label == {0: prompts["0"], 1: prompts["1"]} and asked.positive == 1
    with pytest.raises(
        eq.EquipoiseError, match=r"positive='2' is no class of the images; they have \[0, 1\]"
    ):
        Evaluation(
            "classification", numbered, encoder, prompts=prompts, positive="2", settings=QUICK
        )


def test_labels_that_differ_in_case_only_are_no_two_classes(dataset, encoder):
    mixed = eq.datasets.Dataset(
        "x",
        dataset.table.assign(label=["doctor", "Doctor ", "nurse"] * 20 + ["nurse"]),
        ("gender",),
    )
    with pytest.raises(
        eq.EquipoiseError, match="'Doctor ' and 'doctor' differ in case or space only"
    ):
        Evaluation("classification", mixed, encoder, settings=QUICK)
    own = {
        "doctor": "a photo of a doctor",
        "Doctor ": "a photo of Doctor Who",
        "nurse": "a photo of a nurse",
    }
    assert (
        len(Evaluation("classification", mixed, encoder, prompts=own, settings=QUICK).asked.prompts)
        == 3
    )


def test_an_image_has_one_group_however_many_captions(dataset, encoder):
    twice = dataset.table.assign(path=[dataset.table["path"][i // 2] for i in range(61)])
    other = eq.datasets.Dataset(
        "x", twice.assign(gender=["Male", "Female"] * 30 + ["Male"]), ("gender",)
    )
    with pytest.raises(
        eq.EquipoiseError, match=r"0.png is of the group 'male' in one row and 'female' in another"
    ):
        Evaluation("retrieval", other, encoder, settings=QUICK)
    unsure = twice.assign(
        gender=[("Male", "Female")[i // 2 % 2] if i % 2 else "unknown" for i in range(61)]
    )
    groups = Evaluation(
        "retrieval", eq.datasets.Dataset("x", unsure, ("gender",)), encoder, settings=QUICK
    ).measured.groups
    assert groups.tolist() == ["male", "female"] * 15 + [
        None
    ]  # one row of an image tells its group; the last image has none that does


def test_a_store_gives_what_encoding_gives(dataset, encoder, folder, classification, run, tmp_path):
    source = embedding.read_source(folder / "people.csv", "image", "file")
    store = embedding.embed(source, tmp_path / "store", encoder)
    stored = Evaluation("classification", dataset, encoder, embeddings=store, settings=QUICK)
    again = stored.run(parse(["closed-form", "orth-proj", "closed-form:scope=per prompt"]))
    assert again.rows == run.rows
    own = read_dataset(
        None, embeddings=tmp_path / "store", label_column="job", group_columns=["gender"]
    )
    assert own.kept == 60 and own.dropped == {"unreadable": 1}
    alone = Evaluation("classification", own, encoder, embeddings=store, settings=QUICK).run(
        parse(["closed-form"])
    )
    assert alone.rows[0].value == run.rows[0].value
    elsewhere = eq.datasets.Dataset(
        "x", own.table.assign(path=[f"/{i % 2}/{i // 2}.png" for i in range(60)]), ("gender",)
    )
    with pytest.raises(
        eq.EquipoiseError, match="images of the same file name"
    ):  # two pictures of one name, and one row
        Evaluation("classification", elsewhere, encoder, embeddings=store, settings=QUICK).run(
            parse(["none"])
        )
    models.clip(tmp_path / "other", hidden_size=16)
    with pytest.raises(eq.errors.EncoderMismatchError, match="use one for both"):
        Evaluation(
            "classification",
            dataset,
            eq.load_encoder(f"hf:{tmp_path / 'other'}", workers=0),
            embeddings=store,
        )


def timeless(run):
    """Return a run without how long it took."""
    return run.model_copy(update={"fit_seconds": None})


def test_a_grid_resumes(classification, tmp_path):
    specs = tasks.grid(None, ["closed-form:modality=image|text,kappa=1|inf"], [], "classification")
    assert [spec.label for spec in specs][1:3] == [
        "closed-form (modality=image)",
        "closed-form (modality=image, kappa=inf)",
    ]
    runs, found = tasks.compare(classification, specs, tmp_path)
    assert (len(runs), found) == (5, 0)
    files = sorted(tmp_path.iterdir())
    assert len(files) == 5
    before = {path: path.stat().st_mtime_ns for path in files}
    files[0].unlink()
    again, found = tasks.compare(classification, specs, tmp_path)
    assert found == 4 and all(run.fit_seconds > 0 for run in (*runs, *again))
    assert [timeless(run) for run in again] == [timeless(run) for run in runs]
    assert sum(path.stat().st_mtime_ns == before[path] for path in files) == 4
    (grid,) = grids(runs)
    assert grid.methods == tuple(spec.label for spec in specs)


def test_a_cell_of_another_key_is_computed_again(classification, tmp_path):
    specs = tasks.grid(None, ["closed-form"], [], "classification")
    (_, run), _ = tasks.compare(classification, specs, tmp_path)
    assert run.key == classification.key(specs[1])
    path = next(path for path in tmp_path.iterdir() if path.name.startswith("closed-form"))
    write(path, run.model_copy(update={"key": "of other settings", "rows": run.rows[:1]}))
    (_, again), found = tasks.compare(classification, specs, tmp_path)
    assert found == 1 and read(path) == again and timeless(again) == timeless(run)


def test_prompts_that_change_labels_are_another_cell_and_another_table(
    dataset, encoder, classification, run
):
    """The same prompts in the same order, of other labels: neither may a result of one be read for the other, nor stand beside it."""
    swapped = dict(zip(reversed(JOBS), classification.asked.prompts, strict=True))
    given = dict(zip(JOBS, classification.asked.prompts, strict=True))
    first, second = (
        Evaluation("classification", dataset, encoder, prompts=prompts, settings=QUICK)
        for prompts in (given, swapped)
    )
    spec = MethodSpec("closed-form")
    assert first.asked.prompts == second.asked.prompts and first.key(spec) != second.key(spec)
    for task in (first, second):
        task.measured.__dict__["images"] = classification.measured.images
    runs = [task.run([spec]) for task in (first, second)]
    assert len(grids(runs)) == 2


def test_none_is_ranked_once_for_a_grid(classification, monkeypatch):
    seen = []
    whole = _evaluation.predict_labels
    monkeypatch.setattr(
        _evaluation,
        "predict_labels",
        lambda operator, *rest, **options: (
            seen.append(operator.name) or whole(operator, *rest, **options)
        ),
    )
    for method in ("closed-form", "orth-proj"):
        classification.run(parse([method]))
    assert seen.count("none") <= 1 and {"closed-form", "orth-proj"} <= set(seen)


def test_captions_without_a_person_are_counted(dataset, encoder, classification):
    captions = ["a photo of a doctor"] * 30 + ["a red brick wall"] * 31
    odd = eq.datasets.Dataset("x", dataset.table.assign(caption=captions), ("gender",))
    task = Evaluation("retrieval", odd, encoder, settings=QUICK)
    task.measured.__dict__["images"] = classification.measured.images
    run = task.run(parse(["closed-form"]))
    assert run.methods["closed-form"].book.unworded == 31 and run.counts.blank_captions == 0
    assert "31 of 61 prompts speak of no person" in tables.summary(run)


def test_what_is_left_out_is_said(dataset, encoder, classification):
    captions = [None, " ", *dataset.table["caption"][2:]]
    table = dataset.table.assign(
        caption=captions, label=[None] * 3 + list(dataset.table["label"])[3:]
    )
    some = eq.datasets.Dataset("x", table, ("gender",))
    queries = Evaluation("retrieval", some, encoder, settings=QUICK)
    classes = Evaluation("classification", some, encoder, settings=QUICK)
    for task in (queries, classes):
        task.measured.__dict__["images"] = classification.measured.images
    run = queries.run(parse(["closed-form"]))
    assert (
        run.counts.blank_captions == 2
        and run.counts.queries == 58
        and "2 captions are empty" in tables.summary(run)
    )
    run = classes.run(parse(["closed-form"]))
    assert run.rows[
        0
    ].left_out == 8 and "8 of the images are of no known class or group" in tables.summary(run)
    twice = eq.datasets.Dataset(
        "x", dataset.table.loc[[*range(60), *range(60)]].reset_index(drop=True), ("gender",)
    )
    repeated = Evaluation(
        "classification",
        twice,
        encoder,
        embeddings=np.tile(classification.measured.images[0], (2, 1)),
        settings=QUICK,
    )
    assert "60 rows repeat an image, and count again" in tables.summary(
        repeated.run(parse(["closed-form"]))
    )


def test_another_setting_is_another_cell(classification, dataset, encoder):
    spec = MethodSpec("closed-form")
    keys = {
        classification.key(spec),
        classification.key(MethodSpec("closed-form", {"kappa": 2})),
        classification.key(MethodSpec("none")),
    }
    keys.add(
        Evaluation("classification", dataset, encoder, settings=Settings(resamples=41)).key(spec)
    )
    keys.add(
        Evaluation(
            "classification", dataset, encoder, template="a picture of a/an {}", settings=QUICK
        ).key(spec)
    )
    assert len(keys) == 5
    assert Evaluation("classification", dataset, encoder, settings=QUICK).key(
        spec
    ) == classification.key(spec)


def test_other_groups_or_targets_of_the_same_table_are_another_cell(dataset, encoder):
    """What a label means is the attribute's to say, and whose caption a caption is the table's, in any of its rows."""
    table = dataset.table.assign(gender=["1", "2"] * 30 + ["unknown"])
    spec, coded = MethodSpec("none"), eq.datasets.Dataset("x", table, ("gender",))
    keys = set()
    for male in ("1", "2"):
        attribute = eq.Attribute(
            "gender", ("male", "female"), labels={male: "male", str(3 - int(male)): "female"}
        )
        keys.add(
            Evaluation("classification", coded, encoder, attribute=attribute, settings=QUICK).key(
                spec
            )
        )
    assert len(keys) == 2
    paths = list(table["path"][:60])
    for last in (0, 1):
        captioned = eq.datasets.Dataset(
            "x",
            dataset.table.assign(path=[*paths, paths[last]], gender=[*table["gender"][:60], None]),
            ("gender",),
        )
        keys.add(
            Evaluation("retrieval", captioned, encoder, attribute=attribute, settings=QUICK).key(
                spec
            )
        )
    assert len(keys) == 4
    gated = Settings(resamples=40, permutations=10, gate=True)
    for nouns in ({"person": ("man",)}, {"person": ("bloke",)}):
        words = {"male": {"adjectives": ["male"], "nouns": nouns}}
        own = eq.Attribute(
            "gender", ("male", "female"), labels={"1": "male", "2": "female"}, wordings=words
        )
        keys.add(
            Evaluation("classification", coded, encoder, attribute=own, settings=gated).key(spec)
        )
    assert len(keys) == 6


def test_presets():
    names = [spec.name for spec in tasks.grid("table2", [], [], "classification")]
    assert names[0] == "none" and {
        "orth-proj",
        "orth-cali",
        "prism",
        "prism-mini",
        "roboshot",
        "closed-form",
    } <= set(names)
    assert not {"sfid", "dear"} & set(names)  # labelled images are not those that it is measured on
    five = tasks.grid("table5", [], ["a.json", "b.json"], "retrieval")
    assert len(five) == 1 + 3 * 3 * 2 * 2 and five[1].label == "closed-form (book=a)"
    with pytest.raises(eq.EquipoiseError, match="table3 is a table of retrieval"):
        tasks.grid("table3", [], [], "classification")


def test_saved_operators_are_evaluated(classification, encoder, tmp_path):
    book = eq.PromptBook.curated("occupations-gender")
    operator = eq.methods.create("closed-form").fit(
        eq.FitContext(classification.attribute, encoder=encoder, book=book)
    )
    operator.save(tmp_path / "mine.safetensors")
    run = classification.run(parse([str(tmp_path / "mine.safetensors")]))
    assert run.methods["mine"].fingerprint == operator.fingerprint


@pytest.mark.filterwarnings("always::UserWarning")
def test_the_command_line_from_a_csv_to_tables(folder, tmp_path, monkeypatch, capsys):
    options = [
        "--model",
        f"hf:{folder / 'model'}",
        "--label-column",
        "job",
        "--group-columns",
        "gender",
        "--resamples",
        "30",
        "--workers",
        "0",
    ]
    outputs = [
        "--out",
        tmp_path / "run.json",
        *(part for kind in ("csv", "md", "tex") for part in ("--export", tmp_path / f"t.{kind}")),
    ]
    code, out, err = equipoise(
        monkeypatch, capsys, "evaluate", folder / "people.csv", *options, *outputs
    )
    assert code == 0 and "60 images (female 27, male 28); dropped: 1 without an embedding" in out
    assert "equipoise: 1 of 61 images could not be read" in err
    assert tables.markdown([read(tmp_path / "run.json")]) == (tmp_path / "t.md").read_text()
    assert (tmp_path / "t.tex").read_text() and (tmp_path / "t.csv").read_text()
    book = [
        "--task",
        "retrieval",
        "--prompts",
        "occupations-gender",
        "--level",
        "0.8",
        "--permutations",
        "7",
        "--probe",
        "0",
        "--json",
    ]
    code, out, _ = equipoise(
        monkeypatch, capsys, "evaluate", folder / "people.csv", *options, *book
    )
    found = json.loads(out)
    assert code == 0 and found["dataset"]["prompts"] == len(
        eq.PromptBook.curated("occupations-gender").prompts
    )
    assert {row["level"] for row in found["rows"]} == {0.8} and found["rows"][0]["permuted"][
        "permutations"
    ] == 7
    grid = [
        "compare",
        "--out",
        tmp_path / "runs",
        folder / "people.csv",
        *options,
        "--method",
        "closed-form:kappa=1|inf",
        "--json",
    ]
    code, out, _ = equipoise(monkeypatch, capsys, *grid)
    assert code == 0 and len(json.loads(out)) == 3
    code, out, _ = equipoise(monkeypatch, capsys, *grid[:-1])
    assert code == 0 and "3 runs in" in out and "3 of them from before" in out.replace("\n", " ")


def test_methods_lists_what_there_is(monkeypatch, capsys):
    code, out, _ = equipoise(monkeypatch, capsys, "methods", "--json")
    found = {method["name"]: method for method in json.loads(out)}
    assert code == 0 and list(found) == eq.methods.names()
    assert (
        found["orth-proj"]["changes"] == ["text"]
        and found["none"]["changes"] == []
        and "images" in found["adapted"]["needs"]
    )
    assert "closed-form" in equipoise(monkeypatch, capsys, "methods")[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["nowhere.csv", "--model", "hf:x", "--group-columns", "gender"],
            "nowhere.csv is not a file",
        ),
        (["people.csv", "--model", "hf:x", "--group-columns", "sex"], "has no column sex"),
        (
            [
                "people.csv",
                "--model",
                "hf:nothing",
                "--group-columns",
                "gender",
                "--export",
                "t.pdf",
            ],
            "t.pdf is of an unknown kind",
        ),
        (
            ["people.csv", "--model", "hf:nothing", "--group-columns", "gender", "--out", "model"],
            "model is a folder",
        ),
        (
            [
                "people.csv",
                "--model",
                "hf:x",
                "--group-columns",
                "gender",
                "--path-column",
                "photo",
            ],
            "has no column photo",
        ),
        (
            ["people.csv", "--model", "hf:x", "--group-columns", "gender", "--level", "95"],
            "--level 95.0 is not legal",
        ),
        (
            [
                "people.csv",
                "--model",
                "MODEL",
                "--group-columns",
                "gender",
                "--label-column",
                "job",
                "--fit-dataset",
                "people.csv",
            ],
            "61 images would be both fitted on and measured",
        ),
        (
            [
                "people.csv",
                "--model",
                "MODEL",
                "--group-columns",
                "gender",
                "--label-column",
                "job",
                "--fit-share",
                "2",
            ],
            "a share of 2.0 cannot be held out",
        ),
        (["people.csv", "--group-columns", "gender", "--label-column", "job"], "pass --model"),
        (["celeba", "--model", "hf:x"], "celeba needs the folder"),
        (["imagenet", "--model", "hf:x"], "there is no dataset 'imagenet'"),
        ([".", "--model", "hf:x"], "is a folder, whose images have no groups"),
        (["--model", "hf:x"], "no dataset was given"),
        (
            ["people.csv", "--model", "hf:x", "--group-columns", "gender", "--embeddings", "x.npy"],
            "x.npy holds no embeddings",
        ),
        (
            [
                "people.csv",
                "--model",
                "MODEL",
                "--group-columns",
                "gender",
                "--method",
                "closd-form",
            ],
            "there is no method 'closd-form'",
        ),
        (
            [
                "people.csv",
                "--model",
                "MODEL",
                "--group-columns",
                "gender",
                "--label-column",
                "job",
                "--method",
                "closed-form:x=1",
            ],
            "no parameter 'x'",
        ),
        (
            ["people.csv", "--model", "MODEL", "--group-columns", "gender"],
            "has no labels, which classification needs",
        ),
        (
            ["people.csv", "--model", "MODEL", "--group-columns", "job", "--label-column", "job"],
            "pass --attribute to say what the group columns hold",
        ),
        (
            ["people.csv", "--model", "MODEL", "--group-columns", "gender", "-t", "retrieval"],
            "has no captions to search with",
        ),
        (
            [
                "people.csv",
                "--model",
                "MODEL",
                "--group-columns",
                "gender",
                "--label-column",
                "job",
                "--template",
                "x",
            ],
            "it needs one {}",
        ),
        (
            [
                "people.csv",
                "--model",
                "MODEL",
                "--group-columns",
                "gender",
                "--label-column",
                "job",
                "--positive",
                "x",
            ],
            "positive='x' is no class",
        ),
        (
            [
                "people.csv",
                "--model",
                "MODEL",
                "--group-columns",
                "gender",
                "--label-column",
                "job",
                "-a",
                "race",
            ],
            "is no label of 'race'",
        ),
    ],
)
def test_mistakes_are_messages_before_long_work(arguments, message, folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    arguments = [
        f"hf:{folder / 'model'}" if argument == "MODEL" else argument for argument in arguments
    ]
    code, _, err = equipoise(monkeypatch, capsys, "evaluate", *arguments, "--workers", "0")
    assert code == 2 and message in err and "Traceback" not in err


def test_bad_data_is_an_error_before_images_are_encoded(dataset, encoder):
    import pandas as pd

    def of(**columns):
        table = dataset.table.assign(**columns)
        return lambda: Evaluation(
            "classification", eq.datasets.Dataset("x", table, ("gender",)), encoder
        )

    with pytest.raises(eq.EquipoiseError, match="there is no image of the group 'female'"):
        of(gender="Male")()
    with pytest.raises(eq.EquipoiseError, match="classification needs two"):
        of(label="doctor")()
    with pytest.raises(eq.EquipoiseError, match="names no group"):
        of(gender="unknown")()
    with pytest.raises(eq.EquipoiseError, match="'Robot' is no label"):
        of(gender=pd.Series(["Robot", "Female"] * 31)[:61])()
    with pytest.raises(eq.EquipoiseError, match="8 and 16 wide"):
        Evaluation("classification", dataset, encoder, embeddings=np.ones((61, 8)))
    with pytest.raises(eq.EquipoiseError, match="pass one row per image"):
        Evaluation("classification", dataset, encoder, embeddings=np.ones((5, 16)))


def test_a_space_a_prompt_needs_its_prompts_in_the_book(dataset, encoder):
    evaluation = Evaluation(
        "classification", dataset, encoder, book="people-gender", settings=QUICK
    )
    with pytest.raises(
        eq.EquipoiseError,
        match=r"has one space per prompt, and the book has no 'male' of 'a photo of a doctor'",
    ):
        evaluation.check(parse(["closed-form:scope=per prompt"]))


def test_unreadable_images_can_be_an_error(dataset, encoder):
    strict = Evaluation("classification", dataset, encoder, on_unreadable="raise")
    with (
        pytest.warns(UserWarning),
        pytest.raises(
            eq.EquipoiseError, match=r"1 of 61 images have no embedding, first .*broken\.png"
        ),
    ):
        _ = strict.measured.images


@pytest.mark.parametrize("name", sorted(retrieval_by_gender.DEPTHS))
def test_the_committed_results_are_what_the_embeddings_give(name):
    """Values, not intervals: those take a minute, and the script makes them."""
    folder = shared_data("embeddings/text_clip_vitb32_objects.npz").parent
    run = retrieval_by_gender.evaluation(folder, name, resamples=1, permutations=1).run(
        parse(retrieval_by_gender.METHODS)
    )
    committed = read(ROOT / "docs" / "measurements" / f"retrieval_by_gender_{name}.json")
    for row, kept in zip(run.rows, committed.rows, strict=True):
        assert (row.method, row.metric) == (kept.method, kept.metric)
        assert row.value == pytest.approx(
            kept.value, abs=1e-4
        )  # another BLAS may swap two images of one query
        assert kept.n and kept.low < kept.high
    assert committed.rows[0].floor == pytest.approx(
        {"celeba": 0.0722, "flickr8k": 0.1017}[name], abs=1e-4
    )


def test_the_page_of_results_is_made_from_the_files(monkeypatch):
    monkeypatch.chdir(ROOT)
    page = retrieval_by_gender.page()
    assert page == (ROOT / "docs" / "results.md").read_text()
    assert (
        "CelebA (1,000 images): Table 5 holds." in page
        and "Flickr8k (524 labelled of 1,000 images): Table 5 does not hold." in page
    )


def test_a_known_dataset_by_other_columns(tmp_path):
    (tmp_path / "fairface_label_val.csv").write_text(
        "file,age,gender,race\nval/1.jpg,20-29,Male,Black\nval/2.jpg,30-39,Female,White\n"
    )
    (tmp_path / "val").mkdir()
    for name in ("1.jpg", "2.jpg"):
        (tmp_path / "val" / name).write_bytes(b"a picture")
    found = read_dataset("fairface", tmp_path, group_columns=["gender"], label_column="race")
    assert found.groups == ("gender",) and list(found.table["label"]) == ["Black", "White"]
    with pytest.raises(eq.EquipoiseError, match="FairFace has no column hair"):
        read_dataset("fairface", tmp_path, group_columns=["hair"])
