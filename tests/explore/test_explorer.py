"""What the page shows is what the API computes: rows, shares, leans and classes, for every kind of collection."""

from __future__ import annotations

import json
import re
import shutil
import string

import numpy as np
import pandas as pd
import pytest

import equipoise as eq
from equipoise import methods
from equipoise._audit.association import leans
from equipoise._explore.answers import Trouble
from equipoise._explore.classes import class_prompt
from equipoise._explore.operators import kappa_at
from equipoise._explore.words import STATIC, joined, strings
from equipoise._verbs.search import balancing_context
from equipoise.errors import EncoderMismatchError, InputError
from tests.helpers.common import component, embedded_model, unit
from tests.helpers.exploring import people_explorer, write_people

OWN = {"male": 0.3, "female": 0.7}


@pytest.fixture(scope="module")
def encoder():
    component("starlette")
    return embedded_model()


@pytest.fixture(scope="module")
def gallery(encoder):
    return people_explorer()


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """A folder of pictures, and the table of who is in them."""
    place = tmp_path_factory.mktemp("people")
    table = write_people(place / "photos")
    table.to_csv(place / "labels.csv", index=False)
    return place / "photos", place / "labels.csv"


def ids(row):
    return [image.id for image in row.images]


# --- Search ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["a photo of a doctor", "a nurse", "a female doctor", "a red bus"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"target": "equal", "k": 10},
        {"target": OWN, "k": 40},
        {"strength": 0.5},
        {"strength": 0},
        {"k": 1},
        {"attribute": "race", "k": 30},
    ],
)
def test_the_rows_are_those_of_eq_search_image_by_image(gallery, encoder, text, options):
    """Whatever was asked before: the operator that is revised equals one fitted for the question."""
    question = gallery.question({"text": text, **options})
    before, after = gallery.searcher.before(question), gallery.searcher.after(question)
    rows, k = gallery.collection.rows, options.get("k", 20)
    plain = eq.search(rows, [text], k, encoder=encoder)
    assert ids(before) == plain.indices[0].tolist()
    assert [image.score for image in before.images] == plain.scores[0].tolist()
    attribute = eq.Attribute.load(options.get("attribute", "gender"))
    params = {name: value for name, value in options.items() if name in ("target", "strength")}
    context = balancing_context(attribute, rows, encoder)
    operator = methods.create("balanced", k=k, prototype="anchor", **params).fit(context)
    found = eq.search(rows, [text], k, encoder=encoder, balance=operator)
    assert ids(after) == found.indices[0].tolist()
    assert [image.score for image in after.images] == found.scores[0].tolist()
    assert before.left_alone == found.left_alone[0]
    assert after.certificate == found.certificates[0]
    assert set(after.moved_in) == set(ids(after)) - set(ids(before))
    assert set(after.moved_out) == set(ids(before)) - set(ids(after))


def test_by_default_it_is_the_search_that_the_page_names(gallery, encoder):
    text = "a photo of a teacher"
    after = gallery.searcher.after(gallery.question({"text": text}))
    found = eq.search(gallery.collection.rows, [text], 20, encoder=encoder, balance="gender")
    assert ids(after) == found.indices[0].tolist()


@pytest.mark.parametrize(
    "method, strength", [("closed-form", 0.5), ("closed-form", 1), ("orth-proj", 1)]
)
def test_other_methods_rank_as_their_operators_do(gallery, encoder, method, strength):
    text = "a photo of an engineer"
    asked = {"text": text, "method": method, "strength": strength}
    question = gallery.question(asked)
    after = gallery.searcher.after(question)
    rows = gallery.collection.rows
    params = {"kappa": kappa_at(strength)} if method == "closed-form" else {}
    context = balancing_context(eq.Attribute.load("gender"), rows, encoder)
    operator = methods.create(method, prototype="anchor", **params).fit(context)
    scores = operator.scores(rows, encoder.encode_text([text]))[:, 0]
    shown = np.array(ids(after))
    assert np.allclose(scores[shown], np.sort(scores)[::-1][:20], atol=1e-6)  # float32 products
    assert after.certificate is None and "does not prove" in after.said.price
    alone = gallery.question(asked | {"text": "a male engineer"})
    assert ids(gallery.searcher.after(alone)) == ids(gallery.searcher.before(alone))


