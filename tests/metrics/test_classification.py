"""Classification metrics: by hand, against naive loops, scikit-learn and fairlearn, and at every degenerate case."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sk

import equipoise as eq
from equipoise.errors import InputError
from equipoise.metrics import EQUAL_OPPORTUNITY, Cells
from tests.helpers.common import component

# Ten people. True class, prediction, group:
#   blond:  male    b>b b>d          rate 1/2        dark:  male    d>d d>d      rate 1
#           female  b>b b>b b>b b>d  rate 3/4               female  d>b d>d      rate 1/2
TRUE = list("bb") + list("bbbb") + list("dd") + list("dd")
PRED = list("bd") + list("bbbd") + list("dd") + list("bd")
SEX = ["m"] * 2 + ["f"] * 4 + ["m"] * 2 + ["f"] * 2


@st.composite
def tables(draw, groups=4):
    n = draw(st.integers(1, 40))
    column = lambda k: np.array(draw(st.lists(st.integers(0, k - 1), min_size=n, max_size=n)))  # noqa: E731
    classes = draw(st.integers(1, 4))
    return column(classes), column(classes), column(draw(st.integers(2, groups)))


def naive_equal_opportunity(y, p, g, over_groups, over_classes):
    """Straight from the paper's formulas, with loops."""
    per_class = []
    for k in sorted(set(y)):
        rates = []
        for group in sorted(set(g)):
            mine = [b for a, b, c in zip(y, p, g, strict=True) if a == k and c == group]
            if mine:
                rates.append(sum(b == k for b in mine) / len(mine))
        gaps = [abs(a - b) for a, b in itertools.combinations(rates, 2)]
        if gaps:
            per_class.append(max(gaps) if over_groups == "max" else sum(gaps) / len(gaps))
    if not per_class:
        return math.nan
    return max(per_class) if over_classes == "max" else sum(per_class) / len(per_class)


def test_by_hand():
    eo = lambda **kw: eq.metrics.equal_opportunity(TRUE, PRED, sensitive_features=SEX, **kw)  # noqa: E731
    assert eo() == pytest.approx((1 / 4 + 1 / 2) / 2)
    assert eo(over_classes="max") == pytest.approx(1 / 2)
    assert eo(classes=["b"]) == pytest.approx(1 / 4)
    assert eq.metrics.accuracy(TRUE, PRED) == pytest.approx(7 / 10)
    assert eq.metrics.binary_f1(TRUE, PRED, positive="b") == pytest.approx(2 * 4 / (6 + 5))
    assert eq.metrics.macro_f1(TRUE, PRED) == pytest.approx((8 / 11 + 2 * 3 / (4 + 5)) / 2)
    assert eq.metrics.worst_group_accuracy(TRUE, PRED, sensitive_features=SEX) == pytest.approx(
        4 / 6
    )
    assert eq.metrics.worst_group_accuracy(
        TRUE, PRED, sensitive_features=SEX, by_class=True
    ) == pytest.approx(1 / 2)
    table = eq.metrics.rates(TRUE, PRED, sensitive_features=SEX)
    assert table.loc[("b", "f")].to_dict() == pytest.approx(
        {
            "rows": 6,
            "positives": 4,
            "true_positive_rate": 3 / 4,
            "false_positive_rate": 1 / 2,
            "selection_rate": 4 / 6,
        }
    )
    inside = eq.metrics.by_group(TRUE, PRED, sensitive_features=SEX)
    assert inside.loc["m", "accuracy"] == pytest.approx(3 / 4) and inside.loc["f", "rows"] == 6


def test_the_printed_and_the_released_form():
    """Four groups, one class, rates 1, 1/2, 1/2, 0: the largest gap is 1, the mean of the six gaps (3 * 1/2 + 1/2 + 1 + 0) / 6."""
    y, g = ["b"] * 8, list("aabbccdd")
    p = ["b", "b", "b", "x", "b", "x", "x", "x"]

    def value(form, which):
        return eq.metrics.equal_opportunity(
            y, p, sensitive_features=g, **EQUAL_OPPORTUNITY[form][which]
        )

    assert value("printed", "avg") == pytest.approx(1) and value("printed", "max") == pytest.approx(
        0.5
    )
    assert value("pairs", "avg") == pytest.approx(0.5) and value("pairs", "max") == pytest.approx(1)
    # where several classes are measured, the released code takes the mean over pairs first
    assert value("released", "avg") == value("released", "max") == pytest.approx(0.5)


