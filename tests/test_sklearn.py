"""equipoise.sklearn: scikit-learn's own checks, pipelines and searches, and errors that say what to type."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

import equipoise as eq
from equipoise.errors import EquipoiseError
from equipoise.sklearn import Debiaser, MethodDebiaser, fair_scorer
from tests.helpers.common import make_space

SKIPPED = {"check_array_api_input"}  # its arrays come from SCIPY_ARRAY_API, which is not set
ZEROS = {"check_estimators_dtypes": "a row of zeros has no direction"}
CHECKED = [
    (Debiaser(groups_from="y"), ZEROS),
    (Debiaser(groups_from="y", on_invalid="keep"), {}),
    (MethodDebiaser("leace", groups_from="y"), {}),
]


@pytest.mark.parametrize(("estimator", "fails"), CHECKED)
@pytest.mark.filterwarnings("ignore")  # what the checks warn of is theirs
def test_scikit_learns_own_checks(estimator, fails):
    checks = check_estimator(estimator, expected_failed_checks=fails, on_fail="raise", on_skip=None)
    status = {check["check_name"]: check["status"] for check in checks}
    assert {name for name, found in status.items() if found == "skipped"} <= SKIPPED
    assert {name for name, found in status.items() if found == "xfail"} == set(fails)


@pytest.fixture
def rows(rng):
    """Rows (200, 16) that lean to two groups, the groups, and a class that follows them."""
    groups = np.where(rng.random(200) < 0.5, "male", "female")
    y = (rng.random(200) < np.where(groups == "male", 0.2, 0.8)).astype(int)
    means = 2 * rng.standard_normal((2, 16))
    X = rng.standard_normal((200, 16)) + np.where(groups[:, None] == "male", *means)
    X[:, 0] += 2 * y
    return X, y, groups


def test_a_given_space_debiases_as_eq_does(rng):
    space, X = make_space(rng, 16), rng.standard_normal((20, 16))
    for kappa in (None, 0.0, 0.5, np.inf):
        found = Debiaser(kappa=kappa, space=space).fit(X).transform(X)
        np.testing.assert_array_equal(found, eq.debias(X, space, kappa=kappa))


def test_a_space_may_be_a_file(rng, tmp_path):
    space, X = make_space(rng, 16), rng.standard_normal((20, 16)).astype(np.float32)
    space.save(tmp_path / "space.safetensors")
    found = Debiaser(space=tmp_path / "space.safetensors").fit_transform(X)
    np.testing.assert_array_equal(found, eq.debias(X, space))


def test_labels_make_the_space_of_their_mean_directions(rows):
    X, _, groups = rows
    fitted = Debiaser("gender").fit(X, sensitive_features=groups)
    means = {group: X[groups == group] for group in ("male", "female")}
    expected = eq.AttributeSpace.from_prototypes(means)
    np.testing.assert_allclose(
        np.abs(fitted.space_.basis.T @ expected.basis), np.eye(1), atol=1e-12
    )
    projected = fitted.set_params(kappa=np.inf).transform(X)
    assert np.abs(projected @ fitted.space_.basis).max() < 1e-12  # the projection leaves nothing


def test_labels_of_any_kind_are_groups(rows):
    X, _, groups = rows
    numbers = (groups == "male").astype(int)
    assert Debiaser("sex").fit(X, sensitive_features=numbers).space_.groups == ("0", "1")
    own = eq.Attribute("gender", ("male", "female"), labels={0: "female", 1: "male"})
    assert Debiaser(own).fit(X, sensitive_features=numbers).space_.groups == own.groups
    twice = np.stack([groups, np.where(np.arange(200) % 2, "young", "old")], axis=1)
    both = Debiaser("gender & age").fit(X, sensitive_features=twice)
    assert both.space_.rank == 3


def test_a_method_by_name_is_the_method(rows):
    X, y, groups = rows
    found = MethodDebiaser("leace", "gender").fit(X, y, sensitive_features=groups)
    context = eq.FitContext(
        eq.Attribute.load("gender"), images=X, sensitive_features=groups, labels=y
    )
    operator = eq.methods.create("leace").fit(context)
    np.testing.assert_array_equal(found.transform(X), operator.image(X))
    known = {"prototypes": {"male": X[0], "female": X[1]}}
    given = MethodDebiaser("closed-form", "gender", params={"kappa": 2.0}, known=known).fit(X)
    assert given.operator_.params["kappa"] == "2.0"


def test_names_of_features_and_pandas(rows):
    X, y, groups = rows
    frame = pd.DataFrame(X, columns=[f"e{i}" for i in range(16)])
    debiased = Debiaser("gender").set_output(transform="pandas")
    out = debiased.fit_transform(frame, sensitive_features=groups)
    assert list(out.columns) == list(frame.columns) and out.index.equals(frame.index)
    narrower = MethodDebiaser("clip-clip", "gender", params={"m": 10})
    narrower.set_output(transform="pandas").fit(frame, y, sensitive_features=groups)
    assert narrower.transform(frame).shape == (200, narrower.operator_.out_dim)


def test_clone_and_parameters():
    gender = eq.Attribute.load("gender")
    estimator = MethodDebiaser("sfid", gender, params={"tau": 0.7}, seed=3)
    twin = clone(estimator)
    assert twin is not estimator and twin.get_params() == estimator.get_params()


def test_a_search_over_kappa_with_a_fair_scorer(rows):
    X, y, groups = rows
    pipeline = make_pipeline(Debiaser("gender"), LogisticRegression())
    grid = {"debiaser__kappa": [0.0, 1.0, np.inf]}
    with sklearn.config_context(enable_metadata_routing=True):
        scores = {}
        for weight in (0.0, 5.0):
            search = GridSearchCV(pipeline, grid, scoring=fair_scorer(weight), cv=3)
            search.fit(X, y, sensitive_features=groups)
            scores[weight] = search.cv_results_["mean_test_score"]
        # what the weight takes away is five times the gap, which is never negative
        gaps = (scores[0.0] - scores[5.0]) / 5
        assert (gaps >= -1e-12).all() and gaps.max() <= 1
        assert gaps.argmax() == 0  # the class follows the group, so the plain rows are worst


def test_a_pipeline_passes_groups_without_routing_too(rows):
    X, y, groups = rows
    pipeline = make_pipeline(Debiaser("gender"), LogisticRegression())
    pipeline.fit(X, y, debiaser__sensitive_features=groups)
    assert pipeline.predict(X).shape == y.shape


WRONG = [
    (lambda X, g: Debiaser("gender").fit(X), "knows no groups.*sensitive_features="),
    (lambda X, g: Debiaser("gender", space=3).fit(X), "space is of type int"),
    (lambda X, g: Debiaser(7).fit(X, sensitive_features=g), "attribute=7 is not legal"),
    (lambda X, g: Debiaser(groups_from="g").fit(X), "groups_from='g' is not legal"),
    (lambda X, g: Debiaser().fit(X, sensitive_features=g[:5]), "5 labels for 200 rows"),
    (lambda X, g: Debiaser().fit(X, sensitive_features=["a"] * 200), r"holds 1 class, \['a'\]"),
    (lambda X, g: Debiaser("age").fit(X, sensitive_features=g), "is no label of 'age'"),
    (lambda X, g: MethodDebiaser("lease").fit(X, sensitive_features=g), "no method 'lease'"),
    (lambda X, g: MethodDebiaser("leace").fit(X), "does not say which groups"),
    (lambda X, g: MethodDebiaser("leace", "gender").fit(X), "leace needs sensitive_features"),
    (lambda X, g: MethodDebiaser(modality="sound").fit(X, sensitive_features=g), "modality="),
]


@pytest.mark.parametrize(("wrong", "told"), WRONG)
def test_what_is_typed_wrong_first_is_answered(rows, wrong, told):
    X, _, groups = rows
    with pytest.raises(EquipoiseError, match=told):
        wrong(X, groups)


def test_a_space_of_another_width_is_refused(rng):
    with pytest.raises(EquipoiseError, match="16 features and the space 8 dimensions"):
        Debiaser(space=make_space(rng, 8)).fit(rng.standard_normal((5, 16)))


def test_a_search_without_routing_says_what_to_type(rows):
    X, y, groups = rows
    pipeline = make_pipeline(Debiaser("gender"), LogisticRegression())
    pipeline.fit(X, y, debiaser__sensitive_features=groups)
    with pytest.raises(EquipoiseError, match="enable_metadata_routing=True"):
        fair_scorer()(pipeline, X, y)
