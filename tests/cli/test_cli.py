"""The command line, as a user runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap

import pytest

from equipoise import __version__
from tests.helpers.common import component, embedded_model, run, typed


def test_version_and_help():
    told = subprocess.check_output([sys.executable, "-m", "equipoise", "--version"], text=True)
    assert told.strip() == f"equipoise {__version__}" == run("--version").stdout.strip()
    assert "bench" in run("--help").stdout


def test_bench_kernel_as_json_and_as_a_table():
    options = (
        "--dim",
        "64",
        "--rank",
        "2",
        "--dtype",
        "float32",
        "--mebibytes",
        "1",
        "--rounds",
        "1",
    )
    result = json.loads(run("bench", "kernel", *options, "--json").stdout)
    (row,) = result["rows"]
    assert (
        row["dim"] == 64
        and row["rank"] == 2
        and row["rows"] * 64 * 4 == 1 << 20
        and row["kernel"] == "numba"
    )
    assert row["over_copy"] > 0 and row["over_transcription"] > 0
    assert result["machine"]["equipoise"] == __version__
    table = run("bench", "kernel", *options).stdout
    assert "float32" in table and "time / copy" in table


@pytest.mark.slow
def test_bench_alone_measures_every_line_with_its_floor():
    embedded_model()
    component("faiss")
    lines = json.loads(run("bench", "--share", "0.001", "--json").stdout)["rows"]
    on_a_gpu = [line for line in lines if "CUDA" in line["what"]]
    assert len(on_a_gpu) == 6 and len(lines) == 15
    assert all("needs a GPU" in line["measured"] for line in on_a_gpu)
    assert all(line["floor"] and line["rival"] and line["aim"] for line in lines)
    wrong = run("bench", "--share", "2")
    assert wrong.returncode == 2 and "at most 1" in wrong.stderr


def test_bench_bootstrap_as_json_and_as_a_table():
    options = ("--samples", "2000", "--resamples", "200", "--rounds", "1")
    result = json.loads(run("bench", "bootstrap", *options, "--json").stdout)
    (row,) = result["rows"]
    assert (
        row["samples"] == 2000
        and row["over_scipy"] > 0
        and result["machine"]["equipoise"] == __version__
    )
    assert all(
        abs(a - b) < 0.05 for a, b in zip(row["interval"], row["scipy_interval"], strict=True)
    )
    assert "2,000" in run("bench", "bootstrap", *options).stdout
    wrong = run("bench", "bootstrap", "--groups", "1")
    assert wrong.returncode == 2 and "2 groups" in wrong.stderr and "Traceback" not in wrong.stderr


def test_methods_that_are_named_are_told_in_full(capsys):
    assert typed("methods", "balanced") == 0
    told = capsys.readouterr().out
    assert "balanced  the best page" in told and "closed-form" not in told
    assert typed("methods", "blanced") == 2
    assert "did you mean balanced" in capsys.readouterr().err


def test_warnings_are_messages(tmp_path):
    code = (
        "import warnings, sys; from equipoise import _cli as cli; from equipoise.encoders import _encoder as encoder\n"
        "cli.app.registered_commands.clear(); cli.app.command('x')(lambda: encoder._warn('two of three were cut'))\n"
        "sys.argv = ['equipoise', 'x']; cli.main()"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stderr == "equipoise: two of three were cut\n"


def test_user_errors_are_messages():
    for arguments, message in (
        (("--device", "tpu"), "tpu"),
        (("--device", "cuda"), "CUDA"),
        (("--mebibytes", "0"), "0 MiB"),
        (("--dtype", "bfloat16"), "bfloat16"),
        (("--rank", "65"), "rank"),
    ):
        result = run("bench", "kernel", "--dim", "64", "--rank", "1", *arguments)
        assert (
            result.returncode == 2 and message in result.stderr and "Traceback" not in result.stderr
        )


def test_a_terminal_that_lacks_a_letter():
    """ASCII has no dot between: it is spelled, and the rest is as it was."""
    out = subprocess.run(
        [sys.executable, "-m", "equipoise", "doctor"],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONIOENCODING": "ascii", "COLUMNS": "60"},
    )
    assert (
        out.returncode == 0 and "numpy" in out.stdout and "\\xb7" in out.stdout and not out.stderr
    )


@pytest.mark.slow
def test_lines_to_type_are_whole_on_a_narrow_terminal(tmp_path):
    """What an audit prints under "In Python" runs as it was copied."""
    embedded_model()
    environment = os.environ | {"COLUMNS": "60"}
    command = [sys.executable, "-m", "equipoise", "audit", "--resamples", "20", "--out", "audit"]
    told = subprocess.run(
        command, capture_output=True, text=True, check=True, cwd=tmp_path, env=environment
    ).stdout
    lines = told.partition("In Python:\n")[2].partition("The way back")[0]
    script = textwrap.dedent(lines) + "\nprint(found.certificates[0])"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert "score kept" in done.stdout, done.stderr
