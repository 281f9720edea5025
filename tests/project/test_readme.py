"""What the README shows is true: its example runs, and so does the demo's."""

from __future__ import annotations

import re
import subprocess
import sys

from tests.helpers.common import ROOT, component, save_gallery


def test_every_block_runs_in_order(tmp_path, monkeypatch, capsys):
    """A folder of pictures is all that the README takes for granted."""
    component("onnxruntime")
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    monkeypatch.chdir(tmp_path)
    save_gallery(tmp_path / "photos")
    names: dict = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)
    assert len(names["found"].to_frame()["path"]) == 20
    assert "score kept" in capsys.readouterr().out
    assert names["space"].rank == 1 and names["u"].shape == names["images"].shape


def test_the_block_of_the_home_page_runs(tmp_path, monkeypatch, capsys):
    component("onnxruntime")
    (block,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "index.md").read_text(), re.S)
    monkeypatch.chdir(tmp_path)
    save_gallery(tmp_path / "photos", every=40)
    exec(compile(block, "index.md", "exec"), {})
    assert "score kept" in capsys.readouterr().out


def test_demo_example_holds():
    result = subprocess.run(
        [sys.executable, ROOT / "examples" / "first.py"], capture_output=True, text=True, check=True
    )
    assert "every one within its bound" in result.stdout


def test_the_metrics_page_prints_what_it_says(capsys):
    (block,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "metrics.md").read_text(), re.S)
    exec(compile(block, "metrics.md", "exec"), {})
    printed = capsys.readouterr().out.split("\n")
    assert [line for line in printed if line] == re.findall(r"# (-?[\d.]+ \[[\d., ]+\])", block)


def test_links_lead_somewhere():
    for page in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md")):
        for target in re.findall(r"\]\((?!https?://|#)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.relative_to(ROOT)}: {target}"