def test_the_released_forms_of_several_classes_and_groups(rng):
    """Seven classes, four groups: the mean over pairs and then the largest class is not the largest pair of all classes."""
    y, g = rng.integers(0, 7, 4000), rng.integers(0, 4, 4000)
    p = np.where(rng.random(4000) < 0.4 + 0.1 * g, y, rng.integers(0, 7, 4000))
    gaps = []
    for k in range(7):
        rates = [(p[(y == k) & (g == group)] == k).mean() for group in range(4)]
        gaps.append([abs(a - b) for a, b in itertools.combinations(rates, 2)])
    expected = {
        ("released", "avg"): np.mean(gaps),
        ("released", "max"): np.max(np.mean(gaps, axis=1)),
        ("pairs", "avg"): np.mean(gaps),
        ("pairs", "max"): np.max(gaps),
    }
    for (form, which), value in expected.items():
        options = EQUAL_OPPORTUNITY[form][which]
        found = eq.metrics.equal_opportunity(y, p, sensitive_features=g, **options)
        assert found == pytest.approx(value)
    assert expected["released", "max"] < expected["pairs", "max"] - 0.05


def test_an_empty_class_scores_nothing_where_it_is_asked_to():
    cells = eq.metrics.Cells.count(list("aabb"), list("aabb"))
    assert cells.macro_f1() == 1 and cells.macro_f1(out_of=2) == 1
    assert cells.macro_f1(out_of=5) == pytest.approx(2 / 5)
    with pytest.raises(eq.EquipoiseError, match="out_of=1 is not legal"):
        cells.macro_f1(out_of=1)


@given(tables(), st.sampled_from(["max", "mean"]), st.sampled_from(["max", "mean"]))
def test_equal_opportunity_is_the_formula(table, over_groups, over_classes):
    y, p, g = table
    if len(set(g)) < 2:
        return
    ours = eq.metrics.equal_opportunity(
        y, p, sensitive_features=g, over_groups=over_groups, over_classes=over_classes
    )
    assert ours == pytest.approx(
        naive_equal_opportunity(y, p, g, over_groups, over_classes), nan_ok=True
    )


@given(tables())
def test_agrees_with_scikit_learn(table):
    y, p, g = table
    assert eq.metrics.accuracy(y, p) == pytest.approx(sk.accuracy_score(y, p))
    assert eq.metrics.macro_f1(y, p) == pytest.approx(
        sk.f1_score(y, p, average="macro", zero_division=0)
    )
    for k in set(y) | set(p):
        assert eq.metrics.binary_f1(y, p, positive=k) == pytest.approx(
            sk.f1_score(y == k, p == k, zero_division=0)
        )
    for group, line in eq.metrics.by_group(y, p, sensitive_features=g).iterrows():
        assert line["macro_f1"] == pytest.approx(
            sk.f1_score(y[g == group], p[g == group], average="macro", zero_division=0)
        )


@settings(max_examples=20)  # each example builds some twenty of fairlearn's frames
@given(tables())
def test_agrees_with_fairlearn(table):
    fairlearn = component("fairlearn.metrics")
    y, p, g = table
    column = pd.Series(g)  # fairlearn takes no array of one row
    frame = fairlearn.MetricFrame(
        metrics=sk.accuracy_score, y_true=y, y_pred=p, sensitive_features=column
    )
    assert eq.metrics.worst_group_accuracy(y, p, sensitive_features=g) == pytest.approx(
        frame.group_min()
    )
    lines = eq.metrics.rates(y, p, sensitive_features=g)
    for k in set(y):
        measures = {
            "selection_rate": fairlearn.selection_rate,
            "true_positive_rate": fairlearn.true_positive_rate,
        }
        if len(set(y)) > 1:
            measures["false_positive_rate"] = fairlearn.false_positive_rate
        for name, function in measures.items():
            by_group = fairlearn.MetricFrame(
                metrics=function, y_true=y == k, y_pred=p == k, sensitive_features=column
            ).by_group
            for group, value in by_group.items():
                mine = lines.loc[(k, group)]
                if np.isfinite(
                    mine[name]
                ):  # fairlearn gives 0 to a group without positives; we give no value
                    assert mine[name] == pytest.approx(value)
                else:
                    assert mine["positives"] == (
                        0 if name == "true_positive_rate" else mine["rows"]
                    )


def test_equal_opportunity_difference_of_fairlearn(rng):
    fairlearn = component("fairlearn.metrics")
    y, p, g = rng.integers(0, 2, 500), rng.integers(0, 2, 500), rng.integers(0, 3, 500)
    theirs = fairlearn.equal_opportunity_difference(y, p, sensitive_features=g)
    assert eq.metrics.equal_opportunity(y, p, sensitive_features=g, classes=[1]) == pytest.approx(
        theirs
    )


