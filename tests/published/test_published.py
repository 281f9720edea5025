"""The paper's results: the file is the paper, and the rules are sound and find what they should."""

from __future__ import annotations

import math
import runpy
import shutil
import subprocess
import sys
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise import published
from equipoise.published import _rules as rules
from equipoise.published._cell import FILE, Cell, read
from tests.helpers.common import ROOT, shared_data

SCRIPT = ROOT / "scripts" / "published_from_tex.py"
PAGE = ROOT / "docs" / "published.md"
VIT, RN50, BLIP, SD = "CLIP ViT-L/14", "CLIP RN50", "BLIP", "SD v2.1"

# Looked up by eye: table, model, dataset, method, variant, metric; value, spread, marker.
BY_EYE = [
    ("2", VIT, "CelebA", "none", "", "F1", 54.0, 0.5, ""),
    ("2", VIT, "CelebA", "none", "", "EO_max", 45.0, 0.3, ""),
    ("2", VIT, "CelebA", "fairer-clip", "", "F1", 53.1, 0.2, "second"),
    ("2", VIT, "CelebA", "prism-mini", "", "F1", 50.4, 0.1, ""),
    ("2", VIT, "CelebA", "roboshot", "", "EO_avg", 23.3, 0.2, "best"),
    ("2", VIT, "CelebA", "closed-form", "", "F1", 56.5, 0.5, "best"),
    ("2", VIT, "FACET", "sfid", "", "macro F1", 69.2, 0.3, ""),
    ("2", VIT, "FACET", "prism", "", "EO_avg", 8.1, 0.3, "best"),
    ("2", VIT, "FACET", "orth-cali", "", "EO_max", 50.4, 0.5, ""),
    ("2", VIT, "FACET", "closed-form", "", "EO_avg", 8.3, 0.1, "second"),
    ("3", VIT, "COCO2017", "prompt-array", "", "R@10", 86.7, 0.5, "second"),
    ("3", VIT, "COCO2017", "clip-clip", "", "MS@1000", 9.9, 0.4, "best"),
    ("3", VIT, "COCO2017", "closed-form", "", "R@5", 81.1, 0.3, "best"),
    ("3", VIT, "Flickr30K", "none", "", "MS@1000", 20.3, 0.3, ""),
    ("3", VIT, "Flickr30K", "fairer-clip", "", "R@5", 87.9, 0.5, "second"),
    ("3", VIT, "Flickr30K", "orth-proj", "", "R@10", 88.9, 0.1, ""),
    ("3", VIT, "Flickr30K", "closed-form", "", "MS@1000", 11.8, 0.3, "second"),
    ("4", SD, "occupations", "none", "", "SP_5", 58.6, None, ""),
    ("4", SD, "occupations", "orth-proj", "", "SP_all", 39.6, None, "best"),
    ("4", SD, "occupations", "orth-cali", "", "Acc^G", 56.6, None, ""),
    ("4", SD, "occupations", "sfid", "", "Acc^G", 67.2, None, "second"),
    ("4", SD, "occupations", "closed-form", "", "CLIP score", 24.2, None, "best"),
    ("5", VIT, "Flickr30K", "closed-form", "prototype=anchor", "MS@1000", 13.4, 0.5, ""),
    ("5", VIT, "CelebA", "closed-form", "prototype=variants", "EO_max", 41.8, 0.5, ""),
    ("5", VIT, "Flickr30K", "closed-form", "book=DeepSeek v3.2", "MS@1000", 12.0, 0.3, "second"),
    ("5", VIT, "CelebA", "closed-form", "book=Gemini 2.5 Pro", "EO_max", 40.4, 0.2, "second"),
    ("5", VIT, "CelebA", "closed-form", "modality=image", "EO_max", 41.7, 0.5, ""),
    ("5", VIT, "Flickr30K", "closed-form", "modality=text", "MS@1000", 13.3, 0.6, ""),
    ("5", VIT, "CelebA", "closed-form", "", "EO_max", 40.1, 0.3, "best"),
    ("F", RN50, "CelebA", "none", "", "F1", 60.7, 0.5, ""),
    ("F", RN50, "CelebA", "fairer-clip", "", "EO_max", 21.4, 0.4, "best"),
    ("F", RN50, "CelebA", "prism", "", "EO_max", 21.8, 0.3, "second"),
    ("F", RN50, "FACET", "orth-proj", "", "macro F1", 47.8, 0.6, ""),
    ("F", RN50, "FACET", "closed-form", "", "EO_max", 45.8, 0.5, "second"),
    ("F", RN50, "COCO2017", "none", "", "R@10", 81.8, 0.1, ""),
    ("F", RN50, "Flickr30K", "clip-clip", "", "MS@1000", 13.2, 0.5, "best"),
    ("F", RN50, "Flickr30K", "orth-cali", "", "MS@1000", 16.1, 0.3, ""),
    ("F", RN50, "Flickr30K", "closed-form", "", "R@10", 85.1, 0.3, "best"),
    ("F", BLIP, "CelebA", "prism", "", "F1", 5.0, 0.5, "second"),
    ("F", BLIP, "CelebA", "sfid", "", "EO_avg", 12.1, 0.1, "best"),
    ("F", BLIP, "FACET", "roboshot", "", "EO_max", 44.4, 0.1, "best"),
    ("F", BLIP, "FACET", "closed-form", "", "macro F1", 68.4, 0.3, "best"),
    ("F", BLIP, "COCO2017", "none", "", "R@5", 93.9, 0.5, ""),
    ("F", BLIP, "COCO2017", "prompt-array", "", "R@10", 96.0, 0.3, "second"),
    ("F", BLIP, "COCO2017", "closed-form", "", "MS@1000", 12.0, 0.3, "second"),
    ("F", BLIP, "Flickr30K", "orth-proj", "", "R@10", 88.1, 0.6, ""),
    ("F", BLIP, "Flickr30K", "clip-clip", "", "MS@1000", 8.1, 0.2, "best"),
]