def test_the_price_is_that_of_the_certificate_and_never_rounded_up(gallery):
    after = gallery.searcher.after(gallery.question({"text": "a photo of a nurse"}))
    kept = after.certificate.kept
    said = float(re.search(r"([\d.]+) %", after.said.price)[1]) / 100
    assert said <= kept + 1e-9 and kept - said < 0.001
    assert "No page" in after.said.price


def test_an_explicit_text_is_left_alone_with_the_reason(gallery):
    question = gallery.question({"text": "a female doctor"})
    before, after = gallery.searcher.before(question), gallery.searcher.after(question)
    assert before.left_alone == "it names female" and ids(before) == ids(after)
    assert "it names female" in after.said.change and not after.moved_in


def test_a_target_out_of_reach_takes_the_nearest_and_says_so(encoder, tmp_path):
    write_people(tmp_path / "photos", 40)
    explorer = people_explorer(tmp_path / "photos", ("gender",))
    shares = {"male": 0.0, "female": 1.0}  # of 39 places, and there are fewer women
    question = explorer.question({"text": "a photo of a person", "k": 39, "target": shares})
    after = explorer.searcher.after(question)
    assert "nearest" in after.note and "closer" in after.said.price
    assert len(after.images) == 39


def test_prompts_that_cannot_tell_groups_apart_are_said_and_not_followed(encoder, rng):
    """Images that differ along the one line on which two halves of the prompts disagree."""
    context = balancing_context(eq.Attribute.load("gender"), None, encoder)
    texts = methods.matched_texts("a test", context, "anchor")
    halves = [unit(half.sum(axis=0)) for half in (texts[::2], texts[1::2])]
    one, other = (unit(half[0] - half[1]) for half in halves)
    line = unit(one - other)
    images = rng.standard_normal((400, 1)) * line + 3 * unit(texts.mean(axis=(0, 1)))
    explorer = people_explorer(images.astype(np.float32), ("gender",), encoder=encoder)
    question = explorer.question({"text": "a photo of a nurse"})
    before, after = explorer.searcher.before(question), explorer.searcher.after(question)
    assert "apart" in before.trouble and after == Trouble(trouble=before.trouble)
    assert before.shares is None and len(before.images) == 20


# --- Who is in the pictures -----------------------------------------------------------------------


def test_groups_are_the_models_without_labels_and_the_labels_with_them(photos, encoder):
    folder, labels = photos
    unlabelled = people_explorer(folder, ("gender", "age"))
    labelled = people_explorer(folder, ("gender", "age"), labels=labels, group_columns=["gender"])
    assert [one.by for one in unlabelled.about().attributes] == ["model", "model"]
    assert [one.by for one in labelled.about().attributes] == ["labels", "model"]
    table = pd.read_csv(labels)
    known = dict(zip(table["path"], table["gender"], strict=True))
    asked = {"text": "a photo of a doctor", "k": 100}
    row = labelled.searcher.before(labelled.question(asked))
    assert {image.name: image.group for image in row.images} == {
        image.name: known[image.name] for image in row.images
    }
    share = (table["gender"] == "male").mean()
    assert row.collection["male"] == pytest.approx(share)
    plain = unlabelled.searcher.before(unlabelled.question(asked))
    operator = unlabelled.operators.base("gender")
    assert [image.group for image in plain.images] == operator.groups_of(
        np.array(ids(plain))
    ).tolist()
    assert unlabelled.about().name == folder.name  # a saved page tells no path of a machine


@pytest.mark.parametrize(
    "options, message",
    [
        ({"labels": "labels.csv"}, "group_columns"),
        ({"labels": "labels.csv", "group_columns": ["height"]}, "height"),
        ({"group_columns": ["gender"]}, "gender"),
    ],
)
def test_labels_that_cannot_be_read_are_said(photos, encoder, options, message):
    folder, labels = photos
    if "labels" in options:
        options = options | {"labels": labels}
    with pytest.raises(InputError, match=message):
        people_explorer(folder, ("gender",), **options)


# --- Kinds of collections -------------------------------------------------------------------------


