"""The hand-over: what the box "What to do next" says is run as it stands, in a fresh process."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import equipoise as eq
from equipoise._audit import AuditSettings, read
from equipoise.errors import InputError
from tests.helpers.common import component, typed

QUICK = AuditSettings(resamples=60, permutations=20)
PROMPTS = [f"a photo of a {job}" for job in ("nurse", "housekeeper", "teacher", "secretary")]


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A folder to work in, with some of the gallery's pictures in a table."""
    component("equipoise_mini")
    import equipoise_mini

    found = pd.read_parquet(equipoise_mini.gallery().table)
    folder = tmp_path_factory.mktemp("work")
    found.head(600).to_parquet(folder / "people.parquet")
    return folder


@pytest.fixture(scope="module")
def audited(work):
    """Audits of methods of three kinds, each in a folder of its own, run from the work folder."""
    before = Path.cwd()
    os.chdir(work)
    try:
        for method in ("balanced", "closed-form", "orth-proj"):
            found = eq.audit(
                "people.parquet",
                group_columns=["gender"],
                prompts=PROMPTS,
                methods=[method],
                out=f"audit {method}",
                settings=QUICK,
                organisation="A search company",
                auditor="An auditor",
                purpose="a test",
            )
            if method != "balanced":
                # on these pictures it would not be recommended, and its lines must run too
                chosen = found.document.recommendation.model_copy(update={"method": 1})
                document = found.document.model_copy(update={"recommendation": chosen})
                replace(found, document=document).handed_over(Path(f"audit {method}"))
    finally:
        os.chdir(before)
    return work


def run_as_it_stands(document, work: Path) -> None:
    """Run the shell's lines in a shell, and Python's in a fresh interpreter."""
    found = document.recommendation
    here = Path(sys.executable).parent
    environment = os.environ | {"PATH": f"{here}:{os.environ['PATH']}"}
    for line in found.shell:
        subprocess.run(line, shell=True, check=True, cwd=work, env=environment)
    subprocess.run(
        [sys.executable, "-c", "\n".join(found.python)], check=True, cwd=work, env=environment
    )


@pytest.mark.parametrize("name", ["balanced", "closed-form", "orth-proj"])
def test_what_to_do_next_runs_as_it_stands(audited, name):
    document, _ = read(audited / f"audit {name}")
    found = document.recommendation
    assert found.method == 1, document.verdict.methods
    assert found.file is not None and (audited / found.file).is_file()
    run_as_it_stands(document, audited)
    assert found.back
    if name == "balanced":
        assert found.shell == [] and "balance=operator" in found.python[-1]
    elif name == "orth-proj":
        assert found.shell == [] and "eq.wrap(" in found.python[1]
    else:
        assert found.shell[0].startswith("equipoise apply 'audit closed-form/images.npy'")
        changed = np.load(audited / "audit closed-form" / "images-debiased.npy")
        assert changed.shape == np.load(audited / "audit closed-form" / "images.npy").shape


def test_every_method_leaves_an_operator_that_loads(audited):
    for folder in sorted(audited.glob("audit *")):
        document, _ = read(folder)
        for about in document.methods[1:]:
            assert about.file is not None
            assert eq.methods.load(folder / about.file).fingerprint == about.fingerprint


def test_the_record_holds_who_what_and_the_hashes(audited):
    folder = audited / "audit balanced"
    record = read(folder)[0].record
    assert (record.organisation, record.auditor, record.purpose) == (
        "A search company",
        "An auditor",
        "a test",
    )
    assert record.command is not None and "equipoise.audit(" in record.command
    listed = (folder / "images.csv").read_bytes()
    assert record.images == hashlib.sha256(listed).hexdigest()
    assert record.prompts == hashlib.sha256("\n".join(PROMPTS).encode()).hexdigest()
    rows = list(csv.DictReader(listed.decode().splitlines()))
    given = pd.read_parquet(audited / "people.parquet")
    picture = given["image"].iloc[0]
    picture = picture["bytes"] if isinstance(picture, dict) else picture
    assert rows[0]["sha256"] == hashlib.sha256(picture).hexdigest() and len(rows) == 600
    assert record.model == eq.load_encoder("mini").fingerprint


def test_fail_above_judges_the_recommended_or_the_named_method(audited, monkeypatch, capsys):
    monkeypatch.chdir(audited)
    (audited / "prompts.txt").write_text("\n".join(PROMPTS))
    options = ["audit", "people.parquet", "--group-columns", "gender", "--prompts", "prompts.txt"]
    options += ["--method", "closed-form:kappa=0", "--method", "balanced", "--resamples", "40"]
    # the first method changes nothing, and the second is recommended
    assert typed(*options, "--out", "a", "--fail-above", "0.4") == 0
    document, _ = read(audited / "a")
    values = document.summary[document.verdict.row].values
    assert values[1].value > 0.4 > values[2].value  # pyright: ignore[reportOptionalOperand]
    assert document.recommendation.method == 2
    assert document.record.command is not None
    label = document.methods[1].label
    named = [*options, "--out", "b", "--fail-above", "0.4", "--fail-on", label]
    assert typed(*named) == 3
    assert f"with {label} is above 0.4" in capsys.readouterr().err
    assert typed(*options, "--out", "c", "--fail-above", "0.4", "--fail-on", "none") == 3
    assert typed(*options, "--out", "d", "--fail-on", "sfid") == 2
    assert "closed-form" in capsys.readouterr().err


# --- One row per image ------------------------------------------------------------------


def test_rows_of_one_image_that_differ_are_refused_whatever_path_names_it(tmp_path):
    from equipoise._audit.sources import read_images

    rng = np.random.default_rng(0)
    (tmp_path / "photos").mkdir()
    for i in range(4):
        (tmp_path / "photos" / f"{i}.png").write_bytes(rng.bytes(50))
    (tmp_path / "same.png").symlink_to(tmp_path / "photos" / "0.png")

    def audited(*lines: str):
        (tmp_path / "labels.csv").write_text("\n".join(["image,answer", *lines]) + "\n")
        return read_images(tmp_path / "labels.csv", group_columns=["answer"])

    everyone = [f"photos/{i}.png,{'male' if i % 2 else 'female'}" for i in range(4)]
    # two annotators who agree: 4 images, not 8
    twice = audited(*everyone, *everyone)
    assert len(twice.table) == len(twice.pictures or []) == 4
    assert twice.dropped["rows that repeat an image"] == 4
    for other in ("photos/0.png,male", "photos/../photos/0.png,male", "same.png,male"):
        with pytest.raises(InputError, match=r"rows of one image that differ.*--consensus"):
            audited(*everyone, other)


def test_results_of_an_older_format_get_a_clear_answer(audited, tmp_path):
    results = json.loads((audited / "audit balanced" / "results.json").read_text())
    (tmp_path / "results.json").write_text(json.dumps(results | {"format": 1}))
    with pytest.raises(eq.errors.ArtefactError, match=r"format 1.*Run the audit again"):
        read(tmp_path)


def test_the_schema_is_that_of_the_models():
    from equipoise._audit.results import AuditDocument

    root = Path(__file__).parents[2]
    published = json.loads((root / "docs/schemas/audit-results.schema.json").read_text())
    made = AuditDocument.model_json_schema()
    assert {key: published[key] for key in made} == made
