"""The files around the code: workflows, hooks and citation say what is so."""

from __future__ import annotations

import ast
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
                assert re.fullmatch(r"[\w/-]+@v\d+(\.\d+)*", step["uses"])


def test_the_hooks_call_targets_that_there_are():
    hooks = component("yaml").safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    (local,) = [repo["hooks"] for repo in hooks["repos"] if repo["repo"] == "local"]
    assert {hook["entry"].removeprefix("make ") for hook in local} <= TARGETS


def test_the_citation_is_of_this_version():
    citation = component("yaml").safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == eq.__version__
    assert len(citation["preferred-citation"]["authors"]) == 5


NO_VERB = re.compile(
    r"(a|all|an|any|as|both|each|every|for|how|in|it|no|none|of|on|one|rows|seconds|that|the|this"
    r"|those|threads|two|what|when|where|whether|which|without)\b",
    re.IGNORECASE,
)


def functions_with_docs():
    for folder in (ROOT / "src", ROOT / "mini" / "src"):
        for path in sorted(folder.rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
                if function and (told := ast.get_docstring(node)):
                    yield f"{path.relative_to(ROOT)}:{node.lineno} {node.name}", told


def test_the_docstring_of_a_function_begins_with_a_verb():
    """A list of words that are none stands for a grammar; a verb has a capital and no quotes."""
    wrong = []
    for where, told in functions_with_docs():
        if NO_VERB.match(told) or not re.match(r"[A-Z][a-z]+\b", told):
            wrong.append(f"{where}: {told.splitlines()[0]}")
    assert not wrong
