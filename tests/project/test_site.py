"""The documentation: the site builds without a complaint, the tutorial runs word for word, and what how-tos show runs."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import threading
from contextlib import contextmanager
from functools import partial
from html import unescape
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

import numpy as np
import pytest

from tests.helpers.common import ROOT, component, embedded_model, save_gallery, unit
from tests.helpers.pages import violations

# What a page fetches by itself; a link is followed by a reader.
LOADED = re.compile(r"""<(?:link|script|img|iframe)\b[^>]*(?:href|src)=["']?https?://[^>]*>""")
LINK = re.compile(r"""<a\b[^>]*\bhref=["']?([^"'\s>]+)""")
TEN = (
    "",
    *("install", "tutorial", "choose", "how-to/search", "glossary", "power", "command-line"),
    *("reference", "results"),
)
BLOCK = re.compile(r"```(bash|python)\n(.*?)```", re.S)


@pytest.fixture
def mini():
    return embedded_model()


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, built once, without a complaint."""
    component("zensical")
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(ROOT / "docs", folder / "docs")
    shutil.copytree(
        ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__", "assets")
    )
    shutil.copy(ROOT / "mkdocs.yml", folder)
    command = [sys.executable, "-m", "zensical", "build", "--strict", "-f", "mkdocs.yml"]
    built = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder / "build" / "site"


def test_a_reader_fetches_nothing_from_elsewhere(site):
    for page in site.rglob("*.html"):
        assert not LOADED.findall(page.read_text()), page


def test_the_reference_has_what_users_type(site):
    reference = (site / "reference" / "index.html").read_text()
    assert "Debias embeddings" in reference and "equipoise.methods.create" in reference
    assert not re.findall(
        r"equipoise(?:\.\w+)*\._\w+", (ROOT / "docs" / "reference.md").read_text()
    )


def test_no_link_is_dead(site):
    """Files and anchors, as the built pages have them."""
    dead = []
    for page in site.rglob("*.html"):
        if page.name == "404.html":  # its links begin at the address of the site
            continue
        for link in LINK.findall(page.read_text()):
            if re.match(r"[a-z]+:", link):
                continue
            path, _, anchor = unquote(unescape(link)).partition("#")
            target = (page.parent / path).resolve() if path else page
            target = target / "index.html" if target.is_dir() else target
            named = f'id="{anchor}"' in target.read_text() if anchor and target.is_file() else True
            if not target.is_file() or not named:
                dead.append(f"{page.relative_to(site)}: {link}")
    assert dead == []


def test_at_most_seven_entries_at_the_top():
    navigation = (ROOT / "mkdocs.yml").read_text().split("nav:\n")[1].split("\nextra")[0]
    assert len(re.findall(r"^  - ", navigation, re.M)) <= 7


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1400, 390])
def test_axe_finds_nothing_on_ten_pages(site, browser, scheme, width):
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, reduced_motion="reduce"
    )
    with serving(site) as address:
        for name in TEN:
            tab = context.new_page()
            tab.goto(f"{address}/{name}")
            assert violations(tab) == [], name
            assert tab.evaluate("document.documentElement.scrollWidth") <= width, name
            tab.close()
    context.close()


@contextmanager
def serving(folder):
    """The files of a folder on loopback."""
    handler = partial(Quiet, directory=folder)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format, *args):
        """Say nothing."""


def test_every_page_is_in_the_navigation():
    listed = set(re.findall(r"[\w/\-]+\.md", (ROOT / "mkdocs.yml").read_text()))
    assert listed == {
        str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")
    }


@pytest.mark.slow
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