# The cells that break a rule, worked out by hand: rule, model, dataset, method, metric.
FLAGGED = {
    ("steps", SD, "occupations", "none", "SP_5"),
    ("steps", SD, "occupations", "orth-proj", "SP_5"),
    ("steps", SD, "occupations", "orth-cali", "SP_5"),
    ("gaps", RN50, "CelebA", "prism", "EO_avg"),
    ("gaps", RN50, "CelebA", "prism", "EO_max"),
    ("gaps", BLIP, "CelebA", "sfid", "EO_avg"),
    ("gaps", BLIP, "CelebA", "sfid", "EO_max"),
    ("recall", BLIP, "Flickr30K", "clip-clip", "R@5"),
    ("recall", BLIP, "Flickr30K", "clip-clip", "R@10"),
    ("recall", BLIP, "Flickr30K", "orth-proj", "R@5"),
    ("recall", BLIP, "Flickr30K", "orth-proj", "R@10"),
    ("recall", BLIP, "Flickr30K", "orth-cali", "R@5"),
    ("recall", BLIP, "Flickr30K", "orth-cali", "R@10"),
    ("digits", BLIP, "CelebA", "prism", "F1"),
    ("marks", BLIP, "CelebA", "prism", "F1"),
    ("marks", BLIP, "COCO2017", "sfid", "R@5"),
    ("marks", BLIP, "COCO2017", "orth-proj", "R@5"),
}


def test_every_cell_is_there_once():
    counts = published.results().groupby(["table", "model"]).size().to_dict()
    classification, retrieval = 9 * 6, 8 * 6
    both = classification + retrieval
    assert counts == {
        ("2", VIT): classification,
        ("3", VIT): retrieval,
        ("4", SD): 20,
        ("5", VIT): 16,
        ("F", RN50): both,
        ("F", BLIP): both,
    }
    cells = read()
    assert (
        len({(c.table, c.model, c.dataset, c.method, c.variant, c.metric) for c in cells})
        == len(cells)
        == 342
    )


@pytest.mark.parametrize("expected", BY_EYE, ids=lambda e: " ".join(map(str, e[:6])))
def test_cells_looked_up_by_eye(expected):
    *where, value, spread, marker = expected
    names = ("table", "model", "dataset", "method", "variant", "metric")
    found = published.lookup(**dict(zip(names, where, strict=True)))
    assert len(found) == 1
    cell = found.iloc[0]
    assert (cell["value"], cell["marker"]) == (value, marker)
    assert math.isnan(cell["spread"]) if spread is None else cell["spread"] == spread


def test_the_file_is_what_the_paper_prints(tmp_path):
    paper = shared_data("../paper/paper.tex")
    page = shutil.copy(PAGE, tmp_path)
    command = [sys.executable, SCRIPT, paper, "--results", tmp_path / "results.csv", "--page", page]
    subprocess.run(command, check=True, cwd=ROOT)
    assert (tmp_path / "results.csv").read_bytes() == FILE.read_bytes()
    assert (tmp_path / PAGE.name).read_text(encoding="utf-8") == PAGE.read_text(encoding="utf-8")


