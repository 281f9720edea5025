"""Intervals: the same numbers as scipy's bootstrap on the rows, paired differences, BCa, seeds, undefined resamples."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import equipoise as eq
from equipoise.errors import InputError
from equipoise.metrics import Cells
from equipoise.metrics._intervals import (
    POSITIVE,
    SHARE,
    Chance,
    LeaveOneOut,
    acceleration,
    interval,
    lifted,
)
from equipoise.metrics._labels import Coded
from equipoise.metrics._resample_lists import multiplicities
from equipoise.metrics._retrieval import Ranking


def case(rng, n=400, classes=3, groups=3):
    y, g = rng.integers(0, classes, n), rng.integers(0, groups, n)
    good = np.where(rng.random(n) < 0.8 - 0.15 * g, y, rng.integers(0, classes, n))
    fair = np.where(rng.random(n) < 0.7, y, rng.integers(0, classes, n))
    return y, {"none": good, "fair": fair}, g


METRICS = {
    "macro F1": Cells.macro_f1,
    "EO": Cells.equal_opportunity,
    "EO mean": lambda c: c.equal_opportunity(over_groups="mean"),
}


def brute(y, p, g):
    cells = Cells.count(y, p, sensitive_features=g)
    return [float(metric(cells)) for metric in METRICS.values()]


def test_values_are_the_plain_functions(rng):
    y, predictions, g = case(rng)
    result = eq.metrics.bootstrap_classification(
        y, predictions, sensitive_features=g, metrics=METRICS, resamples=2
    )
    for method, p in predictions.items():
        assert [result.estimate(method, metric).value for metric in METRICS] == pytest.approx(
            brute(y, p, g)
        )


@given(st.integers(0, 10_000), st.integers(1, 3))
def test_every_replicate_is_a_resample_of_rows(seed, methods):
    """Rows rebuilt from the drawn patterns give the replicate, whatever function counts them, and they are n rows of the table."""
    rng = np.random.default_rng(seed)
    y, g = rng.integers(0, 3, 30), rng.integers(0, 2, 30)
    predictions = {str(i): rng.integers(0, 3, 30) for i in range(methods)}
    seen = {name: Cells.count(y, p, sensitive_features=g) for name, p in predictions.items()}
    kept = {}

    def spy(cells):
        kept.setdefault(len(kept), cells)
        return cells.n.astype(float)

    result = eq.metrics.bootstrap_classification(
        y, predictions, sensitive_features=g, metrics={"n": spy}, resamples=5, seed=seed
    )
    replicates, points = list(kept.values())[:methods], list(kept.values())[methods:]
    for resampled, point, original in zip(replicates, points, seen.values(), strict=True):
        assert resampled.counts.shape[0] == 5 and (resampled.counts.sum((1, 2, 3)) == 30).all()
        assert (point.counts[0].sum((0, 1)) == original.counts.sum((0, 1))).all()
    for other in replicates[
        1:
    ]:  # the same resamples: each class has as many rows of each group, whoever predicted
        assert (other.counts.sum(2) == replicates[0].counts.sum(2)).all()
    assert all(result.replicates[str(i), "n"].tolist() == [30] * 5 for i in range(methods))


def test_agrees_with_scipy_on_rows(rng):
    """Same distribution, so means and interval ends agree within their Monte Carlo error: 2,000 resamples, ends within 6 standard errors."""
    y, predictions, g = case(rng)
    ours = eq.metrics.bootstrap_classification(
        y, predictions, sensitive_features=g, metrics=METRICS, resamples=2000, seed=1
    )

    def statistic(y, a, b, g):
        return np.array([*brute(y, a, g), *brute(y, b, g)])

    rows = (y, predictions["none"], predictions["fair"], g)
    options = {
        "paired": True,
        "vectorized": False,
        "n_resamples": 2000,
        "rng": np.random.default_rng(2),
    }
    for kind in ("percentile", "BCa"):
        theirs = stats.bootstrap(rows, statistic, method=kind, **options)
        low, high = theirs.confidence_interval
        for i, (method, metric) in enumerate(
            (method, metric) for method in predictions for metric in METRICS
        ):
            mine = ours.estimate(method, metric, kind=kind.lower())
            # the standard error of an end at the 2.5 % tail is about 2.7 sd / sqrt(resamples) for a normal distribution; two of them differ
            error = 2.7 * theirs.standard_error[i] / math.sqrt(2000) * math.sqrt(2)
            assert mine.mean == pytest.approx(
                theirs.bootstrap_distribution[i].mean(),
                abs=6 * theirs.standard_error[i] / math.sqrt(1000),
            )
            assert mine.low == pytest.approx(low[i], abs=6 * error) and mine.high == pytest.approx(
                high[i], abs=6 * error
            )
            assert mine.std == pytest.approx(theirs.standard_error[i], rel=6 / math.sqrt(2000))


def test_bca_is_scipys_on_the_same_replicates(rng):
    """On given replicates the ends are those of scipy, to rounding."""
    y, predictions, g = case(rng, 150)
    ours = eq.metrics.bootstrap_classification(
        y, predictions, sensitive_features=g, metrics=METRICS, resamples=999
    )
    for metric in ("macro F1", "EO mean"):
        replicates = ours.replicates["none", metric]

        def statistic(y, p, g, metric=metric):
            return float(METRICS[metric](Cells.count(y, p, sensitive_features=g)))

        given_ = stats.bootstrap(
            (y, predictions["none"], g),
            statistic,
            paired=True,
            vectorized=False,
            n_resamples=2,
            method="percentile",
        )
        given_.bootstrap_distribution = replicates
        theirs = stats.bootstrap(
            (y, predictions["none"], g),
            statistic,
            paired=True,
            vectorized=False,
            n_resamples=0,
            bootstrap_result=given_,
            method="BCa",
        ).confidence_interval
        mine = ours.estimate("none", metric, kind="bca")
        assert (mine.low, mine.high) == pytest.approx(tuple(theirs), abs=1e-9)


def test_basic_is_scipys(rng):
    values = rng.standard_normal(50)
    theirs = stats.bootstrap((values,), np.mean, method="basic", n_resamples=500, rng=0)
    ours = interval(float(values.mean()), theirs.bootstrap_distribution, 0.95, "basic")
    assert ours == pytest.approx(tuple(theirs.confidence_interval))


def test_differences_are_paired(rng):
    """Two methods that agree on nearly every row: the paired interval is far narrower than the two intervals together."""
    y, predictions, g = case(rng, 2000)
    twin = predictions["none"].copy()
    twin[:20] = y[:20]
    metric = {"F1": Cells.macro_f1}
    result = eq.metrics.bootstrap_classification(
        y, {"none": predictions["none"], "twin": twin}, sensitive_features=g, metrics=metric
    )
    gap, alone = result.difference("twin", "none", "F1"), result.estimate("none", "F1")
    assert gap.value == pytest.approx(result.estimate("twin", "F1").value - alone.value)
    assert gap.high - gap.low < (alone.high - alone.low) / 3
    same = result.difference("none", "none", "F1", kind="bca")
    assert same.low == same.high == same.value == 0
    table = result.table(baseline="none")
    assert list(table.method) == ["none", "twin"] and table.difference.iloc[1] == pytest.approx(
        gap.value
    )


def test_resamples_do_not_depend_on_blocks_but_on_the_seed(rng, monkeypatch):
    from equipoise.metrics import _resample_cells as resample_cells

    y, predictions, g = case(rng)

    def run(seed):
        return eq.metrics.bootstrap_classification(
            y, predictions, sensitive_features=g, metrics=METRICS, seed=seed
        )

    whole, other = run(0), run(1)
    monkeypatch.setattr(resample_cells, "BLOCK", 500)
    blocked = run(0)
    for key, values in whole.replicates.items():
        assert np.array_equal(values, blocked.replicates[key]) and not np.array_equal(
            values, other.replicates[key]
        )
    a, b = (result.estimate("none", "EO", kind="bca") for result in (whole, blocked))
    assert a == b


def test_left_out_and_undefined_are_counted():
    y, p = [1] * 6 + [0] * 20, [1] * 6 + [0] * 20
    g = ["a"] * 25 + [None]
    g[0] = "b"  # one row of class 1 in group b: absent from about 37 % of the resamples
    result = eq.metrics.bootstrap_classification(
        y,
        {"x": p},
        sensitive_features=g,
        metrics={"EO": lambda c: c.equal_opportunity(classes=[1])},
    )
    estimate = result.estimate("x", "EO")
    assert (estimate.n, estimate.left_out, estimate.resamples) == (25, 1, 1000)
    assert 250 < estimate.undefined < 500 and estimate.low == estimate.high == 0


def test_a_bootstrap_is_shown_in_a_line(rng):
    probe = eq.metrics.leakage_probe(
        rng.standard_normal((60, 4)), sensitive_features=["a", "b"] * 30, resamples=20
    )
    assert (
        repr(probe)
        == f"Bootstrap(embeddings probe AUC {probe.estimate('embeddings', 'probe AUC')}; n=60, over='images', left_out=0)"
    )


def test_degenerate_intervals():
    assert interval(1.0, np.ones(10), kind="bca") == (1.0, 1.0)
    assert all(np.isnan(interval(np.nan, np.ones(10))))
    assert all(np.isnan(interval(1.0, np.ones(0))))
    assert acceleration([LeaveOneOut(np.ones(5), np.ones(5))]) == 0


@pytest.mark.parametrize("options", [{"kind": "normal"}, {"level": 1.0}, {"level": 95}])
def test_bad_options(options, rng):
    y, predictions, g = case(rng, 50)
    result = eq.metrics.bootstrap_classification(y, predictions, sensitive_features=g, resamples=10)
    with pytest.raises(InputError, match="legal"):
        result.estimate("none", "accuracy", **options)
    with pytest.raises(InputError, match="methods:"):
        result.estimate("nothing", "accuracy")


def test_bad_calls(rng):
    y, predictions, g = case(rng, 50)
    with pytest.raises(InputError, match="mapping"):
        eq.metrics.bootstrap_classification(y, y, sensitive_features=g)
    for resamples in (0, 10.5, True):
        with pytest.raises(InputError, match="resamples="):
            eq.metrics.bootstrap_classification(
                y, predictions, sensitive_features=g, resamples=resamples
            )
    for metrics, says in (
        ({"x": lambda c: 1.0}, "one number for each"),
        (["macro F1"], "metrics is list"),
        ({}, "metrics is dict"),
    ):
        with pytest.raises(InputError, match=says):
            eq.metrics.bootstrap_classification(
                y, predictions, sensitive_features=g, metrics=metrics
            )


# --- The kind that is printed -----------------------------------------------------------


@given(
    st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=40),
    st.floats(-1e3, 1e3),
    st.floats(0.01, 0.99),
)
def test_a_printed_interval_always_holds_its_value(replicates, value, level):
    low, high = interval(value, np.array(replicates), level)
    assert low <= value <= high


@given(st.lists(st.floats(0, 1), min_size=2, max_size=40), st.floats(0, 1))
def test_no_end_lies_where_the_quantity_cannot_be(replicates, value):
    low, high = interval(value, np.array(replicates), limits=SHARE)
    assert 0 <= low <= value <= high <= 1


@given(st.lists(st.floats(0, 9), min_size=2, max_size=40), st.floats(0, 9), st.floats(0, 9))
def test_a_value_beyond_chance_leaves_the_floor_out_and_stays_inside(replicates, value, most):
    chance = Chance(most / 2, most)
    plain, _ = interval(value, np.array(replicates), limits=POSITIVE)
    low = lifted(value, plain, chance)
    if value > most:
        assert max(plain, chance.mean) <= low <= value
        assert low > chance.mean
    else:
        assert low == plain


def test_at_the_floor_an_interval_is_right_as_often_as_it_says():
    """Without a lean the skew is the floor. A centred interval holds it 99 % of the time, lifted by
    what chance reaches about 95 %; 4 standard errors of a count of 500 are allowed for.
    """
    rng = np.random.default_rng(3)
    images, m, galleries = 200, 20, 500
    male = np.arange(images) < images // 2
    groups = Coded(male.astype(int), (0, 1))
    random = np.stack([rng.permutation(images)[:m] for _ in range(2000)])
    skews = Ranking.of(top=random, groups=groups).max_skew(m).values[0]
    chance = Chance(float(skews.mean()), float(np.quantile(skews, 0.95)))
    held = 0
    for _ in range(galleries):
        ranking = Ranking.of(top=rng.permutation(images)[None, :120], groups=groups)
        value = float(ranking.max_skew(m).values[0, 0])
        drawn = ranking.resampled(multiplicities(rng, images, 100)).max_skew(m).values[:, 0]
        low, high = interval(value, drawn, limits=POSITIVE)
        held += lifted(value, low, chance) <= chance.mean <= high
    error = np.sqrt(0.05 * 0.95 / galleries)
    # a skew of 20 places takes few values, so that chance reaches the last of them in 3 to 5 %
    assert 0.95 - 4 * error < held / galleries < 0.98


def test_one_replicate_gives_no_interval():
    assert np.isnan(interval(0.5, np.array([0.5]))).all()


def test_percentiles_miss_the_value_that_centred_ones_hold(rng):
    """Near the floor a resample raises a maximum: the plain interval lies above its own value."""
    draws = rng.standard_normal((400, 2, 30))
    missed = 0
    for sample in draws:
        replicates = sample[:, rng.integers(0, 30, (200, 30))].mean(2).max(0)
        value = sample.mean(1).max()
        low, high = interval(value, replicates, 0.5, "percentile")
        missed += not low <= value <= high
        low, high = interval(value, replicates, 0.5)
        assert low <= value <= high
    assert missed > 0


@pytest.mark.parametrize("lean", [0.0, 0.5, 1.0])
def test_intervals_cover_what_another_gallery_would_give(lean):
    """Coverage of MaxSkew at the floor (0), near it and far from it, on made galleries.

    It must not fall below 92 %; 4 standard errors of a count of 200 are allowed for.
    """
    rng = np.random.default_rng(7)
    galleries, images, m = 200, 200, 20

    def gallery():
        """Return MaxSkew of a gallery, and of its resamples."""
        male = rng.random(images) < 0.5
        order = np.argsort(rng.standard_normal(images) - lean * male, kind="stable")
        ranking = Ranking.of(top=order[None, :120], groups=Coded(male.astype(int), (0, 1)))
        times = multiplicities(rng, images, 200)
        return (
            ranking.max_skew(m).values[0, 0],
            ranking.resampled(times).max_skew(m).values[:, 0],
        )

    found = [gallery() for _ in range(galleries)]
    expected = np.mean([value for value, _ in found])
    covered = 0
    for value, replicates in found:
        low, high = interval(value, replicates, limits=POSITIVE)
        covered += low <= expected <= high
    assert covered / galleries > 0.92 - 4 * np.sqrt(0.92 * 0.08 / galleries)
