"""``eq.search(balance=...)``: the balanced page, what is left alone, what follows a page, bad input."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest

import equipoise as eq
from equipoise._verbs.search import fit_balanced
from equipoise.methods._balanced_page import PageCertificate
from equipoise.methods._specs import MethodSpec, serve
from equipoise.prompts._text_vectors import TextVectors
from tests.helpers.collections import GENDER, RACE, K, collection, fitted
from tests.helpers.common import component, embedded_file, embedded_model, run, unit

TEXTS = ["a doctor", "a female doctor", "a red bus", "a nurse", "a woman", "a chef"]


def encoder():
    """Looks up the queries of ``collection``, and the anchors of the curated book about people."""
    _, named, queries, _ = collection()
    rng = np.random.default_rng(1)
    book = eq.PromptBook.load("people-gender")
    texts, rows = list(TEXTS), list(queries)
    for prompt in book.prompts:
        for group, prompts in named.items():
            texts.append(book[prompt][group].anchor)
            rows.append(prompts.mean(axis=0) + 0.05 * rng.standard_normal(prompts.shape[1]))
    return TextVectors(texts, unit(np.array(rows)).astype(np.float32))


def assert_balanced(op, images, page):
    """At most r + 1 images of the page are tied at its edge; each moves the sum by its distance."""
    offsets = op.memberships(images.astype(np.float64)) - op.target
    most = (len(op.target) + 1) * np.abs(offsets).max(axis=0)
    assert (np.abs(offsets[page].sum(axis=0)) <= most).all()


@pytest.mark.parametrize("attribute", [GENDER, RACE], ids=["two", "seven"])
@pytest.mark.parametrize("mode", ["query", "rerank"])
def test_the_first_page_has_the_mean_membership_of_the_collection(attribute, mode):
    images, _, texts, _ = collection(attribute)
    op = fitted(attribute, mode=mode)
    found = eq.search(images, texts, K, balance=op)
    plain = eq.search(images, texts, K)
    for page in found.indices:
        assert_balanced(op, images, page)
    if attribute is GENDER:  # with seven groups, eight images of ten may be tied
        with pytest.raises(AssertionError):
            for page in plain.indices:
                assert_balanced(op, images, page)
    scores = op.scores(images, texts)
    for i, one in enumerate(found.certificates):
        assert one.exact
        shares = {group: np.mean(found.groups[i] == group) for group in attribute.groups}
        np.testing.assert_allclose(list(one.after.values()), list(shares.values()))
        best = set(np.argsort(-scores[:, i], kind="stable")[:K].tolist())
        tied = len(op.target) + 1
        assert len(best - set(found.indices[i].tolist())) <= tied
    frame = found.to_frame()
    assert list(frame.columns) == ["query", "place", "image", "score", "group"]
    assert "6 balanced" in repr(found) and (np.diff(found.scores) <= 1e-6).all()


@pytest.mark.parametrize("k", [K - 3, K, 3 * K])
def test_strength_zero_is_the_plain_search(k):
    images, _, texts, _ = collection()
    found = eq.search(images, texts, k, balance=fitted(strength=0.0))
    plain = eq.search(images, texts, k)
    np.testing.assert_array_equal(found.indices, plain.indices)
    np.testing.assert_array_equal(found.scores, plain.scores)


@pytest.mark.parametrize("mode", ["query", "rerank"])
def test_what_follows_a_page_repeats_nothing_and_leaves_nothing_out(mode):
    images, _, texts, _ = collection()
    op = fitted(mode=mode, images=images)
    whole = eq.search(images, texts, len(images), balance=op)
    for k in (K - 3, K, 2 * K, 5 * K):
        found = eq.search(images, texts, k, balance=op)
        np.testing.assert_array_equal(found.indices, whole.indices[:, :k])
    assert (np.sort(whole.indices) == np.arange(len(images))).all()


def test_an_attribute_by_name_and_what_is_left_alone():
    images, _, _, _ = collection()
    model = encoder()
    found = eq.search(images, TEXTS, K, encoder=model, balance="gender")
    plain = eq.search(images, TEXTS, K, encoder=model)
    balanced = np.array([True, False, False, True, False, True])
    assert [one is not None for one in found.certificates] == balanced.tolist()
    assert found.left_alone == (
        "",
        "it names female",
        "it speaks of no person",
        "",
        "it names female",
        "",
    )
    np.testing.assert_array_equal(found.indices[~balanced], plain.indices[~balanced])
    np.testing.assert_array_equal(found.scores[~balanced], plain.scores[~balanced])
    assert (found.indices[balanced] != plain.indices[balanced]).any(axis=1).all()
    assert plain.certificates is None and "group" not in plain.to_frame()
    by_object = eq.search(images, TEXTS, K, encoder=model, balance=eq.Attribute.load("gender"))
    np.testing.assert_array_equal(by_object.indices, found.indices)
    ungated = eq.search(images, TEXTS, K, encoder=model, balance="gender", gate=False)
    assert None not in ungated.certificates
    only = eq.search(images, ["a red bus"], K, encoder=model, balance="gender")
    assert only.certificates == (None,) and only.groups.shape == (1, K)


def test_an_operator_serves_another_index_and_stays_as_it_is():
    images, _, texts, _ = collection()
    op = fitted(images=images)
    part = images[:300]
    found = eq.search(part, texts, K, balance=op)
    assert op.index is images
    expected = eq.search(part, texts, K, balance=fitted().bind(index=part))
    np.testing.assert_array_equal(found.indices, expected.indices)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"balance": "gender"}, "pass the `encoder` of the index, or a fitted balanced operator"),
        ({"balance": 3}, "balance=3 is not legal"),
        ({"balance": fitted(), "k": 601}, "a whole number from 1 to 600"),
        ({"balance": fitted(), "k": 0}, "k=0 is not legal"),
    ],
)
def test_what_a_balanced_search_cannot_do(options, message):
    images, _, texts, _ = collection()
    with pytest.raises(eq.EquipoiseError, match=message):
        eq.search(images, texts, **({"k": K} | options))


def test_an_index_that_can_be_read_once_is_refused_before_it_is_read():
    images, _, texts, _ = collection()
    blocks = iter([images])
    with pytest.raises(eq.EquipoiseError, match="can be read only once"):
        eq.search(blocks, texts, K, balance=fitted())
    assert next(blocks) is images
    broken = texts.copy()
    broken[2] = 0
    with pytest.raises(eq.EquipoiseError, match=r"1 of 6 texts have no direction \(first: 2\)"):
        eq.search(images, broken, K, balance=fitted())


def test_a_page_of_the_whole_collection():
    """Memberships are kept in float32, and the target is the mean in float64: still reached."""
    images, _, texts, _ = collection()
    found = eq.search(images, texts, len(images), balance=fitted(k=len(images)))
    plain = eq.search(images, texts, len(images))
    np.testing.assert_array_equal(found.indices, plain.indices)


def test_audits_and_evaluations_balance_at_their_own_places(tmp_path):
    images, named, texts, _ = collection()
    context = eq.FitContext(GENDER, prototypes=named, images=images)
    for name in ("balanced", "interleave"):
        assert MethodSpec(name).fit(context, "shared", page=37).options.k == 37
        assert MethodSpec(name, {"k": 5}).fit(context, "shared", page=37).options.k == 5
        assert MethodSpec(name, {"k": 20}).label == f"{name} (k=20)"
    fitted().save(tmp_path / "page.safetensors")
    saved = MethodSpec(str(tmp_path / "page.safetensors")).fit(context, "shared", page=37)
    serve(saved, images)
    assert saved.index is images and saved.options.k == K
    np.testing.assert_allclose(saved.text(texts), fitted().text(texts), atol=1e-6)


def test_a_printed_result_says_what_balancing_did_or_why_it_did_nothing():
    images, *_ = collection()
    found = eq.search(images, TEXTS[:3], K, encoder=encoder(), balance=GENDER, target="equal")
    lines = repr(found).splitlines()
    assert lines[0] == f"SearchResults(3 queries, the first {K} images of each, 1 balanced)"
    assert "target 50%" in lines[1] and "score kept" in lines[1]
    assert "a female doctor: left as it is: " in lines[2] and "no person" in lines[3]


def test_a_target_needs_an_attribute_that_it_is_of():
    images, _, texts, _ = collection()
    with pytest.raises(eq.errors.InputError, match="needs `balance`"):
        eq.search(images, texts, 5, target="equal")
    with pytest.raises(eq.errors.InputError, match="which has its own"):
        eq.search(images, texts, 5, balance=fitted(), target="equal")


def test_a_store_is_searched_by_its_path(tmp_path):
    mini = embedded_model()
    (tmp_path / "words.txt").write_text("a man\na woman\na cook\n")
    store = eq.embed(tmp_path / "words.txt", tmp_path / "store")
    query = mini.encode_text(["a photo of a man"])
    by_path = eq.search(tmp_path / "store", query, 2)
    np.testing.assert_array_equal(by_path.indices, eq.search(store, query, 2).indices)


def test_counts_that_miss_the_target_are_said():
    """The mean membership is held, and a page may still count otherwise where groups are unsure."""
    certificate = balanced_page({"male": 0.5, "female": 0.5}, after={"male": 0.95, "female": 0.05})
    assert certificate.off_target == pytest.approx(0.18, abs=0.01)
    assert "18% of the page is off the target (27% before)" in repr(certificate)
    assert "only labels could say which of the two is right" in repr(certificate)
    near = balanced_page({"male": 0.95, "female": 0.05}, after={"male": 0.7, "female": 0.3})
    assert "off the target" not in repr(near)  # by no more images than may tie at the edge


def test_a_printed_certificate_says_whose_count_it_is():
    """Shares are what the prompts see: nobody has counted people, on a page or in the target."""
    certificate = balanced_page({"male": 0.5, "female": 0.5}, after={"male": 0.75, "female": 0.25})
    assert "first 20, as the prompts see them: male 50% -> 75%" in repr(certificate)


def test_the_page_of_an_attribute_is_that_of_one_shifted_query():
    """So a database serves the very page that eq.search shows. A re-ranking has no such query."""
    images, *_ = collection()
    texts, model = ["a doctor", "a nurse", "a chef"], encoder()
    found = eq.search(images, texts, K, encoder=model, balance=GENDER)
    shifted = fit_balanced(GENDER, images, K, model).text(model.encode_text(texts))
    in_database = eq.search(images, shifted, K)
    np.testing.assert_array_equal(found.indices, in_database.indices)


def balanced_page(before, after):
    target = {"male": 0.77, "female": 0.23}
    return PageCertificate(20, target, 1.0, before, after, 0.9, 1.0, 0.9, 0.0, 0.1, 240, True)


def test_bench_as_json_and_as_a_table():
    options = ("bench", "balance", "--count", "2000", "--dim", "16", "-k", "5", "--groups", "3")
    [row] = json.loads(run(*options, "--rounds", "1", "--json").stdout)["rows"]
    assert row["groups"] == 3 and row["k"] == 5 and row["aim"] == "20 ms"
    added = row["balanced_seconds"] - row["search_seconds"]
    np.testing.assert_allclose(
        [row["added_seconds"], row["share"]], [added, added / row["search_seconds"]]
    )
    [row] = json.loads(run(*options, "--rounds", "9", "--json").stdout)["rows"]
    assert row["rounds"] == 9 and row["added_low"] <= row["added_seconds"] <= row["added_high"]
    assert "aim: under" in run(*options, "--rounds", "1").stdout
    assert "depths at most the number of images" in run(
        "bench", "balance", "--count", "3"
    ).stderr.replace("\n", " ")


@pytest.mark.slow
def test_mini_on_its_gallery():
    import pandas as pd
    from PIL import Image

    model = embedded_model()
    gallery = embedded_file(component("equipoise_mini").gallery)
    table = pd.read_parquet(gallery.table)[:600]
    images = model.encode_images([Image.open(io.BytesIO(one)) for one in table["image"]])
    texts = ["a photo of a nurse", "a photo of an engineer", "a photo of a male nurse"]
    found = eq.search(images, texts, 50, encoder=model, balance="gender")
    plain = eq.search(images, texts, 50, encoder=model)
    assert found.left_alone == ("", "", "it names male")
    np.testing.assert_array_equal(found.indices[2], plain.indices[2])
    everywhere = eq.search(images, texts[0], len(images), encoder=model, balance="gender").groups
    share = np.mean(everywhere == "male")
    for i in range(2):
        one = found.certificates[i]
        assert one.exact and abs(one.gap) < 1e-9
        assert abs(one.after["male"] - share) < abs(one.before["male"] - share)
