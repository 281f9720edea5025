"""docs/integrations: the code of every page runs with the real package, and the table is made of the pages."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from scripts import integrations

from tests.helpers import models
from tests.helpers.common import ROOT, component, embedded_model, make_space
from tests.helpers.loopback_hub import serving_hub
from tests.helpers.sparks import spark_session

FOLDER = ROOT / "docs" / "integrations"
LONGEST = 45  # lines of a page


def pictures(count: int = 20) -> list[Image.Image]:
    arrays = np.random.default_rng(0).integers(0, 255, (count, 32, 32, 3), dtype=np.uint8)
    return [Image.fromarray(array) for array in arrays]


def for_sentence_transformers(folder):
    saved = models.sentence_clip(folder / "clip")
    model = component("sentence_transformers").SentenceTransformer(str(saved), device="cpu")
    return {"model": model, "pictures": pictures(), "groups": ["male", "female"] * 10}


def for_transformers(folder):
    saved = models.clip(folder / "clip", tokens=64, projection_dim=16)
    return {"folder": str(saved), "picture": pictures(1)[0]}


def for_matplotlib(folder):
    component("matplotlib").use("agg")
    embedded_model()
    rng = np.random.default_rng(0)
    return {"X": rng.standard_normal((100, 16)), "space": make_space(rng, 16)}


def for_mini(folder):
    embedded_model()
    return {}


PAGES = {  # what a page needs, and what it says that the reader has
    "scikit-learn": ([], None),
    "transformers": (["torch", "transformers"], for_transformers),
    "sentence-transformers": (["sentence_transformers"], for_sentence_transformers),
    "langchain": (["langchain_core"], for_mini),
    "llama-index": (["llama_index.core"], for_mini),
    "mlflow": (["mlflow"], for_mini),
    "wandb": (["wandb"], for_mini),
    "matplotlib": (["matplotlib"], for_matplotlib),
}
ELSEWHERE = {"github-action", "hugging-face-hub", "spark", "vector-databases"}  # see below
# tests/encoders/test_open_clip_model.py and tests/test_fiftyone.py, in environments of their own
APART = {"open-clip", "fiftyone"}


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the libraries themselves
def test_the_code_of_a_page_runs(page, tmp_path, monkeypatch):
    needs, given = PAGES[page]
    for name in needs:
        component(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # as the page on MLflow says
    names = given(tmp_path) if given else {}
    blocks = re.findall(r"```python\n(.*?)```", (FOLDER / f"{page}.md").read_text(), re.S)
    assert blocks
    for block in blocks:
        exec(compile(block, f"{page}.md", "exec"), names)
    CHECKS.get(page, lambda names: None)(names)


def check_scikit_learn(names):
    import sklearn

    sklearn.set_config(enable_metadata_routing=False)
    assert names["search"].best_params_["debiaser__kappa"] > 0
    assert names["frame"].shape == (400, 64)


def check_found(names):
    assert names["found"] and names["space"].rank == 1


def check_matplotlib(names):
    assert names["axes"].lines and names["left"].lines and names["right"].patches


def check_mlflow(names):
    assert names["metrics"]["closed-form/lean/value"] < names["metrics"]["none/lean/value"]


def check_transformers(names):
    row = np.asarray(names["row"])
    assert abs(np.linalg.norm(row) - 1) < 1e-5


def check_sentence_transformers(names):
    assert set(names["before"]) == set(names["after"]) == {"max_skew@10"}
    assert "Debias" in repr(names["model"][-1])


CHECKS = {
    "scikit-learn": check_scikit_learn,
    "transformers": check_transformers,
    "sentence-transformers": check_sentence_transformers,
    "langchain": check_found,
    "llama-index": check_found,
    "matplotlib": check_matplotlib,
    "mlflow": check_mlflow,
}


def test_the_page_on_the_hub_runs(tmp_path, monkeypatch):
    component("huggingface_hub")
    names: dict = {}
    (block,) = re.findall(
        r"```python\n(.*?)```", (FOLDER / "hugging-face-hub.md").read_text(), re.S
    )
    with serving_hub(monkeypatch, tmp_path / "cache"):
        exec(compile(block, "hugging-face-hub.md", "exec"), names)
    assert names["operator"].method == "leace" and names["space"].rank == 1
    assert len(names["book"].prompts) > 1


def test_the_page_on_vector_databases_runs(tmp_path, monkeypatch):
    """Its second recipe needs a server that no package brings: it is compiled, and the page says that it was not run."""
    component("qdrant_client")
    rng = np.random.default_rng(0)
    make_space(rng, 16).save(tmp_path / "gender.safetensors")
    monkeypatch.chdir(tmp_path)
    names = {"rows": rng.standard_normal((30, 16))}
    page = (FOLDER / "vector-databases.md").read_text()
    (block,) = re.findall(r"```python\n(.*?)```", page, re.S)
    exec(compile(block, "vector-databases.md", "exec"), names)
    assert names["report"].rows == 30
    (recipe,) = re.findall(r"```py\n(.*?)```", page, re.S)
    compile(recipe, "vector-databases.md", "exec")
    assert "**never run against a server**" in page


def test_the_versions_of_vector_databases_are_those_of_the_tests(monkeypatch):
    monkeypatch.chdir(ROOT)
    page = (FOLDER / "vector-databases.md").read_text()
    known = integrations.versions()
    packages = [*integrations.PACKAGES["vector-databases"], "pgvector", "lancedb", "faiss-cpu"]
    for package in packages:
        assert f"| {package} {known[package]}" in page or f", {package} {known[package]}" in page


@pytest.mark.slow
def test_the_page_on_spark_runs(tmp_path, monkeypatch):
    session = spark_session()
    make_space(np.random.default_rng(0), 4).save(tmp_path / "gender.safetensors")
    monkeypatch.chdir(tmp_path)
    names = {"session": session}
    (block,) = re.findall(r"```python\n(.*?)```", (FOLDER / "spark.md").read_text(), re.S)
    for name in ("gender.safetensors", "debiased"):  # Java has a current folder of its own
        block = block.replace(f'"{name}"', repr(str(tmp_path / name)))
    exec(compile(block, "spark.md", "exec"), names)
    found = pd.read_parquet(tmp_path / "debiased").sort_values("id")
    assert list(found.columns) == ["id", "embedding", "fair"] and found["fair"].iloc[2] is None
    session.stop()


ACTION = ROOT / ".github" / "actions" / "audit" / "action.yml"


def run_action(folder, **inputs):
    """Run the script of the action as a runner does; the exit code, and the job's summary."""
    action = component("yaml").safe_load(ACTION.read_text())
    (step,) = action["runs"]["steps"]
    given = {name: about["default"] for name, about in action["inputs"].items()}
    given |= {name.replace("_", "-"): value for name, value in inputs.items()}
    environment = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "HOME": str(folder)}
    for variable, expression in step["env"].items():
        (name,) = re.fullmatch(r"\$\{\{ inputs\.([\w-]+) \}\}", expression).groups()
        environment[variable] = given[name]
    environment["GITHUB_STEP_SUMMARY"] = str(folder / "summary.md")
    if "PYTHONPATH" in os.environ:
        environment["PYTHONPATH"] = os.environ["PYTHONPATH"]
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=False)
    return done.returncode, (folder / "summary.md").read_text()


