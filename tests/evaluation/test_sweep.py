"""Sweeps: every method along its strength; points are the runs' own values, the front is what nothing beats; files, page, command line."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

import equipoise as eq
from equipoise import _cli as cli
from equipoise import evaluation as tasks
from equipoise.evaluation import FitOn, MethodSpec, SweepResults
from equipoise.report import _number_format as numbers
from equipoise.report import sweep_page, sweep_table
from tests.helpers.people import QUICK, evaluation, people
from tests.helpers.words import Words


def labels(*given, preset=None, task="classification", labelled=False):
    return [spec.label for spec in tasks.sweep_grid(preset, list(given), [], task, labelled)]


def test_a_method_goes_along_its_strength():
    kappas = ["0.1", "0.25", "0.5", "2", "4", "inf"]
    assert labels("closed-form") == ["none", *(f"closed-form (kappa={k})" for k in kappas[:3]), "closed-form",
                                     *(f"closed-form (kappa={k})" for k in kappas[3:])]  # fmt: skip
    assert labels("closed-form:kappa=3,modality=text|image") == [
        "none", "closed-form (kappa=3, modality=text)", "closed-form (kappa=3, modality=image)"]  # fmt: skip
    assert labels("orth-proj") == ["none", "orth-proj"]  # has no strength: one point
    assert labels("orth-cali")[1] == "orth-cali (lam=0)"  # which is orth-proj, and not none
    assert labels("closed-form", "closed-form:kappa=2").count("closed-form (kappa=2)") == 1


def test_all_that_have_a_strength_by_default():
    def names(**given):
        return {spec.name for spec in tasks.sweep_grid(None, [], [], **given)}

    every = {name for name in eq.methods.names() if eq.methods.find(name).sweep} | {"none"}
    assert names(task="classification", labelled=True) == every
    assert names(task="retrieval", labelled=True) == every - {"fairer-clip"}  # not defined for it
    assert {"closed-form", "adapted", "orth-cali"} <= names(task="retrieval", labelled=False)
    assert not {"clip-clip", "sfid", "dear", "joint-vl"} & names(task="retrieval", labelled=False)
    for name in every - {"none"}:
        strength = eq.methods.find(name).sweep
        assert (
            strength is not None
            and list(strength.values) == sorted(strength.values)
            and strength.neutral not in strength.values
        )


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    specs = tasks.sweep_grid(
        None,
        ["closed-form", "clip-clip", "adapted:kappa=inf,smallest=9|9999", "orth-proj"],
        [],
        "classification",
        True,
    )
    task = evaluation(fit_on=FitOn(share=0.4))
    return task, specs, folder, *tasks.sweep(task, specs, folder)


def test_the_note_speaks_of_what_is_shown(tmp_path):
    task = evaluation(settings=replace(QUICK, probe=40))
    specs = tasks.sweep_grid(None, ["closed-form:kappa=1"], [], "classification", False)
    assert "probe AUC" not in tasks.sweep(task, specs, tmp_path / "a")[0].note
    assert "probe AUC" in tasks.sweep(task, specs, tmp_path / "b", fairness="probe AUC")[0].note


def test_points_are_what_the_runs_say(swept):
    _, specs, folder, results, runs = swept
    assert len(runs) == len(results.points) == len(specs) - 1 == len(list(folder.glob("*.json")))
    assert [one.label for one in results.left_out] == ["adapted (kappa=inf, smallest=9999)"]
    assert "needs 9999 images or more" in results.left_out[0].reason
    assert (results.fairness.metric, results.utility.metric) == ("EO_avg", "macro F1")
    for point, run in zip(results.points, runs, strict=True):
        for axis in ("fairness", "utility"):
            (row,) = (
                r
                for r in run.rows
                if r.method == point.label and r.metric == getattr(results, axis).metric
            )
            found = getattr(point, axis)
            assert (found.value, found.low, found.high) == (row.value, row.low, row.high)
            assert found.difference == row.difference
    assert {point.series for point in results.points} == {
        "none",
        "closed-form",
        "clip-clip",
        "adapted (smallest=9)",
        "orth-proj",
    }
    kappas = [point.value for point in results.points if point.series == "closed-form"]
    assert kappas == [0.1, 0.25, 0.5, 1, 2, 4, "inf"]
    assert [p.label for p in results.points if p.default] == ["closed-form", "clip-clip"]


def test_the_front_is_what_no_point_beats(swept):
    points = swept[3].points
    worse = np.array([[p.fairness.value, -p.utility.value] for p in points])
    beaten = [((worse <= row).all(1) & (worse < row).any(1)).any() for row in worse]
    assert [p.front for p in points] == [not one for one in beaten] and 0 < sum(beaten) < len(
        points
    )


def test_a_sweep_goes_on_where_it_was(swept):
    task, specs, folder, results, _ = swept
    before = {path: path.stat().st_mtime_ns for path in folder.glob("*.json")}
    assert tasks.sweep(task, specs, folder)[0] == results
    assert {path: path.stat().st_mtime_ns for path in folder.glob("*.json")} == before
    other, _ = tasks.sweep(task, specs, folder, fairness="EO_max", utility="accuracy")
    assert (other.fairness.metric, other.utility.metric) == ("EO_max", "accuracy")


def test_a_method_without_the_metric_is_a_point_without_a_place(tmp_path):
    """Images of a space a prompt have no one embedding that a probe could read."""
    task = evaluation(settings=replace(QUICK, probe=100))
    specs = tasks.sweep_grid(
        None, ["closed-form:scope=per prompt,kappa=1", "closed-form:kappa=1"], [], "classification"
    )
    results, _ = tasks.sweep(task, specs, tmp_path, fairness="probe AUC")
    without = [point.label for point in results.points if point.fairness.value is None]
    assert without == ["closed-form (scope=per prompt)"] and not results.points[1].front
    assert "not known" in sweep_page(results) and sweep_table(results).row_count == 3


def test_mistakes(tmp_path):
    specs = [MethodSpec("none"), MethodSpec("closed-form")]
    with pytest.raises(
        eq.EquipoiseError, match=r"queries of your own have no right image.*`caption_column`"
    ):
        tasks.sweep(evaluation("retrieval", prompts=["a photo of a doctor"]), specs, tmp_path)
    with pytest.raises(
        eq.EquipoiseError,
        match="no metric 'skew' of which lower is better; there are EO_avg, EO_max",
    ):
        tasks.sweep(evaluation(), specs, tmp_path, fairness="skew")
    assert [path.name.split("-")[0] for path in tmp_path.iterdir()] == [
        "none"
    ]  # found out after the first run, not the last


def test_retrieval_with_captions_has_a_floor(tmp_path):
    results, _ = tasks.sweep(
        evaluation("retrieval"),
        tasks.sweep_grid(None, ["adapted:smallest=2"], [], "retrieval"),
        tmp_path,
    )
    assert results.fairness.metric.startswith("MS@") and results.utility.metric == "R@5"
    assert 0 < results.fairness.floor < 1 and "what a random ranking has" in sweep_page(results)


def test_balanced_goes_from_the_page_as_it_is_to_the_target(tmp_path):
    specs = tasks.sweep_grid(None, ["balanced:agreement=-1.0"], [], "retrieval")
    assert [spec.params.get("strength") for spec in specs] == [None, 0.25, 0.5, 0.75, 1]
    results, runs = tasks.sweep(evaluation("retrieval"), specs, tmp_path)
    assert len(runs) == 5 and not results.left_out


class _Printed(HTMLParser):
    """Every number of a page: where it comes from, how it is printed, what is printed."""

    def __init__(self, page):
        super().__init__()
        self.found, self._open = [], None
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self._open = (given["data-path"], given["data-form"]) if "data-path" in given else None

    def handle_data(self, data):
        if self._open:
            self.found.append((*self._open, data))
            self._open = None


def test_every_number_of_the_page_is_in_the_results(swept):
    results = SweepResults.model_validate_json(swept[3].to_text())
    printed = _Printed(sweep_page(results)).found
    assert len(printed) > 6 * len(results.points)
    for path, form, text in printed:
        assert numbers.text(numbers.at(results.to_plain(), path), form) == text
    assert sweep_table(results).row_count == len(results.points)


def test_a_training_that_only_differs_in_the_amount_is_not_repeated(tmp_path, monkeypatch):
    pytest.importorskip("torch")
    from equipoise.methods import _training as training

    steps = []
    keep = training._keep
    monkeypatch.setattr(training, "_keep", lambda *given: steps.append(given[-1]) or keep(*given))
    book = eq.PromptBook.curated("occupations-gender")
    context = eq.FitContext(
        eq.Attribute.load("gender"), encoder=Words(), book=book, workdir=tmp_path
    )
    half, whole = (
        eq.methods.create("saner", amount=amount, lr=1e-2).fit(context) for amount in (0.5, 1.0)
    )
    assert len(steps) == 1 and half.options["amount"] == 0.5 and whole.options["amount"] == 1.0
    np.testing.assert_array_equal(half.net["out.weight"], whole.net["out.weight"])


@pytest.mark.parametrize("as_json", [False, True])
def test_the_command_line(as_json, tmp_path, monkeypatch, capsys):
    dataset, rows = people(120)
    dataset.table.to_csv(tmp_path / "people.csv", index=False)
    np.save(tmp_path / "rows.npy", rows)
    prompts = {
        "doctor": "a photo of a doctor",
        "nurse": "a photo of a nurse",
        "artist": "a photo of an artist",
    }
    book = eq.PromptBook.of(
        {
            prompt: {group: [f"{prompt} {group}"] for group in ("male", "female")}
            for prompt in prompts.values()
        }
    )
    book.save(tmp_path / "book.json")
    said = [*book.prompts, *(text for _, _, entry in book.entries() for text in entry.texts)]
    np.savez(tmp_path / "texts.npz", prompt=np.array(said), vector=Words().encode_text(said))
    arguments = [
        "compare",
        "--out",
        tmp_path / "runs",
        tmp_path / "people.csv",
        "--embeddings",
        tmp_path / "rows.npy",
    ]
    arguments += [
        "--vectors",
        tmp_path / "texts.npz",
        "--book",
        tmp_path / "book.json",
        "--resamples",
        "20",
        "--probe",
        "0",
    ]
    arguments += ["--label-column", "label", "--group-columns", "gender"]
    arguments += [
        "--method",
        "closed-form",
        "--sweep",
        "--export",
        tmp_path / "table.csv",
        *(["--json"] if as_json else []),
    ]
    monkeypatch.setattr(sys, "argv", ["equipoise", *map(str, arguments)])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    printed, complaints = capsys.readouterr()
    assert stop.value.code == 0, complaints
    assert (tmp_path / "table.csv").is_file()
    written = json.loads((tmp_path / "runs" / "sweep.json").read_text())
    assert (
        len(written["points"]) == 8
        and "<!doctype html>" in (tmp_path / "runs" / "sweep.html").read_text()
    )
    assert (
        json.loads(printed) == written
        if as_json
        else "kappa inf" in printed and "sweep.html" in printed
    )