def test_a_cell_that_cannot_be_read_stops_the_script_and_writes_nothing(tmp_path):
    table = r"\begin{table}\begin{tabular}{l|c}%s\end{tabular}\end{table}"
    good = r"\textbf{Datasets} & CelebA \\ \textbf{Metric} & F1 $\uparrow$ \\ Baseline BLIP & 50.0$\pm$0.1 \\ Ours & 5o.1 \\"
    (tmp_path / "paper.tex").write_text(table % "a & b" + table % good)
    page = shutil.copy(PAGE, tmp_path)
    command = [
        sys.executable,
        SCRIPT,
        tmp_path / "paper.tex",
        "--results",
        tmp_path / "results.csv",
        "--page",
        page,
    ]
    result = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 1 and "'5o.1'" in result.stderr and "Traceback" not in result.stderr
    assert not (tmp_path / "results.csv").exists()


def test_the_page_lists_the_flagged_cells():
    page = PAGE.read_text(encoding="utf-8")
    assert runpy.run_path(str(SCRIPT))["with_flagged"](page, read()) == page


def test_names_are_the_products():
    cells = published.results()
    ours = {
        "none",
        "closed-form",
        "orth-proj",
        "orth-cali",
        "prism-mini",
        "prism",
        "roboshot",
        "clip-clip",
        "sfid",
        "fairer-clip",
        "prompt-array",
    }
    assert set(cells["method"]) == ours
    assert set(cells["task"]) == {"classification", "retrieval", "generation"}
    attributes = cells.groupby("dataset")["attribute"].unique().map(list).to_dict()
    assert attributes == {
        "CelebA": ["gender & age"],
        "FACET": ["gender"],
        "COCO2017": ["gender & skin tone"],
        "Flickr30K": ["gender"],
        "occupations": ["gender"],
    }
    assert set(cells.loc[cells["better"] == "higher", "metric"]) == {
        "F1",
        "macro F1",
        "R@5",
        "R@10",
        "CLIP score",
        "Acc^G",
    }
    assert set(cells.loc[cells["better"] == "lower", "metric"]) == {
        "EO_avg",
        "EO_max",
        "MS@1000",
        "SP_all",
        "SP_5",
    }


def test_lookup_narrows_and_is_empty_where_nothing_was_published():
    assert len(published.lookup()) == 342
    assert len(published.lookup(table=5)) == 16
    assert len(published.lookup(table="f", model="blip", task="Retrieval")) == 48
    assert len(published.lookup(dataset="CelebA", method="closed-form", metric="EO_max")) == 3 + 7
    assert len(published.lookup(dataset="my photographs")) == 0


def test_what_is_returned_is_the_callers_own():
    for frame in (published.results(), published.lookup(table=2)):
        frame["value"] = 0.0
    assert published.lookup(table=2)["value"].min() > 0


def test_flags_are_those_found_by_hand():
    found = published.problems()
    flags = set(
        found[["rule", "model", "dataset", "method", "metric"]].itertuples(index=False, name=None)
    )
    assert flags == FLAGGED and len(found) == len(FLAGGED)
    impossible = published.impossible()
    assert set(impossible["rule"]) == {"steps", "gaps", "recall"} and len(impossible) == 13


def test_results_carry_the_reasons():
    cells = published.results()
    assert (cells["problem"] != "").sum() == len({flag[1:] for flag in FLAGGED}) == 16
    reason = published.lookup(model=BLIP, dataset="CelebA", method="prism", metric="F1")[
        "problem"
    ].item()
    assert "printed as 5," in reason and "marked second" in reason


# The rules are sound: nothing that data can give is flagged.


def cell(dataset: str, metric: str, value: float) -> Cell:
    return Cell("2", "", "", dataset, "", "sfid", "", metric, "lower", f"{100 * value:.1f}", "", "")


def assert_allowed(dataset: str, **metrics: float) -> None:
    cells = [cell(dataset, metric.replace("at", "@"), value) for metric, value in metrics.items()]
    assert [finding for rule in rules.ARITHMETIC.values() for finding in rule(cells)] == []


rates = st.floats(0, 1)


@given(st.lists(rates, min_size=4, max_size=4))
def test_gaps_of_any_four_rates_are_allowed(four):
    gaps = [abs(a - b) for a, b in combinations(four, 2)]
    assert_allowed("CelebA", EO_avg=np.mean(gaps), EO_max=max(gaps))


