"""The leakage probe: what must be readable is, what cannot be is not, and its AUC is scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import equipoise as eq
from equipoise.errors import InputError
from equipoise.metrics._probe import METRIC, _auc, _auc_without_each, _Contest
from tests.helpers.common import shared_data


def test_reads_what_is_there_and_nothing_else(rng):
    n, groups = 400, rng.choice(["a", "b"], 400)
    noise = rng.standard_normal((n, 20))
    axis = np.where(groups == "a", 1.0, -1.0)
    methods = {"plain": noise + 0.5 * axis[:, None] * np.eye(20)[0], "erased": noise}
    result = eq.metrics.leakage_probe(methods, sensitive_features=groups, resamples=300)
    plain, erased = (result.estimate(name, METRIC) for name in methods)
    assert plain.low > 0.6 and erased.low < 0.5 < erased.high
    assert result.difference("erased", "plain", METRIC, kind="bca").high < 0
    constant = eq.metrics.leakage_probe(np.ones((n, 3)), sensitive_features=groups, resamples=10)
    assert constant.estimate("embeddings", METRIC).value == 0.5, "ties are half"


def test_value_is_the_auc_within_folds(rng):
    x, y = rng.standard_normal((200, 6)), rng.integers(0, 2, 200)
    x[:, 0] += y
    pairs = won = 0.0
    for train, test in StratifiedKFold(5, shuffle=True, random_state=0).split(x, y):
        model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000)).fit(
            x[train], y[train]
        )
        here = y[test].sum() * (1 - y[test]).sum()
        won, pairs = (
            won + here * roc_auc_score(y[test], model.decision_function(x[test])),
            pairs + here,
        )
    ours = (
        eq.metrics.leakage_probe(x, sensitive_features=y, resamples=1)
        .estimate("embeddings", METRIC)
        .value
    )
    assert ours == pytest.approx(won / pairs)


@pytest.mark.parametrize("folds", [1, 3])
def test_resampled_auc_is_that_of_the_drawn_rows(folds, rng):
    scores, positive, fold = (
        rng.integers(0, 8, 60).astype(float),
        rng.random(60) < 0.4,
        rng.integers(0, folds, 60),
    )
    contest = _Contest.of(scores, positive, fold)

    def brute(rows):
        a, b = rows[positive[rows]], rows[~positive[rows]]
        same = fold[a][:, None] == fold[b]
        won = (scores[a][:, None] > scores[b]) + (scores[a][:, None] == scores[b]) / 2
        return (won * same).sum() / same.sum()

    for _ in range(20):
        drawn = rng.integers(0, 60, 60)
        times = np.bincount(drawn, minlength=60)[None].astype(np.uint16)
        assert _auc([contest], times)[0] == pytest.approx(brute(drawn))
    without = _auc_without_each(contest)
    for i in range(60):
        assert without[i] == pytest.approx(brute(np.delete(np.arange(60), i)))


def test_several_groups_and_unknown_ones(rng):
    groups = rng.choice(["a", "b", "c", None], 400)
    x = rng.standard_normal((400, 5))
    x[:, 0] += 3 * (groups == "c")
    estimate = eq.metrics.leakage_probe(x, sensitive_features=groups, resamples=50).estimate(
        "embeddings", METRIC, kind="bca"
    )
    assert estimate.n == (groups != None).sum() and estimate.left_out == 400 - estimate.n  # noqa: E711
    assert 0.6 < estimate.value < 0.95, "c is read, a and b are not told apart"
    again = eq.metrics.leakage_probe(x, sensitive_features=groups, resamples=50).estimate(
        "embeddings", METRIC, kind="bca"
    )
    assert estimate == again


def test_debiased_clip_embeddings_still_tell(rng):
    """Real CLIP vectors: an adversary reads gender before debiasing and, at any finite kappa, after."""
    celeba = np.load(shared_data("embeddings/celeba1000_clip_vitb32.npz"), allow_pickle=False)
    text = np.load(shared_data("embeddings/text_clip_vitb32_objects.npz"), allow_pickle=False)
    prompts = list(text["prompt"])
    images = celeba["image"].astype(np.float32)
    male = celeba["attrs"][:, list(celeba["attr_names"]).index("Male")]

    def vector(*names):
        return text["text"][[prompts.index(f"a {n}") for n in names]].astype(np.float64)

    space = eq.AttributeSpace.from_prototypes(
        {"male": vector("Man", "Boy"), "female": vector("Woman", "Girl")}
    )
    result = eq.metrics.leakage_probe(
        {"none": images, "closed-form": eq.debias(images, space)},
        sensitive_features=male,
        resamples=100,
    )
    assert (
        result.estimate("none", METRIC).low > 0.98
        and result.estimate("closed-form", METRIC).low > 0.95
    )


@pytest.mark.parametrize(
    ("x", "groups", "options", "says"),
    [
        (np.ones((4, 2)), list("aabb"), {}, "folds=5"),
        (np.ones((4, 2)), list("aaaa"), {}, "tells groups apart"),
        (np.ones(4), list("aabb"), {}, "shape"),
        (np.full((4, 2), np.nan), list("aabb"), {}, "4 rows hold NaN"),
        ({"a": np.ones((4, 2)), "b": np.ones((3, 2))}, list("aabb"), {}, "same rows"),
        (np.ones((4, 2)), list("aab"), {}, "3 labels for 4 rows"),
        (np.ones((20, 2)), list("ab") * 10, {"resamples": 0}, "resamples=0"),
        (np.ones((20, 2)), list("ab") * 10, {"strength": 0}, "strength=0"),
    ],
)
def test_bad_input_says_what_to_do(x, groups, options, says):
    with pytest.raises(InputError, match=says):
        eq.metrics.leakage_probe(x, sensitive_features=groups, **options)
