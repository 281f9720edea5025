"""What the pages in docs show runs, and those that are made from measurements are made from them."""

from __future__ import annotations

import importlib
import re

import pytest

from tests.helpers.common import ROOT


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


def test_the_pages_of_measured_methods_are_made_from_their_files(monkeypatch):
    from scripts import adapted, methods_on_clip, methods_on_mini

    monkeypatch.chdir(ROOT)
    assert methods_on_clip.page() == (ROOT / "docs" / "methods-clip.md").read_text()
    assert methods_on_mini.page() == (ROOT / "docs" / "methods-mini.md").read_text()
    assert adapted.page() == (ROOT / "docs" / "adapted.md").read_text()


def test_the_tables_of_the_page_on_balanced_search_are_made_from_their_file():
    from scripts import small_people

    assert small_people.page() == small_people.PAGE.read_text(), (
        "type: python -m scripts.small_people"
    )


@pytest.mark.parametrize("script", ["command_line", "power"])
def test_pages_that_a_script_writes_are_what_it_writes(script):
    module = importlib.import_module(f"scripts.{script}")
    assert module.page() == module.PAGE.read_text(), f"type: python -m scripts.{script}"


def test_the_table_of_power_has_the_floors_of_the_metric():
    from scripts import power

    import equipoise as eq

    groups = ["male"] * 100 + ["female"] * 100
    floor, _, _ = power.chance(0.5, 20)
    assert floor == pytest.approx(
        eq.metrics.max_skew_floor(sensitive_features=groups, m=20), abs=1e-12
    )


def test_the_tables_on_mini_hold_methods_that_there_are():
    """A new method is measured by those who have the photographs; nobody else needs to."""
    import json

    import equipoise as eq

    for name in ("hair", "gender", "race"):
        run = json.loads((ROOT / "docs" / "measurements" / f"methods_mini_{name}.json").read_text())
        measured = {about["method"] for about in run["methods"].values()}
        assert measured <= set(eq.methods.names())
        assert ("fairer-clip" in measured) == (run["task"] == "classification")
        assert run["methods"]["closed-form"]["book"]["prompts"] >= 48
        metrics = {row["metric"] for row in run["rows"]}
        assert "probe AUC" in metrics and all(
            "difference" in row for row in run["rows"] if row["method"] != "none"
        )


@pytest.mark.parametrize("page", ["methods", "adapted"])
def test_the_blocks_of_the_pages_on_methods_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for block in re.findall(
        r"```python\n(.*?)```", (ROOT / "docs" / f"{page}.md").read_text(), re.S
    ):
        exec(compile(block, page, "exec"), names)
    assert names["operator"].changes == (("image",) if page == "methods" else ("text",))


def test_the_blocks_of_the_page_on_balanced_search_run_in_order():
    names: dict = {}
    page = (ROOT / "docs" / "balanced.md").read_text()
    for block in re.findall(r"```python\n(.*?)```", page, re.S):
        exec(compile(block, "balanced.md", "exec"), names)
    assert names["page"].certificate.exact and names["scores"].shape == (5000, 3)
    assert all(one.exact for one in names["found"].certificates)


def test_the_page_on_methods_names_every_one():
    import equipoise as eq

    page = (ROOT / "docs" / "methods.md").read_text()
    for name in eq.methods.names():
        assert name == "none" or f"| **{name}** |" in page, (
            f"the table of docs/methods.md has no row for {name}; add one:"
            f" | **{name}** | its formula | its default | its other variants |"
        )


def test_the_function_for_spark_on_the_page_on_applying(tmp_path, monkeypatch, rng):
    """Spark hands over record batches of a list column; so does this test."""
    import numpy as np
    import pyarrow as pa

    import equipoise as eq
    from tests.helpers.common import make_space, unit

    space = make_space(rng, 16)
    space.save(tmp_path / "gender.safetensors")
    monkeypatch.chdir(tmp_path)
    (block,) = [
        b
        for b in re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "apply.md").read_text(), re.S)
        if "mapInArrow" in b
    ]
    names: dict = {}
    exec(compile(block.rsplit("\n\n", 1)[0], "apply.md", "exec"), names)
    e = unit(rng.standard_normal((9, 16))).astype(np.float32)
    batch = pa.record_batch({"id": range(9), "embedding": pa.array(list(e))})
    (changed,) = names["debias"](iter([batch]))
    assert changed.schema == batch.schema and changed.column("id").equals(batch.column("id"))
    np.testing.assert_array_equal(
        np.stack(changed.column("embedding").to_numpy(zero_copy_only=False)), eq.debias(e, space)
    )


def test_the_loop_for_faiss_on_the_page_on_applying(rng):
    import numpy as np

    import equipoise as eq
    from tests.helpers.common import component, make_space, unit

    faiss = component("faiss")
    (block,) = [
        b
        for b in re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "apply.md").read_text(), re.S)
        if "faiss." in b
    ]
    e, space = unit(rng.standard_normal((50, 16))).astype(np.float32), make_space(rng, 16)
    index = faiss.IndexFlatIP(16)
    index.add(e)
    names = {"faiss": faiss, "eq": eq, "space": space, "index": index}
    exec(compile(block, "apply.md", "exec"), names)
    np.testing.assert_array_equal(names["fair"].reconstruct_n(0, 50), eq.debias(e, space))


def test_every_measurement_has_a_known_origin():
    """scripts.ages then says which of them are older than the code that made them."""
    from scripts import ages

    known = {path for pattern in ages.MADE_BY for path in ages.MEASUREMENTS.glob(pattern)}
    assert {path for path in ages.MEASUREMENTS.rglob("*") if path.is_file()} == known
    for code in ages.MADE_BY.values():
        assert all((ROOT / part).exists() for part in code), code
