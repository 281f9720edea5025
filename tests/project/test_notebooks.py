"""The notebooks: each runs offline with a real kernel, opens with a picture, and is typed as a user would type it."""

from __future__ import annotations

import re

import pytest

from tests.helpers.common import ROOT, component, embedded_model

nbformat = component("nbformat")
component("nbclient")
component("ipykernel")

from scripts import notebooks  # noqa: E402

SHOWS = {  # what a notebook must show, by the methods that draw it
    "first-steps": (".plot(people", "certificate.plot()", "eq.frontier(rows, space).plot()"),
    "your-own-search": ("plain.plot()", "fair.plot()"),
    "compare-methods": ("run.plot(", "eq.frontier(rows, space).plot("),
    "generation": ("Image.fromarray(",),
    "audit-of-a-classifier": ("results.plot(", "eq.certify(rows, results.space).plot()"),
}


def read(name):
    return nbformat.read(notebooks.FOLDER / f"{name}.ipynb", as_version=4)


def code(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def test_the_five_are_there_and_on_their_page():
    assert {path.stem for path in notebooks.FOLDER.glob("*.ipynb")} == set(notebooks.NAMES)
    page = (ROOT / "docs" / "notebooks.md").read_text()
    for name in notebooks.NAMES:
        assert f"`{name}.ipynb`" in page and f"pictures/notebooks/{name}.webp" in page


@pytest.mark.parametrize("name", notebooks.NAMES)
def test_a_notebook_is_saved_with_what_it_shows(name):
    """Its first cell of code shows a picture; no output is an error, a warning or a path of a machine."""
    cells = code(read(name))
    assert notebooks.pictures(cells[0])
    for cell in cells:
        for output in cell.outputs:
            assert output.output_type != "error" and output.get("name") != "stderr"
            told = str(output.get("text", "")) + str(output.get("data", {}).get("text/plain", ""))
            assert not re.search(r"/(home|root|work|tmp|Users)/", told), told


def test_the_notebooks_are_small():
    assert notebooks.size() <= notebooks.LARGEST


@pytest.mark.parametrize("name", notebooks.NAMES)
def test_a_notebook_types_what_a_user_would(name):
    text = "\n".join(cell.source for cell in code(read(name)))
    assert not re.search(r"equipoise\._|eq\._|from equipoise\.\w+ import _|\._\w", text)
    for shown in SHOWS[name]:
        assert shown in text


@pytest.mark.slow
@pytest.mark.parametrize("name", notebooks.NAMES)
def test_a_notebook_runs(name, monkeypatch):
    """From an empty folder, offline; what it shows is of the same kinds as what is saved."""
    embedded_model()
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    saved, notebook = read(name), read(name)
    for cell in code(notebook):
        cell.outputs = []
    notebooks.run(notebook)  # an error in a cell raises
    for before, after in zip(code(saved), code(notebook), strict=True):
        assert len(notebooks.pictures(after)) == len(notebooks.pictures(before))