@pytest.fixture
def prompts(tmp_path):
    embedded_model()
    (tmp_path / "prompts.txt").write_text("a photo of a doctor\na photo of a nurse\n")
    return "--prompts prompts.txt --resamples 20"


@pytest.mark.slow
def test_the_action_passes_below_the_limit(prompts, tmp_path):
    code, summary = run_action(tmp_path, arguments=prompts, fail_above="0.5")
    assert code == 0 and summary.startswith("## The audit passed")
    assert (tmp_path / "audit" / "model-card.md").read_text() in summary


@pytest.mark.slow
def test_the_action_fails_above_the_limit_and_says_so(prompts, tmp_path):
    code, summary = run_action(tmp_path, arguments=prompts, fail_above="0.001", fail_on="none")
    assert code == 3 and "more than the limit of 0.001" in summary
    assert "with none is above 0.001" in summary and "## Bias audit: gender" in summary


@pytest.mark.slow
def test_what_is_typed_wrong_into_the_action_is_answered(prompts, tmp_path):
    code, summary = run_action(tmp_path, arguments=prompts, fail_above="1", fail_on="$(touch x)")
    assert code not in (0, 3) and "did not run" in summary and "pass one of none" in summary
    assert not (tmp_path / "x").exists()  # an input is never run


def test_the_page_on_the_action_names_inputs_that_there_are():
    yaml = component("yaml")
    (block,) = re.findall(r"```yaml\n(.*?)```", (FOLDER / "github-action.md").read_text(), re.S)
    (job,) = yaml.safe_load(block)["jobs"].values()
    (used,) = [step["with"] for step in job["steps"] if step.get("uses", "").startswith("./")]
    assert set(used) <= set(yaml.safe_load(ACTION.read_text())["inputs"])


def test_every_page_is_tested_and_in_the_table(monkeypatch):
    monkeypatch.chdir(ROOT)
    pages = {path.stem for path in FOLDER.glob("*.md")} - {"index"}
    assert pages == set(integrations.PACKAGES) == set(PAGES) | ELSEWHERE | APART
    assert (FOLDER / "index.md").read_text() == integrations.page()


@pytest.mark.parametrize("page", integrations.PACKAGES)
def test_a_page_is_short(page):
    assert len((FOLDER / f"{page}.md").read_text().splitlines()) <= LONGEST


@pytest.mark.parametrize("page", sorted({*PAGES, *ELSEWHERE}))
def test_what_is_installed_is_the_version_of_the_table(page, monkeypatch):
    monkeypatch.chdir(ROOT)
    for package in integrations.PACKAGES[page]:
        try:
            found = metadata.version(package)
        except metadata.PackageNotFoundError:
            component(package)  # a skip with a reason, or a failure
        assert found == integrations.versions()[package]


def test_the_core_depends_on_none_of_them():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    core = {re.split(r"[<>=\[]", line)[0] for line in project["dependencies"]}
    listed = {name for names in integrations.PACKAGES.values() for name in names}
    assert core & listed == {"scikit-learn"}  # which the core itself uses