def test_intersections_in_every_shape(rng):
    y, p = rng.integers(0, 3, 200), rng.integers(0, 3, 200)
    sex, age = rng.choice(["m", "f"], 200), rng.choice(["young", "old"], 200)
    one = eq.metrics.equal_opportunity(
        y, p, sensitive_features=[f"{a} {b}" for a, b in zip(sex, age, strict=True)]
    )
    frame = pd.DataFrame({"sex": sex, "age": age})
    for features in (
        frame,
        {"sex": sex, "age": age},
        (sex, age),
        [sex, list(age)],
        np.array([sex, age]).T,
    ):
        assert eq.metrics.equal_opportunity(y, p, sensitive_features=features) == pytest.approx(one)
    assert Cells.count(y, p, sensitive_features=frame).groups == (
        "f & old",
        "f & young",
        "m & old",
        "m & young",
    )


@pytest.mark.parametrize("nobody_knows", [None, math.nan, pd.NA, "", "unknown", "Unsure", "nan"])
def test_unknown_groups_are_left_out_and_counted(nobody_knows):
    y, p, g = [*TRUE, "b", "d"], [*PRED, "d", "b"], [*SEX, nobody_knows, nobody_knows]
    cells = Cells.count(y, p, sensitive_features=g)
    assert cells.groups == ("f", "m") and cells.left_out == 2 and cells.n == 10
    assert eq.metrics.equal_opportunity(y, p, sensitive_features=g) == eq.metrics.equal_opportunity(
        TRUE, PRED, sensitive_features=SEX
    )
    assert Cells.count(y, p, sensitive_features=pd.Series(g, dtype=object)).left_out == 2
    assert Cells.count(y, p, sensitive_features=(g, [*SEX, "m", "m"])).left_out == 2


def test_unknown_classes_are_left_out_and_counted():
    cells = Cells.count(
        [*TRUE, None, "unknown"], [*PRED, "b", "d"], sensitive_features=[*SEX, "m", "f"]
    )
    assert (
        cells.left_out == 2
        and cells.classes == ("b", "d")
        and cells.accuracy() == pytest.approx(0.7)
    )
    assert eq.metrics.accuracy(["a", "a"], ["a", "unknown"]) == 0.5, (
        "an abstention is a wrong prediction"
    )


def test_a_group_without_positives_is_left_out_of_that_class():
    y, p, g = [1, 1, 1, 0, 0, 0], [1, 0, 1, 0, 0, 1], list("aabaac")
    rates = Cells.count(y, p, sensitive_features=g).true_positive_rates()
    assert np.isnan(rates[1, 2]) and np.isnan(rates[0, 1])
    assert eq.metrics.equal_opportunity(y, p, sensitive_features=g, classes=[1]) == pytest.approx(
        1 / 2
    )
    assert math.isnan(
        eq.metrics.equal_opportunity([1, 0], [1, 0], sensitive_features=["a", "b"])
    ), "no class has two groups"


def test_one_class_and_labels_only_predicted():
    assert eq.metrics.macro_f1([1, 1], [1, 1]) == 1
    assert eq.metrics.macro_f1([1, 1], [1, 0]) == pytest.approx(
        sk.f1_score([1, 1], [1, 0], average="macro")
    )
    assert eq.metrics.equal_opportunity(
        [1, 1, 1], [1, 0, 1], sensitive_features=["a", "a", "b"]
    ) == pytest.approx(1 / 2)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (([1, 0], [1], ["a", "b"]), "y_pred has 1 labels"),
        (([1, 0], [1, 0], ["a"]), "sensitive_features has 1 labels for 2 rows"),
        (([1, 0], [1, 0], ["a", "a"]), "only \\['a'\\]"),
        (([1, 0], [1, 0], [None, "unknown"]), "every label is unknown"),
        (([], [], []), "no group"),
        (([None, None], [1, 0], ["a", "b"]), "none of the 2 rows"),
        (([1, 0], [1, None], ["a", "b"]), "1 missing"),
        (([1, 0], ["1", "0"], ["a", "b"]), "words and numbers"),
        (([1, 0], [1, 0], (["a", "b"], ["a"])), "each needs one for each row"),
        ((np.ones((2, 2)), [1, 0], ["a", "b"]), "shape \\(2, 2\\)"),
    ],
)
def test_bad_input_says_what_to_do(arguments, says):
    y, p, g = arguments
    with pytest.raises(InputError, match=says):
        eq.metrics.equal_opportunity(y, p, sensitive_features=g)


@pytest.mark.parametrize(
    "options",
    [
        {"over_groups": "median"},
        {"over_classes": "none"},
        {"classes": ["z"]},
        {"classes": "b"},
        {"classes": []},
    ],
)
def test_bad_options_name_the_legal_ones(options):
    with pytest.raises(InputError, match=r"legal|hold"):
        eq.metrics.equal_opportunity(TRUE, PRED, sensitive_features=SEX, **options)
