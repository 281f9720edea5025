"""What people in notebooks and pipelines type first, and wrong: each is answered by what was given, what is legal and what to do."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import equipoise as eq
from equipoise.errors import EquipoiseError
from equipoise.sklearn import Debiaser
from tests.helpers.common import component, embedded_model, make_space

PICTURES = [Image.new("RGB", (8, 8), "red")] * 3
FRAME = pd.DataFrame({"image": [b"1", b"2"], "gender": ["male", "female"]})
GENDER = eq.Attribute.load("gender")


@pytest.fixture(scope="module")
def rows():
    return np.random.default_rng(0).standard_normal((40, 256)).astype(np.float32)


def dataset(table=None, groups=("gender",)):
    if table is None:
        table = pd.DataFrame(
            {"path": [str(i) for i in range(40)], "gender": ["male", "female"] * 20}
        )
    return eq.datasets.Dataset("people", table, groups)


def evaluation(rows, **given):
    given = {"dataset": dataset(), "prompts": ["a photo of a nurse"]} | given
    return eq.evaluation.Evaluation(
        "retrieval", given.pop("dataset"), embedded_model(), embeddings=rows, **given
    )


def refused(message, call):
    with pytest.raises(EquipoiseError, match=message):
        call()


# --- Searching ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("queries", "message"),
    [
        (None, "queries=None is not legal; pass a text, a list of texts, or rows"),
        (3, "queries=3 is not legal; pass a text"),
        (
            pd.DataFrame({"q": ["a nurse"]}),
            r"the queries are a DataFrame; pass one column of it, of \['q'\]",
        ),
        (PICTURES, "text 0 is an image; pass a list of str"),
        (["a nurse", 3], "text 1 is int; pass a list of str"),
    ],
)
def test_queries_that_are_none(rows, queries, message):
    encoder = embedded_model()
    refused(message, lambda: eq.search(rows, queries, encoder=encoder))


def test_texts_may_come_in_any_list(rows):
    encoder = embedded_model()
    texts = ["a photo of a nurse", "a photo of a judge"]
    for given in (texts, tuple(texts), np.array(texts), pd.Series(texts), np.array(texts, object)):
        assert eq.search(rows, given, 3, encoder=encoder).queries == tuple(texts)


def test_an_index_that_is_none(rows):
    encoder = embedded_model()
    refused(
        r"a DataFrame of pandas; pass its numbers: frame.to_numpy\(\)",
        lambda: eq.search(pd.DataFrame(rows), "a nurse", encoder=encoder),
    )
    refused(
        r"the index is a path, 'photos/', and no store .* eq.embed\(folder, store\)",
        lambda: eq.search("photos/", "a nurse", encoder=encoder),
    )
    refused(
        "encoder='mini' has no encode_text; pass what eq.load_encoder returns",
        lambda: eq.search(rows, "a nurse", encoder="mini"),
    )


def test_a_table_in_place_of_texts():
    encoder = embedded_model()
    refused(
        r"a DataFrame was given; pass one column of it, of \['image', 'gender'\]",
        lambda: encoder.encode_text(FRAME),
    )
    refused("text 0 is an image; pass a list of str", lambda: encoder.encode_text(PICTURES))


# --- Verbs that take a path -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "advice"),
    [
        (PICTURES, "is of type list; pass the path of a folder .*write the pictures into a folder"),
        (FRAME, r"is of type DataFrame; pass the path of .*by frame.to_parquet\(path\)"),
    ],
)
def test_pictures_and_tables_in_place_of_a_path(given, advice, tmp_path):
    component("starlette")
    embedded_model()
    refused(f"`images` {advice}", lambda: eq.audit(given))
    refused(f"`source` {advice}", lambda: eq.embed(given, tmp_path / "store"))
    refused(f"`index` {advice}", lambda: eq.explore(given))


@pytest.mark.parametrize("verb", [eq.audit, eq.embed, eq.explore])
def test_a_parameter_that_there_is_not(verb, tmp_path):
    """It is refused in the name of the verb that was called, before anything is read."""
    given = [tmp_path / "none", tmp_path / "store"][: 2 if verb is eq.embed else 1]
    refused(
        rf"eq.{verb.__name__} has no parameter 'modle' .*; did you mean model\?",
        lambda: verb(*given, modle="mini"),
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"attribute": ["gender"]}, "is a list; pass one name, and join several with &"),
        ({"methods": "closed-form"}, r"is a string; pass a list of methods, \['closed-form'\]"),
        ({"group_columns": "gender"}, r"is a string; pass a list of column names, \['gender'\]"),
        ({"prompts": "a photo of a nurse"}, "pass a list of prompts, a text file"),
    ],
)
def test_one_in_place_of_a_list_in_an_audit(options, message):
    refused(message, lambda: eq.audit("none", **options))


# --- Arrays and methods ---------------------------------------------------------------------------


def test_what_cannot_be_debiased(rows):
    space = make_space(np.random.default_rng(0), 256)
    refused("encode texts first: encoder.encode_text", lambda: eq.debias(["a nurse"], space))
    refused("encode texts first: encoder.encode_text", lambda: eq.debias("a nurse", space))
    leace = eq.methods.create("leace")
    refused(r"applied by operator.image\(rows\)", lambda: eq.debias(rows, leace))


def test_a_method_is_fitted_on_a_context(rows):
    for name in ("leace", "closed-form", "balanced", "none"):
        method = eq.methods.create(name)
        refused(
            r"fit was given ndarray; pass a context: eq.FitContext", lambda m=method: m.fit(rows)
        )


def test_an_operator_takes_rows(rows):
    context = eq.FitContext(GENDER, images=rows, sensitive_features=["male", "female"] * 20)
    operator = eq.methods.create("leace").fit(context)
    refused(
        r"images are of type list; pass an array \(n, 256\), what encoder.encode_images",
        lambda: operator.image(["a.jpg"]),
    )


def test_axes_that_are_none(rows):
    component("matplotlib").use("agg")
    space = make_space(np.random.default_rng(0), 256)
    refused("axes='left' is not legal; pass axes of", lambda: eq.certify(rows, space).plot("left"))


# --- Evaluations ----------------------------------------------------------------------------------


def test_an_evaluation_of_what_is_no_dataset(rows):
    table = dataset().table
    refused(
        r"the dataset is of type DataFrame; pass eq.datasets.Dataset\(name",
        lambda: evaluation(rows, dataset=table),
    )
    refused(
        r"are a string, 'gender'; pass a tuple of column names: \('gender',\)",
        lambda: evaluation(rows, dataset=dataset(groups="gender")),
    )
    refused(
        "has no column path, only gender; add one",
        lambda: evaluation(rows, dataset=dataset(table[["gender"]])),
    )
    refused(
        r"prompts='a nurse' is a string; pass a list of queries, \['a nurse'\]",
        lambda: evaluation(rows, prompts="a nurse"),
    )


def test_methods_of_an_evaluation_are_parsed(rows):
    task = evaluation(rows)
    for given in ("closed-form", ["closed-form"]):
        refused(r"pass eq.evaluation.parse\(\['closed-form'", lambda g=given: task.run(g))
    refused("is a string; pass a list of methods", lambda: eq.evaluation.parse("closed-form"))


# --- Pipelines ------------------------------------------------------------------------------------


def test_seeds_of_the_small_generator():
    embedded_model()
    pipe = eq.generation.load_mini()
    refused(
        r"0 seeds were given for 1 prompts; pass one for each: seeds=range\(1\)", lambda: pipe("a")
    )
    refused(r"seeds=0 is not a list; pass one seed per prompt: \[0\]", lambda: pipe("a", seeds=0))


def test_a_kappa_that_is_none_is_found_when_fitting(rows):
    labels = ["male", "female"] * 20
    for kappa in ("big", -1, float("nan")):
        debiaser = Debiaser("gender", kappa=kappa)
        with pytest.raises(
            EquipoiseError, match=r"is not legal; (pass a number >= 0|it must be from 0)"
        ):
            debiaser.fit(rows, sensitive_features=labels)
    assert Debiaser("gender", kappa="printed").fit(rows, sensitive_features=labels).space_.rank == 1


def test_one_query_of_langchain_is_one_text():
    component("langchain_core")
    from equipoise.langchain import EncoderEmbeddings

    embeddings = EncoderEmbeddings(embedded_model())
    refused("the query is of type list; pass one text", lambda: embeddings.embed_query(["a nurse"]))
    refused("text 0 is an image; pass", lambda: embeddings.embed_documents(PICTURES))
