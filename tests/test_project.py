"""The files around the code: workflows, hooks and citation say what is so."""

from __future__ import annotations

import re

import pytest

import equipoise as eq
from tests.helpers.common import ROOT, component

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TARGETS = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_calls_make_and_may_only_read(path):
    workflow = component("yaml").safe_load(path.read_text())
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        for step in job["steps"]:
            if "run" in step:
                verb, target = step["run"].split()[:2]
                assert verb == "make" and target in TARGETS
            else:
                assert re.fullmatch(r"[\w/-]+@v\d+", step["uses"])


def test_the_hooks_call_targets_that_there_are():
    hooks = component("yaml").safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    (local,) = [repo["hooks"] for repo in hooks["repos"] if repo["repo"] == "local"]
    assert {hook["entry"].removeprefix("make ") for hook in local} <= TARGETS


def test_the_citation_is_of_this_version():
    citation = component("yaml").safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == eq.__version__
    assert len(citation["preferred-citation"]["authors"]) == 5
