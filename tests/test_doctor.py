"""What ``equipoise doctor`` says is what the installed package says of itself."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from equipoise import _doctor as examination
from tests.helpers.common import ROOT, component, typed

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def name_of(requirement: str) -> str:
    name = re.match(r"[\w.-]+", requirement)[0]
    return name.lower().replace("_", "-")


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """The wheel of this tree, unpacked as an installer would."""
    wheels = component("hatchling.builders.wheel")
    folder = tmp_path_factory.mktemp("installed")
    (wheel,) = wheels.WheelBuilder(str(ROOT)).build(directory=str(folder / "dist"))
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


def doctor(site: Path, *options: str) -> str:
    command = [sys.executable, "-m", "equipoise", "doctor", *options]
    environment = os.environ | {"PYTHONPATH": str(site)}
    return subprocess.run(
        command, capture_output=True, text=True, check=True, env=environment
    ).stdout


def test_the_extras_and_versions_are_those_of_the_package(installed):
    said = json.loads(doctor(installed, "--json"))
    optional = PROJECT["optional-dependencies"]
    assert set(said["extras"]) == set(optional)
    core = {name_of(requirement) for requirement in PROJECT["dependencies"]}
    assert core <= set(said["versions"])
    for extra, requirements in optional.items():
        if extra != "all":
            assert {name_of(requirement) for requirement in requirements} <= set(said["versions"])


def test_all_holds_every_extra_but_one_that_cannot_lie_beside_them(installed):
    (metadata,) = installed.glob("equipoise-*.dist-info/METADATA")
    lines = [line for line in metadata.read_text().splitlines() if line.startswith("Requires-Dist")]
    of_all = {line.split(";")[0] for line in lines if line.endswith("extra == 'all'")}
    apart = "extra == 'fiftyone'"  # its starlette is another
    each = [line for line in lines if "; extra ==" in line and not line.endswith(apart)]
    assert of_all == {line.split(";")[0] for line in each}


def test_it_says_so_where_the_package_is_not_installed(monkeypatch, capsys):
    monkeypatch.setattr(examination, "PACKAGE", "no-such-package")
    assert examination.extras() == {}
    assert typed("doctor") == 0
    assert "equipoise is not installed, so its extras are unknown" in capsys.readouterr().out
