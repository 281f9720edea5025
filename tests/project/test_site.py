"""The documentation: the site builds without a complaint, the tutorial runs word for word, and what how-tos show runs."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys

import numpy as np
import pytest

from tests.helpers.common import ROOT, component, embedded_model, save_gallery, unit

# What a page fetches by itself; a link is followed by a reader.
LOADED = re.compile(r"""<(?:link|script|img|iframe)\b[^>]*(?:href|src)=["']?https?://[^>]*>""")
BLOCK = re.compile(r"```(bash|python)\n(.*?)```", re.S)


@pytest.fixture
def mini():
    return embedded_model()


def test_the_site_builds_without_a_complaint(tmp_path):
    component("zensical")
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    shutil.copytree(
        ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__", "assets")
    )
    shutil.copy(ROOT / "mkdocs.yml", tmp_path)
    command = [sys.executable, "-m", "zensical", "build", "--strict", "-f", "mkdocs.yml"]
    built = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert built.returncode == 0, built.stdout + built.stderr
    reference = (tmp_path / "build" / "site" / "reference" / "index.html").read_text()
    for page in (tmp_path / "build" / "site").rglob("*.html"):
        assert not LOADED.findall(page.read_text()), page
    assert "Debias embeddings" in reference and "equipoise.methods.create" in reference
    assert not re.findall(
        r"equipoise(?:\.\w+)*\._\w+", (ROOT / "docs" / "reference.md").read_text()
    )


def test_every_page_is_in_the_navigation():
    listed = set(re.findall(r"[\w/\-]+\.md", (ROOT / "mkdocs.yml").read_text()))
    assert listed == {
        str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")
    }


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


@pytest.mark.slow
def test_a_newcomers_path_in_an_empty_environment(tmp_path):
    """What README and tutorial say, typed into a new environment that has nothing but Python and pip."""
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    binaries = tmp_path / "venv" / "bin"
    packages = [
        str(ROOT),
        *([str(ROOT / "mini")] if (ROOT / "mini" / "pyproject.toml").is_file() else []),
    ]
    install = [
        binaries / "python",
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "-c",
        ROOT / "constraints.txt",
        *packages,
    ]
    subprocess.run(install, check=True)
    pages = [ROOT / "README.md", *([ROOT / "docs" / "tutorial.md"] if len(packages) > 1 else [])]
    environment = {
        "PATH": f"{binaries}:/usr/bin:/bin",
        "HOME": str(tmp_path),
        "HF_HUB_OFFLINE": "1",
    }
    save_gallery(tmp_path / "photos")
    for page in pages:
        for kind, commands in as_typed(page.read_text()):
            command = (
                ["bash", "-ec", commands]
                if kind == "bash"
                else [binaries / "python", "-c", commands]
            )
            subprocess.run(command, check=True, cwd=tmp_path, env=environment)
    told = subprocess.run(
        [binaries / "equipoise", "--version"], check=True, capture_output=True, env=environment
    ).stdout
    assert told.startswith(b"equipoise")


def as_typed(page):
    """Commands as they come, then all Python blocks as one session."""
    blocks = BLOCK.findall(page)
    yield from ((kind, block) for kind, block in blocks if kind == "bash")
    yield "python", "".join(block for kind, block in blocks if kind == "python")


@pytest.mark.parametrize("page", ["search", "images"])
def test_what_a_how_to_shows_runs(page):
    names: dict = {}
    blocks = BLOCK.findall((ROOT / "docs" / "how-to" / f"{page}.md").read_text())
    for kind, block in blocks:
        assert kind == "python"
        exec(compile(block, f"{page}.md", "exec"), names)
    assert blocks
    if page == "search":  # the shifted query finds the same page in any database
        best = np.argsort(-(unit(names["index"]) @ names["shifted"][0]))[:20]
        assert len(set(best) - set(names["found"].indices[0])) <= 1  # of two tied images, the other
