"""Figures with matplotlib: they show the numbers that they are made of."""

from __future__ import annotations

import numpy as np
import pytest

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
