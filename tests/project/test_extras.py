"""Each extra alone in a clean environment: two small ones here, all of them by python -m scripts.extras."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest
from scripts import extras

from tests.helpers.common import ROOT, embedded_model


def test_every_extra_has_a_proof_and_a_line_in_the_table():
    assert set(extras.PROOFS) == set(extras.extras())
    assert extras.page(extras.read_record()) == extras.PAGE.read_text()


@pytest.mark.parametrize("extra", extras.PROOFS)
def test_a_proof_is_a_test_that_there_is(extra):
    for test in extras.PROOFS[extra].tests:
        path, _, name = test.partition("::")
        text = (ROOT / path).read_text()
        assert f"def {name.partition('[')[0]}(" in text if name else "def test_" in text


def test_the_record_has_the_versions_that_are_tested():
    known = dict(re.findall(r"^([\w-]+)==(\S+)$", (ROOT / "constraints.txt").read_text(), re.M))
    known = {extras.plain(name): version for name, version in known.items()}
    for found in json.loads(extras.RECORD.read_text()).values():
        for name, version in found["versions"].items():
            expected = known.get(extras.plain(name), version)
            assert version.split("+")[0] == expected, f"{name}: type python -m scripts.extras"


def test_all_extras_together_are_those_of_the_table():
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    listed = " ".join(project["optional-dependencies"]["all"])
    for extra in set(extras.PROOFS) - {"fiftyone"}:  # which asks for another starlette
        assert extra in listed


def test_an_unknown_extra_is_answered():
    command = [sys.executable, "-m", "scripts.extras", "fastapi"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "there is no extra fastapi; there are numba," in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("extra", ["plot", "hub"])
def test_an_extra_alone_in_a_clean_environment(extra, tmp_path):
    embedded_model()
    found = extras.prove(extra, tmp_path / "venv")
    assert set(found["versions"]) == set(extras.asked_for(extra))
