"""A method of another package: the one that docs/add-a-method.md shows, built and installed for real, joins through its entry point."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import numpy as np

import equipoise as eq
from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "add-a-method.md").read_text()
USE = """
import sys, numpy as np, equipoise as eq
assert "mean-shift" in eq.methods.names(), eq.methods.names()
rng = np.random.default_rng(0)
gender = eq.Attribute("gender", ("male", "female"))
s = rng.integers(0, 2, 300)
images = rng.standard_normal((300, 16)) + 2 * s[:, None] * np.eye(16)[3]
context = eq.FitContext(gender, images=images, sensitive_features=np.array(gender.groups)[s])
operator = eq.methods.create("mean-shift").fit(context)
operator.save(sys.argv[1] + "/op.safetensors")
np.save(sys.argv[1] + "/x.npy", images)
np.save(sys.argv[1] + "/y.npy", eq.methods.load(sys.argv[1] + "/op.safetensors").image(images))
"""


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.S)


def test_the_page_s_package_is_installed_and_used(tmp_path):
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    (source / "mean_shift.py").write_text(blocks("python")[0])
    (source / "pyproject.toml").write_text(blocks("toml")[0])
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
    assert "mean-shift" not in eq.methods.names()  # here it is not installed


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