def test_a_store_a_table_and_rows_show_the_same_as_their_folder(photos, encoder, tmp_path):
    folder, labels = photos
    eq.embed(folder, tmp_path / "store", model="mini", shard=100)
    one_shard = eq.embed(folder, tmp_path / "one", model="mini")
    asked = {"text": "a smiling nurse"}
    plain = people_explorer(folder, ("gender",))
    expected = plain.searcher.after(plain.question(asked))
    names = [image.name for image in expected.images]
    for source in (tmp_path / "store", tmp_path / "one", str(tmp_path / "one"), one_shard):
        explorer = people_explorer(source, ("gender",))
        found = explorer.searcher.after(explorer.question(asked))
        assert [image.name for image in found.images] == names
        assert explorer.collection.picture(0)
    assert not people_explorer(one_shard, ("gender",)).collection.rows.flags.owndata  # a memory map
    table = people_explorer(labels, ("gender",), root=folder, group_columns=["gender"])
    found = table.searcher.after(table.question(asked))
    assert [image.name for image in found.images] == names
    rows = plain.collection.rows
    np.save(tmp_path / "rows.npy", rows)
    for given, known in ((rows, plain.collection.pictures), (tmp_path / "rows.npy", None)):
        more = {} if known is None else {"pictures": known}
        explorer = people_explorer(given, ("gender",), **more)
        assert ids(explorer.searcher.after(explorer.question(asked))) == ids(expected)
        assert explorer.about().pictures == (known is not None)


def test_a_store_that_lost_a_file_shows_the_others_and_says_how_many_are_missing(encoder, tmp_path):
    folder = tmp_path / "photos"
    table = write_people(folder, 60)
    eq.embed(folder, tmp_path / "store", model="mini")
    lost = table["path"].iloc[0]
    (folder / lost).unlink()
    explorer = people_explorer(tmp_path / "store", ("gender",))
    about = explorer.about()
    assert (about.images, about.pictures, about.missing) == (60, True, 1)
    place = explorer.collection.names.index(lost.rpartition("/")[2])
    with pytest.raises(InputError, match="is gone"):
        explorer.collection.picture(place)
    others = [i for i in range(60) if i != place]
    assert all(explorer.collection.picture(i) for i in others)
    shutil.rmtree(folder)
    nothing = people_explorer(tmp_path / "store", ("gender",)).about()
    assert (nothing.pictures, nothing.missing) == (False, 0)


def test_rows_that_are_no_unit_rows_are_made_so_and_bad_ones_left_out(photos, encoder, tmp_path):
    rows = people_explorer(photos[0], ("gender",)).collection.rows
    longer = rows * np.linspace(0.5, 3, len(rows), dtype=np.float32)[:, None]
    longer[7] = np.nan
    np.save(tmp_path / "rows.npy", longer)
    explorer = people_explorer(tmp_path / "rows.npy", ("gender",))
    assert len(explorer.collection) == 299 and explorer.about().left_out == 1
    assert explorer.collection.names[7] == "8"
    assert np.allclose(explorer.collection.rows, np.delete(rows, 7, axis=0), atol=1e-6)


def test_what_cannot_be_explored_is_said(photos, encoder, tmp_path, rng):
    with pytest.raises(InputError, match="nowhere"):
        people_explorer(tmp_path / "nowhere")
    np.save(tmp_path / "wide.npy", rng.standard_normal((5, 7)).astype(np.float32))
    with pytest.raises(EncoderMismatchError, match="wide"):
        people_explorer(tmp_path / "wide.npy")
    with pytest.raises(InputError, match="one row per image"):
        people_explorer(np.zeros(3, np.float32))
    with pytest.raises(InputError, match="one for each"):
        people_explorer(np.eye(encoder.dim, dtype=np.float32), pictures=["x.jpg"])
    with pytest.raises(InputError, match="attribute"):
        people_explorer(photos[0], ())


def test_few_pictures_are_enough(encoder, tmp_path):
    write_people(tmp_path / "photos", 6)
    explorer = people_explorer(tmp_path / "photos", ("gender",))
    assert explorer.about().places == 6
    row = explorer.searcher.after(explorer.question({"text": "a photo of a doctor"}))
    assert isinstance(row, Trouble) or len(row.images) == 6


# --- Texts and classes ----------------------------------------------------------------------------