def test_the_bounds_on_gaps_of_four_rates_are_reached():
    for four, ratio in (((0, 0.5, 0.5, 1), 1 / 2), ((0, 0, 1, 1), 2 / 3)):
        assert np.isclose(np.mean([abs(a - b) for a, b in combinations(four, 2)]), ratio)
        assert ratio in rules.GAP_RATIO["CelebA"]


@given(st.lists(rates, min_size=18, max_size=18))
def test_gaps_of_any_18_classes_are_allowed(gaps):
    assert_allowed("FACET", EO_avg=np.mean(gaps), EO_max=max(gaps))


@given(st.lists(st.integers(0, 1367), min_size=1, max_size=50))
def test_recall_of_any_ranks_is_allowed(ranks):
    assert_allowed(
        "COCO2017", Rat5=np.mean(np.array(ranks) < 5), Rat10=np.mean(np.array(ranks) < 10)
    )


@given(
    st.sampled_from([("COCO2017", 1368, 4), ("Flickr30K", 3079, 2)]),
    st.integers(0, 2**32 - 1),
    st.booleans(),
)
def test_skew_of_any_retrieval_is_allowed(case, seed, sorted_by_group):
    dataset, n, groups = case
    rng = np.random.default_rng(seed)
    group = rng.choice(groups, size=n, p=rng.dirichlet(np.ones(groups)))
    top = (np.sort(group) if sorted_by_group else group)[:1000]
    share, hits = (
        np.bincount(group, minlength=groups) / n,
        np.bincount(top, minlength=groups) / 1000,
    )
    present = hits > 0
    assert_allowed(dataset, MSat1000=np.log(hits[present] / share[present]).max())


@given(st.lists(st.integers(0, 100), min_size=5, max_size=5), st.integers(0, 500))
def test_parity_and_accuracy_of_any_pictures_are_allowed(men, wrong):
    parity = [math.sqrt((n / 100 - 1 / 2) ** 2 + ((100 - n) / 100 - 1 / 2) ** 2) for n in men]
    assert_allowed("occupations", SP_5=np.mean(parity))
    assert not list(rules.steps([cell("occupations", "Acc^G", (500 - wrong) / 500)]))


@pytest.mark.parametrize(
    ("rule", "where", "change"),
    [
        ("gaps", ("2", "FACET", "sfid", "EO_avg"), {"value": "50.0"}),
        ("gaps", ("2", "FACET", "sfid", "EO_avg"), {"value": "2.6"}),
        ("recall", ("3", "COCO2017", "sfid", "R@10"), {"value": "77.2"}),
        ("bounds", ("3", "COCO2017", "sfid", "MS@1000"), {"value": "31.5"}),
        ("bounds", ("4", "occupations", "sfid", "SP_all"), {"value": "70.9"}),
        ("steps", ("4", "occupations", "sfid", "Acc^G"), {"value": "67.3"}),
        ("digits", ("2", "CelebA", "sfid", "F1"), {"value": "52"}),
        ("marks", ("2", "CelebA", "sfid", "F1"), {"marker": "best"}),
        ("repeats", ("5", "CelebA", "none", "EO_max"), {"value": "45.1"}),
        ("repeats", ("5", "CelebA", "none", "EO_max"), {"spread": "0.4"}),
    ],
)
def test_each_rule_finds_a_cell_that_breaks_it(rule, where, change):
    cells = read()
    before = {(cell, name) for cell, name, _ in rules.broken(cells)}
    place = next(
        i for i, c in enumerate(cells) if (c.table, c.dataset, c.method, c.metric) == where
    )
    cells[place] = replace(cells[place], **change)
    new = {(cell, name) for cell, name, _ in rules.broken(cells)} - before
    assert (cells[place], rule) in new


# What the page says beyond the flags.


def test_celeba_is_in_the_released_form():
    """Printed form, two classes: EO_max <= 2/3 of the larger class's largest gap <= 4/3 EO_avg."""
    rows = list(rules._pairs([c for c in read() if c.dataset == "CelebA"], "EO_avg", "EO_max"))
    assert len(rows) == 27
    assert all(mean.number < 0.75 * largest.number for mean, largest in rows)


def test_the_spread_is_less_than_chance():
    cells = published.lookup(dataset="COCO2017")
    cells = cells[cells["metric"].isin(["R@5", "R@10"])]
    p = cells["value"] / 100
    deviation = 100 * np.sqrt(p * (1 - p) / 1368)
    assert len(cells) == 48 and (cells["spread"] < deviation).all()
    assert (deviation.min().round(2), deviation.max().round(1)) == (0.45, 1.3)
    assert (cells["spread"] < deviation**2).sum() == 43
