"""Tasks: blocks give what whole matrices give, for any operator and scope; metrics agree with the plain functions; floors agree with each other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import equipoise as eq
from equipoise import _rows as blocks
from equipoise import evaluation as tasks
from equipoise.evaluation import _retrieval as retrieval
from tests.helpers.common import unit
from tests.helpers.words import GENDER, Words

PROMPTS = ["a photo of a doctor", "a photo of a nurse", "a photo of an artist"]
CLASSES = dict(zip(["doctor", "nurse", "artist"], PROMPTS, strict=True))
ENCODER = Words()


@pytest.fixture(scope="module")
def operators():
    context = eq.FitContext(
        GENDER, encoder=ENCODER, book=eq.PromptBook.curated("occupations-gender")
    )
    settings = {
        "none": ("none", {}),
        "shared": ("closed-form", {}),
        "text": ("closed-form", {"modality": "text"}),
        "per prompt": ("closed-form", {"scope": "per prompt"}),
        "per prompt, text": ("closed-form", {"scope": "per prompt", "modality": "text"}),
        "orth-proj": ("orth-proj", {}),
    }
    return {
        label: eq.methods.create(name, **params).fit(context)
        for label, (name, params) in settings.items()
    }


class Data:
    def __init__(self, n: int = 300):
        rng = np.random.default_rng(1)
        self.texts = ENCODER.encode_text(PROMPTS)
        self.gender = rng.choice(["male", "female"], n)
        self.label = rng.integers(0, 3, n)
        self.images = unit(
            self.texts[self.label] + 1.2 * unit(rng.standard_normal((n, 32)))
        ).astype(np.float32)
        self.labels = np.array(list(CLASSES))[self.label]


@pytest.fixture(scope="module")
def data():
    return Data()


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK", 64)
    monkeypatch.setattr(retrieval, "QUERIES", 2)


def test_predictions_are_those_of_the_whole_matrix(operators, data):
    for operator in operators.values():
        whole = operator.scores(data.images, data.texts, PROMPTS).argmax(1)
        np.testing.assert_array_equal(
            tasks.predict(operator, data.images * 3, data.texts, PROMPTS), whole
        )


def test_lists_are_those_of_the_whole_matrix(operators, data):
    for operator in operators.values():
        scores = operator.scores(
            data.images.astype(float), data.texts.astype(float), PROMPTS
        )  # equal ones would be a matter of rounding
        whole = np.argsort(-scores.T, axis=1, kind="stable")
        np.testing.assert_array_equal(
            tasks.rank(operator, data.images, data.texts, PROMPTS, 90), whole[:, :90]
        )


class Table:
    """An operator whose scores are given: image i, text j."""

    per_prompt = True

    def __init__(self, scores):
        self.scores_of = scores

    def image(self, rows):
        return rows

    def text(self, rows, prompts=None):
        return rows

    def scores(self, images, texts, prompts=None):
        places = images[:, 0].astype(int)
        columns = [int(prompt) for prompt in prompts]
        return self.scores_of[places][:, columns]


@given(
    st.lists(st.lists(st.integers(0, 3), min_size=3, max_size=3), min_size=1, max_size=40),
    st.integers(1, 45),
    st.integers(1, 7),
)
def test_equal_scores_rank_in_the_order_of_the_images_whatever_the_blocks(rows, depth, block):
    scores = np.array(rows, float)
    images = [
        np.arange(start, min(start + block, len(scores)), dtype=float)[:, None]
        for start in range(0, len(scores), block)
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(retrieval, "unit_blocks", lambda images, *_: iter(images))
        found = tasks.rank(Table(scores), images, np.ones((3, 1)), ["0", "1", "2"], depth)
    np.testing.assert_array_equal(found, np.argsort(-scores.T, axis=1, kind="stable")[:, :depth])


def test_retrieval_agrees_with_the_metrics_on_all_scores(operators, data):
    targets = np.array([5, 6, 7])
    measured = tasks.retrieve(
        operators,
        data.images,
        PROMPTS,
        sensitive_features=data.gender,
        texts=data.texts,
        targets=targets,
        m=30,
        resamples=50,
        permutations=20,
    )
    rows = {(row.method, row.metric): row for row in measured.rows("none")}
    for name, operator in operators.items():
        scores = operator.scores(data.images, data.texts, PROMPTS).T
        assert rows[name, "MS@30"].value == pytest.approx(
            eq.metrics.max_skew(scores, sensitive_features=data.gender, m=30)
        )
        assert rows[name, "NDKL@30"].value == pytest.approx(
            eq.metrics.ndkl(scores, sensitive_features=data.gender, m=30)
        )
        assert rows[name, "R@10"].value == pytest.approx(
            eq.metrics.recall_at_k(scores, targets, 10)
        )
        assert rows[name, "MS@30"].floor == eq.metrics.max_skew_floor(
            sensitive_features=data.gender, m=30
        )
        assert rows[name, "MS@30"].permuted.low < rows[name, "MS@30"].permuted.high
        assert (rows[name, "MS@30"].difference is not None) is (name != "none")
        assert rows[name, "MS@30"].n == 300 and rows[name, "MS@30"].over == "images"
    gap = rows["shared", "MS@30"].difference
    assert gap.value == pytest.approx(rows["shared", "MS@30"].value - rows["none", "MS@30"].value)
    assert gap.low < gap.high and gap.baseline == "none"


def test_the_paired_difference_of_a_method_to_itself_is_nothing(operators, data):
    twice = {"none": operators["none"], "same": operators["none"]}
    measured = tasks.retrieve(
        twice,
        data.images,
        PROMPTS,
        sensitive_features=data.gender,
        texts=data.texts,
        m=30,
        resamples=30,
        permutations=5,
    )
    (gap,) = [
        row.difference
        for row in measured.rows("none")
        if row.metric == "MS@30" and row.method == "same"
    ]
    assert gap.value == gap.low == gap.high == 0


def test_shuffled_labels_have_the_exact_floor_as_their_mean():
    rng = np.random.default_rng(0)
    groups = rng.choice(["a", "b", "c"], 200, p=[0.5, 0.3, 0.2]).astype(object)
    groups[:20] = None
    top = np.stack([rng.permutation(200)[:120] for _ in range(40)])
    shuffled = eq.metrics.permuted_max_skew(top, sensitive_features=groups, m=40, permutations=300)
    exact = eq.metrics.max_skew_floor(sensitive_features=groups, m=40)
    # 40 x 300 nearly independent draws of deviation 0.1: the mean is within 0.001 of its expectation, and four of those are far
    assert shuffled.value == pytest.approx(exact, abs=0.004)
    assert shuffled.low < exact < shuffled.high and shuffled.permutations == 300


def test_unknown_groups_take_no_place(operators, data):
    gender = data.gender.astype(object).copy()
    gender[::3] = None
    options = {"texts": data.texts, "m": 30, "resamples": 20, "permutations": 5}
    measured = tasks.retrieve(
        {"none": operators["none"]}, data.images, PROMPTS, sensitive_features=gender, **options
    )
    row = measured.rows()[0]
    known = np.array([value is not None for value in gender])
    alone = tasks.retrieve(
        {"none": operators["none"]},
        data.images[known],
        PROMPTS,
        sensitive_features=gender[known],
        **options,
    )
    assert row.value == pytest.approx(alone.rows()[0].value)
    assert (row.n, row.left_out) == (200, 100)


def test_unknown_groups_may_stand_before_all_others_and_be_most_of_them(operators, data):
    """A list must hold enough known images for resamples, wherever the unknown ones stand in it."""
    scores = data.images @ data.texts.T
    front = np.where(
        scores[:, 0] >= np.sort(scores[:, 0])[60], None, data.gender
    )  # four of five, all before the others of the first query
    scattered = np.where(np.arange(len(data.gender)) % 10 < 9, None, data.gender)
    for gender in (front, scattered):
        found = tasks.retrieve(
            operators,
            data.images,
            PROMPTS,
            sensitive_features=gender,
            encoder=ENCODER,
            m=9,
            resamples=50,
            permutations=2,
        )
        expected = eq.metrics.max_skew(scores.T, sensitive_features=gender, m=9)
        assert found.bootstrap.values["none", "MS@9"] == pytest.approx(expected)


def test_classification_agrees_with_the_metrics(operators, data):
    for protocol, form in (("paper", "printed"), ("released", "released"), ("mended", "released")):
        measured = tasks.classify(
            operators,
            data.images,
            CLASSES,
            labels=data.labels,
            sensitive_features=data.gender,
            encoder=ENCODER,
            protocol=protocol,
            resamples=50,
        )
        rows = {(row.method, row.metric): row for row in measured.rows("none")}
        for name, operator in operators.items():
            predicted = np.array(list(CLASSES))[
                operator.scores(data.images, data.texts, PROMPTS).argmax(1)
            ]
            assert rows[name, "macro F1"].value == pytest.approx(
                eq.metrics.macro_f1(data.labels, predicted)
            )
            for which in ("avg", "max"):
                expected = eq.metrics.equal_opportunity(
                    data.labels,
                    predicted,
                    sensitive_features=data.gender,
                    **eq.metrics.EQUAL_OPPORTUNITY[form][which],
                )
                assert rows[name, f"EO_{which}"].value == pytest.approx(expected)
            assert (
                rows[name, "EO_max"].better == "lower" and rows[name, "accuracy"].better == "higher"
            )


def test_one_class_of_interest(operators, data):
    options = {
        "labels": data.labels,
        "sensitive_features": data.gender,
        "texts": data.texts,
        "positive": "nurse",
        "resamples": 20,
    }
    measured = tasks.classify({"none": operators["none"]}, data.images, CLASSES, **options)
    predicted = np.array(list(CLASSES))[(data.images @ data.texts.T).argmax(1)]
    values = {row.metric: row.value for row in measured.rows()}
    assert values["F1"] == pytest.approx(
        eq.metrics.binary_f1(data.labels, predicted, positive="nurse")
    )
    gap = eq.metrics.equal_opportunity(
        data.labels, predicted, sensitive_features=data.gender, classes=["nurse"]
    )
    assert values["EO_avg"] == values["EO_max"] == pytest.approx(gap)


def test_blocks_of_an_iterable_and_half_precision(operators, data):
    whole = tasks.predict(operators["shared"], data.images, data.texts, PROMPTS)
    np.testing.assert_array_equal(
        tasks.predict(operators["shared"], np.array_split(data.images, 5), data.texts, PROMPTS),
        whole,
    )
    half = tasks.predict(operators["shared"], data.images.astype(np.float16), data.texts, PROMPTS)
    assert (half == whole).mean() > 0.98  # float16 moves scores by 1e-3 at most
    for order in ("<", ">"):
        made = [blocks.unit(data.images.astype(f"{order}f{size}")).dtype for size in (2, 4, 8)]
        assert made == [np.float32, np.float32, np.float64]  # to compute with, whatever wrote them


@pytest.mark.parametrize("length", [1e-200, 1e200])
def test_rows_of_extreme_length_are_ranked_by_their_direction(length, operators, data):
    images = data.images.astype(np.float64)
    for name in ("shared", "per prompt"):
        whole = tasks.rank(operators[name], images, data.texts, PROMPTS, 90)
        np.testing.assert_array_equal(
            tasks.rank(operators[name], images * length, data.texts, PROMPTS, 90), whole
        )


def test_the_gate_keeps_explicit_queries(operators, data):
    prompts = ["a photo of a doctor", "a photo of a female doctor"]
    texts = ENCODER.encode_text(prompts)
    gated = tasks.rank(operators["text"], data.images, texts, prompts, 50, gate=True)
    np.testing.assert_array_equal(
        gated[1], tasks.rank(operators["none"], data.images, texts, prompts, 50)[1]
    )
    np.testing.assert_array_equal(
        gated[0], tasks.rank(operators["text"], data.images, texts, prompts, 50)[0]
    )


def calls(operators, data):
    none, images = {"none": operators["none"]}, data.images
    classify = {"labels": data.labels, "sensitive_features": data.gender, "texts": data.texts}
    retrieve = {"sensitive_features": data.gender, "texts": data.texts}
    broken = images.copy()
    broken[70, 3] = np.nan
    return [
        (lambda: tasks.classify(none, broken, CLASSES, **classify), "image 70 has no direction"),
        (
            lambda: tasks.classify(none, images, {"doctor": PROMPTS[0]}, **classify),
            "two classes or more",
        ),
        (
            lambda: tasks.classify(none, images, dict.fromkeys(CLASSES, "a"), **classify),
            "the same prompt",
        ),
        (
            lambda: tasks.classify(none, images, dict(list(CLASSES.items())[:2]), **classify),
            r"labels hold \['artist'\]",
        ),
        (
            lambda: tasks.classify(none, images, CLASSES, **classify | {"labels": ["nurse"] * 300}),
            "the images are of one class",
        ),
        (
            lambda: tasks.classify(none, images, CLASSES, **classify, positive="x"),
            "positive='x' is no class",
        ),
        (
            lambda: tasks.classify(none, images, CLASSES, **classify, protocol="printed"),
            "protocol='printed' is not legal",
        ),
        (
            lambda: tasks.classify(none, images, CLASSES, **classify, encoder=ENCODER),
            "pass either encoder=",
        ),
        (
            lambda: tasks.classify(none, images[:9], CLASSES, **classify),
            "y_pred has 9 labels and y_true 300",
        ),
        (lambda: tasks.classify({}, images, CLASSES, **classify), "pass a mapping from the name"),
        (lambda: tasks.classify({"x": 3}, images, CLASSES, **classify), "'x' is no operator"),
        (lambda: tasks.classify(none, "images", CLASSES, **classify), "images are str"),
        (
            lambda: tasks.retrieve(
                none, images, PROMPTS, **retrieve | {"sensitive_features": ["male"] * 300}
            ),
            "skew compares groups",
        ),
        (
            lambda: tasks.retrieve(
                none, images, PROMPTS, **retrieve | {"sensitive_features": data.gender[:40]}
            ),
            "one label for each image",
        ),
        (
            lambda: tasks.retrieve(none, images, PROMPTS[:2], **retrieve),
            "shape .3, 32. for 2 prompts",
        ),
        (
            lambda: tasks.retrieve(none, images[:0], PROMPTS, **retrieve),
            "there are 0 images and 300 labels",
        ),
        (
            lambda: tasks.retrieve(none, images[:299], PROMPTS, **retrieve, m=9),
            "there are 299 images and 300 labels",
        ),
        (
            lambda: tasks.retrieve(none, np.array_split(images, 3)[:2], PROMPTS, **retrieve, m=9),
            "there are 200 images and 300 labels",
        ),
        (
            lambda: tasks.retrieve(
                {"x": operators["per prompt"]}, images[:299], PROMPTS, **retrieve, m=9
            ),
            "299 images and 300 labels",
        ),
    ]


@pytest.mark.parametrize("i", range(19))
def test_bad_input(i, operators, data):
    call, message = calls(operators, data)[i]
    with pytest.raises(eq.EquipoiseError, match=message):
        call()


@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([1, 2, 3, 64, 512]),
    st.floats(-1e-7, 1e-7),
    st.floats(-30, 30),
)
def test_rows_that_are_settled_are_those_that_unit_gives_back(seed, dim, off, decades):
    """Searches read settled rows as they lie, so the copy that is saved must be equal in every bit.

    off: of the length from one, around the bound. decades: between the entries of a row.
    """
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((5, dim)) * 10 ** (decades * rng.random(dim))
    made = blocks.unit(rows.astype(np.float32))
    near = (made * (1 + off)).astype(np.float32)
    for given_rows in (made, near):
        if blocks.are_settled(given_rows):
            np.testing.assert_array_equal(blocks.unit(given_rows), given_rows)


def test_unit_rows_are_searched_where_they_lie(rng):
    """A copy is made of rows that need one, and of no others."""
    made = blocks.unit(rng.standard_normal((9000, 512)).astype(np.float32))
    [whole] = blocks.unit_blocks(made, together=10_000)
    assert np.shares_memory(whole, made) and len(whole) == len(made)
    longer = made.copy()
    longer[5000] *= 2
    found = list(blocks.unit_blocks(longer, together=10_000))
    assert max(map(len, found)) <= blocks.BLOCK
    np.testing.assert_array_equal(np.concatenate(found), made)
    for bad in (np.nan, np.inf, 0):
        longer[5000] = bad
        with pytest.raises(eq.EquipoiseError, match="image 5000 has no direction"):
            list(blocks.unit_blocks(longer, together=10_000))
