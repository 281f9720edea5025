"""What docs/prompts.md and docs/evaluate.md show runs."""

from __future__ import annotations

import re

from tests.conftest import ROOT


def test_every_block_of_the_page_on_prompts_runs_in_order(tmp_path, monkeypatch):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "prompts.md").read_text(), re.S)
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for block in blocks:
        exec(compile(block, "prompts.md", "exec"), names)
    assert names["space"].rank == 1 and len(names["spaces"]) == 34


def test_the_toml_on_the_page_is_an_attribute(tmp_path):
    import equipoise as eq

    (block,) = re.findall(r"```toml\n(.*?)```", (ROOT / "docs" / "prompts.md").read_text(), re.S)
    (tmp_path / "hair.toml").write_text(block)
    assert eq.Attribute.load(tmp_path / "hair.toml").group("Blond_Hair") == "blond"


def test_the_block_of_the_page_on_evaluation_runs(capsys):
    (block,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "evaluate.md").read_text(), re.S)
    exec(compile(block, "evaluate.md", "exec"), {})
    assert capsys.readouterr().out.count("MS@50") == 3


def test_the_page_of_every_method_on_clip_is_made_from_its_files(monkeypatch):
    from scripts import methods_on_clip

    monkeypatch.chdir(ROOT)
    assert methods_on_clip.page() == (ROOT / "docs" / "methods-clip.md").read_text()