def test_leans_are_those_of_the_audit(gallery, encoder):
    texts = ["a photo of a doctor", "a photo of a nurse", "a photo of a woman"]
    asked = {"texts": texts, "method": "closed-form", "strength": 0.5}
    found = gallery.texts.answer(gallery.text_question(asked))
    prototypes, length, own = gallery.texts._wordings("gender")
    expected = leans(encoder.encode_text(texts), prototypes) / length
    for entry, row in zip(found.texts, expected, strict=True):
        assert [entry.before[group] for group in found.groups] == pytest.approx(row.tolist())
    assert own.mean() == pytest.approx(1)  # the yardstick is the mean of the groups' own wordings
    doctor, _, woman = found.texts
    assert woman.left_alone and woman.before == woman.after
    assert abs(doctor.after["male"]) < abs(doctor.before["male"])


def test_classes_are_those_of_a_zero_shot_classifier(gallery, encoder):
    names = ["doctor", "nurse", "engineer"]
    question = gallery.class_question({"texts": names, "method": "closed-form"})
    rows = gallery.collection.rows
    texts = encoder.encode_text([class_prompt(name) for name in names])
    put = (rows @ texts.T).argmax(1)
    before, after = gallery.classes.before(question), gallery.classes.after(question)
    assert [entry.images for entry in before.classes] == np.bincount(put, minlength=3).tolist()
    groups = gallery.searcher.groups("gender", np.arange(len(rows)))
    for i, entry in enumerate(before.classes):
        for group in before.groups:
            assert entry.shares[group] == pytest.approx((put[groups == group] == i).mean())
        assert all(put[image.id] == i for image in entry.shown)
    for group in after.groups:
        assert sum(entry.shares[group] for entry in after.classes) == pytest.approx(1)
    scores = gallery.operators.method(question.controls).scores(rows, texts)
    now = scores.argmax(1)
    for i, entry in enumerate(after.classes):  # the first pictures are those of the method, too
        shown = [image.id for image in entry.shown]
        own = np.sort(scores[now == i, i])[::-1][: len(shown)]
        assert np.allclose(scores[shown, i], own, atol=1e-6) and (now[shown] == i).all()
    with pytest.raises(InputError, match="different"):
        gallery.class_question({"texts": ["doctor", "doctor"]})


def test_articles_agree():
    assert class_prompt("engineer") == "a photo of an engineer"


# --- Words and the notebook -----------------------------------------------------------------------


def test_every_word_is_in_one_file_and_used():
    page = "".join(
        path.read_text() for path in STATIC.glob("*.[jh][st]*") if path.suffix != ".json"
    )
    room = "".join(path.read_text() for path in STATIC.parent.rglob("*.py"))
    saved = (STATIC.parent / "templates" / "saved.html").read_text()
    everything = page + room + saved
    composed = ("after-", "by-", "method-", "target-", "tile-", "moved-")
    for key in strings():
        assert f'"{key}"' in everything or key.startswith(composed), f"{key} is not used"
    asked = set(re.findall(r'\b(?:t|say)\("([a-z-]+)"', everything))
    asked |= set(re.findall(r'data-(?:text|label)="([a-z-]+)"', page))
    assert asked <= set(strings())
    for text in strings().values():
        assert all(
            name is None or name.isidentifier() for _, name, _, _ in string.Formatter().parse(text)
        )
    assert joined(["a"]) == "a" and joined(["a", "b", "c"]) == "a, b and c"


def test_a_notebook_gets_a_frame_and_closing_ends_the_page(photos, encoder):
    import urllib.error
    import urllib.request

    with eq.explore(photos[0], attribute="gender") as page:
        html = page._repr_html_()
        assert html.startswith(f'<iframe src="{page.url}"') and "script" not in html
        address = page.url.split("#")[0]
        with urllib.request.urlopen(address) as answer:
            assert b"<html" in answer.read()
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(address, timeout=5)


def test_the_command_says_its_link_and_stops(photos, encoder):
    import signal
    import subprocess
    import sys
    import urllib.request

    command = [sys.executable, "-m", "equipoise", "explore", str(photos[0]), "-a", "gender"]
    with subprocess.Popen(
        [*command, "--port", "0", "--json"], stdout=subprocess.PIPE, text=True
    ) as process:
        told = json.loads(process.stdout.readline())
        assert told["images"] == 300 and told["link"].startswith("http://127.0.0.1:")
        # once it answers it listens for Ctrl-C, also where a background job began by ignoring it
        urllib.request.urlopen(told["link"].split("#")[0]).close()
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
