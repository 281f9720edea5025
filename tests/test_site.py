"""The documentation: the site builds without a complaint, the tutorial runs word for word, and what how-tos show runs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys

import pytest

import equipoise as eq
from equipoise.errors import MissingExtraError
from tests.conftest import ROOT, component

BLOCK = re.compile(r"```(bash|python)\n(.*?)```", re.S)


@pytest.fixture
def mini():
    """The embedded model, or a skip; a failure where everything must be there."""
    try:
        return eq.load_encoder("mini")
    except MissingExtraError as error:
        if os.environ.get("EQUIPOISE_REQUIRE_ALL"):
            pytest.fail(str(error))
        pytest.skip(str(error))


def test_the_site_builds_without_a_complaint(tmp_path):
    component("zensical")
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__", "assets"))
    shutil.copy(ROOT / "mkdocs.yml", tmp_path)
    command = [sys.executable, "-m", "zensical", "build", "--strict", "-f", "mkdocs.yml"]
    built = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert built.returncode == 0, built.stdout + built.stderr
    reference = (tmp_path / "build" / "site" / "reference" / "index.html").read_text()
    assert "Debias embeddings" in reference and "equipoise.audit.running.run" in reference


def test_every_page_is_in_the_navigation():
    listed = set(re.findall(r"[\w/\-]+\.md", (ROOT / "mkdocs.yml").read_text()))
    assert listed == {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}


def test_the_tutorial_word_for_word(mini, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for kind, block in BLOCK.findall((ROOT / "docs" / "tutorial.md").read_text()):
        if kind == "python":
            exec(compile(block, "tutorial.md", "exec"), names)
            continue
        for line in block.strip().splitlines():
            assert line.startswith("equipoise ")
            subprocess.run([sys.executable, "-m", *line.split()], check=True, capture_output=True)
    assert (tmp_path / "compare.html").is_file() and "closed-form" in capsys.readouterr().out


@pytest.mark.parametrize("page", ["search", "images"])
def test_what_a_how_to_shows_runs(page):
    for _, block in BLOCK.findall((ROOT / "docs" / "how-to" / f"{page}.md").read_text()):
        exec(compile(block, f"{page}.md", "exec"), {})
