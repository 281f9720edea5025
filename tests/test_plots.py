"""Figures with matplotlib: they show the numbers that they are made of."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import equipoise as eq
from equipoise._audit import AuditSettings
from equipoise.errors import EquipoiseError
from tests.helpers.common import component, embedded_model, make_space

matplotlib = component("matplotlib")
matplotlib.use("agg")


@pytest.fixture
def rows(rng):
    return rng.standard_normal((300, 16)), make_space(rng, 16)


def test_a_frontier_shows_its_points(rows, tmp_path):
    found = eq.frontier(*rows)
    axes = found.plot()
    line, *dots = axes.lines
    np.testing.assert_array_equal(line.get_xdata(), found.leakage)
    np.testing.assert_array_equal(line.get_ydata(), found.self_loss)
    assert [text.get_text() for text in axes.texts] == ["kappa 0", "kappa 1", "kappa inf"]
    assert dots[-1].get_xdata()[0] == found.leakage[-1]
    axes.figure.savefig(tmp_path / "frontier.png")
    assert (tmp_path / "frontier.png").stat().st_size > 1000


def test_an_empty_frontier_is_drawn_too(rows):
    assert not eq.frontier(*rows, []).plot().texts


def test_a_certificate_shows_all_of_its_rows(rows):
    e, space = rows
    e[3] = np.nan  # a row without a direction is not drawn
    axes = eq.certify(e, space).plot()
    heights = [sum(bar.get_height() for bar in bars) for bars in axes.containers]
    assert heights == [299, 299]


def test_axes_that_are_given_are_drawn_on(rows):
    from matplotlib import pyplot

    _, (left, right) = pyplot.subplots(1, 2)
    assert eq.frontier(*rows).plot(left) is left
    assert eq.certify(*rows).plot(axes=right) is right
    pyplot.close("all")


def test_an_audit_shows_each_method_with_its_interval():
    embedded_model()
    found = eq.audit(
        "none",
        prompts=["a photo of a doctor", "a photo of a nurse"],
        methods=["closed-form"],
        settings=AuditSettings(resamples=20),
    )
    axes = found.plot()
    assert [label.get_text() for label in axes.get_yticklabels()] == ["none", "closed-form"]
    lean = found.to_frame().query("metric == 'lean'")
    np.testing.assert_allclose(
        axes.lines[0].get_xdata(), [lean["low"].iloc[0], lean["high"].iloc[0]]
    )
    np.testing.assert_allclose(axes.lines[1].get_xdata(), [lean["value"].iloc[0]])
    assert "n=2" in axes.get_xlabel()
    assert found.plot("leakage_texts").get_xlabel().startswith("leakage of texts")
    with pytest.raises(EquipoiseError, match="no metric 'skew'; there are lean"):
        found.plot("skew")


# --- What a search found -----------------------------------------------------------------------------

COLOURS = ("red", "green", "blue", "white", "black")


@pytest.fixture
def found():
    """A search whose answer is known: row i of the index is its picture's place."""
    rows = np.eye(5, dtype=np.float32)
    query = np.array([[0.5, 0.4, 0.3, 0.2, 0.1]], np.float32)
    return eq.search(rows, query, 3)


def sheet(axes):
    """The first pixel of each picture that is drawn, from the left."""
    pixels = axes.images[0].get_array()
    return [tuple(int(value) for value in pixels[40, 40 + 100 * i]) for i in range(3)]


def test_a_search_shows_the_pictures_that_it_found(found, tmp_path):
    images = [Image.new("RGB", (64, 48), colour) for colour in COLOURS]
    paths = []
    for i, image in enumerate(images):
        paths.append(tmp_path / f"{i}.png")
        image.save(paths[-1])
    first_three = [(255, 0, 0), (0, 128, 0), (0, 0, 255)]
    frame = pd.Series(images, index=[9, 8, 7, 6, 5])  # the order counts, and no name of a row
    for pictures in (images, paths, [path.read_bytes() for path in paths], frame):
        assert sheet(found.plot(pictures)) == first_three
    paths[0].unlink()
    assert sheet(found.plot(paths))[0] == (200, 200, 200)  # one that is gone is grey


def test_groups_are_shown_and_counted(found):
    images = [Image.new("RGB", (8, 8), colour) for colour in COLOURS]
    axes = found.plot(images, groups=["b", "a", "b", "a", "c"])
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels == ["b 2 of 3", "a 1 of 3", "c 0 of 3"]  # so that colours are those of all pages
    below = axes.images[0].get_array()[100, [40, 140, 240]]
    assert (below[0] == below[2]).all() and (below[0] != below[1]).any()


def test_a_store_knows_its_own_pictures(tmp_path):
    embedded_model()
    (tmp_path / "photos").mkdir()
    for i, colour in enumerate(COLOURS):
        Image.new("RGB", (64, 64), colour).save(tmp_path / "photos" / f"{i}.png")
    store = eq.embed(tmp_path / "photos", tmp_path / "store")
    results = eq.search(store, store.load()[:1], 3)
    assert sheet(results.plot())[0] == (255, 0, 0)


@pytest.mark.parametrize(
    ("pictures", "options", "message"),
    [
        (None, {}, "does not say where its pictures are; pass `pictures`"),
        ("photos/", {}, "`pictures` is of type str; pass a list with a path"),
        ([b""], {}, "there are 1 pictures and 5 rows in the index; pass a path"),
        (pd.DataFrame({"image": [b""] * 5}), {}, r"one column of it, of \['image'\]"),
        ([b""] * 5, {"groups": "gender"}, "`groups` is of type str; pass a list with a group"),
        ([b""] * 5, {"query": 1}, "query=1 is not legal; pass a whole number below 1"),
    ],
)
def test_what_a_search_cannot_draw(found, pictures, options, message):
    with pytest.raises(EquipoiseError, match=message):
        found.plot(pictures, **options)


# --- A comparison -------------------------------------------------------------------------------------


def test_an_evaluation_is_a_table_and_a_figure(rng):
    encoder = embedded_model()
    jobs = ["doctor", "nurse"] * 40
    genders = ["male", "male", "female", "female"] * 20
    table = pd.DataFrame(
        {"path": [f"{i}.jpg" for i in range(80)], "label": jobs, "gender": genders}
    )
    rows = rng.standard_normal((80, encoder.dim))
    task = eq.evaluation.Evaluation(
        "classification",
        eq.datasets.Dataset("made up", table, ("gender",)),
        encoder,
        embeddings=rows,
        settings=eq.evaluation.Settings(resamples=20),
    )
    run = task.run(eq.evaluation.parse(["orth-proj"]))
    frame = run.to_frame()
    assert list(frame.columns) == [
        *("metric", "method", "value", "low", "high", "difference", "better", "n")
    ]
    assert len(frame) == len(run.rows) and str(run) == repr(run)
    assert "macro F1" in run._repr_html_()
    axes = run.plot("accuracy")
    drawn = frame.query("metric == 'accuracy'")
    assert [label.get_text() for label in axes.get_yticklabels()] == ["none", "orth-proj"]
    np.testing.assert_allclose(axes.lines[1].get_xdata(), drawn["value"].iloc[:1])
    assert axes.get_xlabel().startswith("accuracy (n=80, 95% intervals; higher")
    with pytest.raises(EquipoiseError, match="no metric 'f1'; there are macro F1"):
        run.plot("f1")
