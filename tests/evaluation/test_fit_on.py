"""What methods are fitted on, and what an adversary reads afterwards: never the measured labels, and always said."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import EntryPoint
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import StandardScaler

import equipoise as eq
from equipoise.evaluation import FitOn, Settings, parse
from equipoise.evaluation import _tables as tables
from equipoise.evaluation._grids import grids
from equipoise.methods import Method, Operator
from equipoise.methods import _registry as registry
from equipoise.metrics._probe import METRIC as PROBE
from tests.helpers.common import unit
from tests.helpers.people import evaluation, people

SEEN: list[eq.FitContext] = []


@dataclass(frozen=True)
class Means(Method):
    """Projects images off the difference of two groups' means, as a method of another package might; keeps the context that it saw."""

    name: ClassVar[str] = "means"
    summary: ClassVar[str] = "for tests"
    needs: ClassVar[tuple[str, ...]] = ("images", "sensitive_features")
    changes: ClassVar[tuple[str, ...]] = ("image",)
    operator: ClassVar[type[Operator]] = Operator

    def fit(self, context):
        SEEN.append(context)
        rows, groups = unit(np.asarray(context.images)), np.asarray(context.sensitive_features)
        prototypes = {group: rows[groups == group].mean(0) for group in context.attribute.groups}
        fitted = eq.methods.create("closed-form", kappa=np.inf, modality="image")
        return fitted.fit(eq.FitContext(context.attribute, prototypes=prototypes))


@pytest.fixture(autouse=True)
def another_package(monkeypatch):
    point = EntryPoint("means", f"{__name__}:Means", registry.GROUP)
    monkeypatch.setattr(
        registry, "entry_points", lambda group: [point] if group == registry.GROUP else []
    )
    SEEN.clear()


@pytest.mark.parametrize("task", ["classification", "retrieval"])
def test_a_share_is_held_out_and_not_measured(task):
    half = evaluation(task, fit_on=FitOn(share=0.4))
    fitting, measured = half.fitting, half.measured
    assert (
        not set(fitting.paths) & set(measured.paths)
        and len(fitting.paths) + len(measured.paths) == 300
    )
    assert len(fitting.paths) == pytest.approx(120, abs=3)
    cells = pd.crosstab(fitting.table["gender"], fitting.table["label"]) / pd.crosstab(
        *(people(300)[0].table[c] for c in ("gender", "label"))
    )
    assert cells.loc[["female", "male"]].to_numpy() == pytest.approx(
        np.full((2, 3), 0.4), abs=0.02
    )  # of every group and class
    run = half.run(parse(["means", "adapted:smallest=2"]))
    context = SEEN[-1]
    assert (
        len(context.images)
        == len(context.sensitive_features)
        == len(context.labels)
        == len(context.captions)
        == len(fitting.paths)
    )
    whole = people(300)[1]
    np.testing.assert_array_equal(
        context.images[0], whole[int(fitting.paths[0].split("/")[1].split(".")[0])]
    )
    assert run.counts.images == len(measured.paths) and run.fitting.images == len(fitting.paths)
    if task == "retrieval":
        assert run.counts.queries == len(measured.paths)
    for label in ("means", "adapted (smallest=2)"):
        assert run.methods[label].fitted_on.to_plain() == {
            "name": "here",
            "images": len(fitting.paths),
            "measured": False,
            "labels": True,
        }
    assert (
        "to fit on, and not measured: " in tables.summary(run)
        and "images of here that are not measured: means, adapted" in grids([run])[0].note
    )
    again = evaluation(task, fit_on=FitOn(share=0.4))
    assert again.fitting.paths == fitting.paths and again.key(parse(["means"])[0]) == half.key(
        parse(["means"])[0]
    )
    assert evaluation(task, fit_on=FitOn(share=0.5)).key(parse(["means"])[0]) != half.key(
        parse(["means"])[0]
    )


def test_labels_of_measured_images_are_never_learned_from():
    with pytest.raises(
        eq.EquipoiseError,
        match=r"means is fitted on labelled images, and not on those that are measured; hold some out \(`fit_share`",
    ):
        evaluation().run(parse(["means"]))
    assert not SEEN
    run = evaluation().run(parse(["adapted:smallest=2"]))  # looks at no label
    assert run.methods["adapted (smallest=2)"].fitted_on.to_plain() == {
        "name": "here",
        "images": 300,
        "measured": True,
        "labels": False,
    }
    assert (
        "Fitted on the measured images, without their labels: adapted (smallest=2)."
        in tables.markdown([run])
    )


