"""A method of another package: the one that docs/add-a-method.md shows, built and installed for real, joins through its entry point."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import equipoise as eq
from equipoise.methods._registry import NEEDS
from tests.helpers.common import ROOT

PAGE = (ROOT / "docs" / "add-a-method.md").read_text()
OUTSIDE = "shift-of-another-package"  # so that a method of the page's own name may be in the tree
USE = (
    f"NAME = {OUTSIDE!r}"
    + """
import sys, numpy as np, equipoise as eq
assert NAME in eq.methods.names(), eq.methods.names()
rng = np.random.default_rng(0)
gender = eq.Attribute("gender", ("male", "female"))
s = rng.integers(0, 2, 300)
images = rng.standard_normal((300, 16)) + 2 * s[:, None] * np.eye(16)[3]
context = eq.FitContext(gender, images=images, sensitive_features=np.array(gender.groups)[s])
operator = eq.methods.create(NAME).fit(context)
operator.save(sys.argv[1] + "/op.safetensors")
np.save(sys.argv[1] + "/x.npy", images)
np.save(sys.argv[1] + "/y.npy", eq.methods.load(sys.argv[1] + "/op.safetensors").image(images))
"""
)


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.S)


def test_the_page_uses_public_names_only():
    assert re.findall(r"equipoise(?:\.\w+)*\._\w+", "".join(blocks("python"))) == []
    needs = PAGE.rpartition("`needs`")[2]
    assert set(re.findall(r"`([a-z_ ]+)`", needs)) == set(NEEDS)
    promised = set(re.findall(r"`methods\.(\w+)`", PAGE))
    assert promised and promised <= set(eq.methods.__all__)


def test_the_page_s_package_is_installed_and_used(tmp_path):
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    (source / "mean_shift.py").write_text(blocks("python")[0].replace("mean-shift", OUTSIDE))
    (source / "pyproject.toml").write_text(blocks("toml")[0].replace("mean-shift", OUTSIDE))
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
        "--no-build-isolation",
        "--target",
        str(target),
        str(source),
    ]
    subprocess.run(pip, check=True)
    path = os.pathsep.join(
        [str(target), *filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")])]
    )
    subprocess.run(
        [sys.executable, "-c", USE, str(tmp_path)],
        check=True,
        env=os.environ | {"PYTHONPATH": path},
    )
    before, after = np.load(tmp_path / "x.npy"), np.load(tmp_path / "y.npy")
    assert not np.allclose(before, after)
    listed = subprocess.run(
        [sys.executable, "-m", "equipoise", "methods", "--json"],
        check=True,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": path},
    )
    assert "images projected off the differences of the groups' means" in listed.stdout
    assert OUTSIDE not in eq.methods.names()  # here it is not installed


def test_the_page_s_method_does_what_it_says(rng):
    names: dict = {}
    exec(compile(blocks("python")[0], "add-a-method.md", "exec"), names)
    s = rng.integers(0, 3, 600)
    attribute = eq.Attribute("age", ("young", "middle-aged", "old"))
    images = (
        rng.standard_normal((600, 16))
        + s[:, None] * np.eye(16)[3]
        + 0.1 * (s == 1)[:, None] * np.eye(16)[5]
    )
    context = eq.FitContext(
        attribute, images=images, sensitive_features=np.array(attribute.groups)[s]
    )
    method = names["MeanShift"]
    unit = images / np.linalg.norm(images, axis=1, keepdims=True)
    np.testing.assert_allclose(method(share=0).fit(context).image(unit), unit, atol=1e-12)
    basis = method().fit(context).maps["image"].right
    assert np.abs(method().fit(context).image(unit) @ basis).max() < 1e-12


@pytest.mark.slow
def test_a_contributor_without_our_data_adds_a_method_to_the_tree(tmp_path):
    """As the page says: a file, a name, a row. Nothing asks for a measurement."""
    for name in ("src", "tests", "docs", "scripts", "pyproject.toml"):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, tmp_path / name)
    methods = tmp_path / "src" / "equipoise" / "methods"
    (methods / "_mean_shift.py").write_text(blocks("python")[0] + "\n\nMETHOD = MeanShift\n")
    registry = (methods / "_registry.py").read_text()
    (methods / "_registry.py").write_text(
        registry.replace('    "none",\n', '    "none",\n    "mean-shift",\n', 1)
    )
    without_row = run_tests_of(tmp_path)
    assert without_row.count("FAILED") == 1
    assert "docs/methods.md has no row for mean-shift; add one" in without_row
    page = tmp_path / "docs" / "methods.md"
    head, rule, rows = page.read_text().partition("|---|---|---|---|\n")
    page.write_text(f"{head}{rule}| **mean-shift** | a formula | all of it | `share` |\n{rows}")
    assert "FAILED" not in run_tests_of(tmp_path)


def run_tests_of(root: Path) -> str:
    """Run the tests that look at methods as a whole, and all that are about mean-shift."""
    command = [sys.executable, "-m", "pytest", "-q", "-rf", "-p", "no:cacheprovider"]
    files = ["methods/test_contract", "project/test_docs", "project/test_leaderboard"]
    wanted = "mean-shift or on_mini or names_every_one or made_from_their_files or authors_code"
    result = subprocess.run(
        [*command, *(f"tests/{name}.py" for name in files), "-k", wanted, "-m", "not slow"],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"EQUIPOISE_DATA": str(root / "nowhere"), "PYTHONPATH": str(root / "src")},
    )
    assert "passed" in result.stdout or "[100%]" in result.stdout, result.stdout + result.stderr
    return result.stdout
