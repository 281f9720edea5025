"""A mistake of our own: a traceback that can be sent to others."""

from __future__ import annotations

import subprocess
import sys

import pytest

from equipoise._cli.crash import without_secrets

KEY = "sk-very-secret-0123456789"
CRASH = """
import sys
from equipoise import _cli as cli

def doctor(**_):
    hidden = "hf_" + "a-local-value"
    raise RuntimeError(f"no answer to {sys.argv[2]} from http://me:pass@host/v1")

cli.app.registered_commands = []
cli.app.command()(lambda text: doctor())
cli.app.registered_commands[0].name = "crash"
sys.argv[1] = "crash"
cli.{call}()
"""


@pytest.mark.parametrize("call", ["main", "app"])
def test_a_crash_shows_no_local_values_whoever_calls(call):
    code = CRASH.replace("{call}", call)
    command = [sys.executable, "-c", code, "crash", "a-question"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert "Traceback" in ran.stderr and "a-question" in ran.stderr
    assert "hf_a-local-value" not in ran.stderr


def test_a_crash_report_holds_no_secret(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    command = [sys.executable, "-c", CRASH.replace("{call}", "main"), "crash", KEY]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 1 and "Traceback" in ran.stderr
    assert "no answer to *** from http://***@host/v1" in ran.stderr
    assert KEY not in ran.stderr + ran.stdout


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"key {KEY}", "key ***"),
        ("postgresql://me:pass@host/db", "postgresql://***@host/db"),
        ("host=h password=pass user=u", "host=h password=*** user=u"),
        ("token: abc, next", "token: ***, next"),
        ("https://host/a@b is an address", "https://host/a@b is an address"),
        ("yes, on", "yes, on"),
    ],
)
def test_secrets_are_left_out(monkeypatch, text, told):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("SOME_AUTH", "on")  # a setting
    assert without_secrets(text) == told