def test_another_dataset_to_fit_on():
    elsewhere, rows = people(80, "there", seed=1)
    run = evaluation(fit_on=FitOn(dataset=elsewhere, embeddings=rows)).run(parse(["means"]))
    assert run.methods["means"].fitted_on.to_plain() == {
        "name": "there",
        "images": 80,
        "measured": False,
        "labels": True,
    }
    assert run.counts.images == 300 and SEEN[-1].seed == 0 and SEEN[-1].class_prompts
    with pytest.raises(
        eq.EquipoiseError,
        match=r"80 images would be both fitted on and measured, first here/0\.jpg",
    ):
        evaluation(fit_on=FitOn(dataset=people(80)[0], embeddings=rows))
    for wrong, message in (
        ({"share": 0.5, "dataset": elsewhere}, "pass one of the two"),
        ({"embeddings": rows}, "without their dataset"),
    ):
        with pytest.raises(eq.EquipoiseError, match=message):
            FitOn(**wrong)
    for share in (0.0, 1.0, -1, 7):
        with pytest.raises(eq.EquipoiseError, match="cannot be held out"):
            evaluation(fit_on=FitOn(share=share))
    with pytest.raises(
        eq.EquipoiseError, match="no image of the group 'male' among those that are held out"
    ):
        evaluation(n=6, fit_on=FitOn(share=0.1))


@pytest.mark.parametrize("captioned", [True, False])
def test_captions_to_fit_on_are_learned_from_where_there_are_some(captioned):
    pytest.importorskip("torch")
    elsewhere, rows = people(40, "there", seed=1)
    elsewhere.table.loc[3, "caption"] = None
    if not captioned:
        elsewhere = eq.datasets.Dataset(
            "there", elsewhere.table.drop(columns="caption"), ("gender",)
        )
    run = (
        evaluation(fit_on=FitOn(dataset=elsewhere, embeddings=rows))
        .run(parse(["saner:epochs=1"]))
        .methods["saner (epochs=1)"]
    )
    assert run.params["with_images"] is captioned and (run.fitted_on is not None) is captioned
    assert run.params["texts"] == (
        39 if captioned else 34
    )  # of the captions but a blank one, or of the book


def test_the_probe_is_what_a_classifier_reads():
    """The run's AUC is that of scikit-learn's own pieces on the debiased images, fold by fold; a projection off the leak leaves less."""
    task = evaluation(settings=Settings(resamples=50, probe=10**6), fit_on=FitOn(share=0.3))
    run = task.run(parse(["means", "closed-form:modality=text", "closed-form:scope=per prompt"]))
    found = {row.method: row for row in run.rows if row.metric == PROBE}
    assert set(found) == {
        "none",
        "means",
        "closed-form (modality=text)",
    }  # a space a prompt has no one embedding of an image
    known = task.measured.groups != None  # noqa: E711
    x, y = (
        np.asarray(task.measured.images[0], np.float64)[known],
        (task.measured.groups[known] == "male").astype(int),
    )
    won = pairs = 0
    for train, test in StratifiedKFold(5, shuffle=True, random_state=0).split(x, y):
        scale = StandardScaler().fit(x[train])
        scores = (
            LogisticRegression(max_iter=2000)
            .fit(scale.transform(x[train]), y[train])
            .decision_function(scale.transform(x[test]))
        )
        size = y[test].sum() * (1 - y[test]).sum()
        won, pairs = won + size * roc_auc_score(y[test], scores), pairs + size
    assert (
        found["none"].value == pytest.approx(won / pairs, abs=1e-6)
        and found["none"].n == known.sum()
    )
    assert found["none"].value > 0.8 > found["means"].value and found["means"].difference.high < 0
    same = found["closed-form (modality=text)"]
    assert same.value == found["none"].value and same.difference.to_plain() == {
        "from": "none",
        "value": 0.0,
        "low": 0.0,
        "high": 0.0,
    }
    assert PROBE in tables.markdown(
        [run]
    ) and f"of {known.sum()} images apart; 50 is not at all" in tables.markdown([run])


def test_the_probe_takes_as_many_images_as_it_is_told_to():
    few = evaluation(settings=Settings(resamples=20, probe=100)).run(parse(["closed-form"]))
    assert {row.n for row in few.rows if row.metric == PROBE} == {100}
    off = evaluation().run(parse(["closed-form"]))
    assert PROBE not in {row.metric for row in off.rows}
    tiny = evaluation(n=8, settings=Settings(resamples=5, probe=3)).run(parse(["closed-form"]))
    assert all(
        row.n <= 3 for row in tiny.rows if row.metric == PROBE
    )  # where a group is left with one image, there is none


def test_settings_are_checked_before_anything_is_measured():
    for wrong, message in (
        ({"level": 1.0}, "level=1.0"),
        ({"level": 0}, "level=0"),
        ({"resamples": 0}, "resamples=0"),
        ({"permutations": 0}, "permutations=0"),
        ({"m": 0}, "m=0"),
        ({"ks": (5, 0)}, "k=0"),
        ({"probe": -1}, "probe=-1"),
        ({"m": 2.5}, "m=2.5 is not legal; pass a whole number from 1"),
        ({"ks": (5, 2.5)}, "k=2.5"),
        ({"over": "texts"}, "over='texts'"),
        ({"interval": "normal"}, "interval='normal'"),
    ):
        with pytest.raises(eq.EquipoiseError, match=message):
            Settings(**wrong)
