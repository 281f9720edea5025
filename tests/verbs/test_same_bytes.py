"""The same command gives the same bytes: on a busy machine, and killed at any moment and started again."""

from __future__ import annotations

import pytest

from equipoise import _clock as clock
from equipoise.errors import InputError
from tests.helpers.common import embedded_model
from tests.helpers.verbs import VERBS, busy_loop, hash_of, kill_and_resume, make_inputs, run_again

RUNS, KILLS = 2, 3
SECONDS = 4.0  # kills come within these: after the start, before the end


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    embedded_model()
    folder = tmp_path_factory.mktemp("same") / "given"
    make_inputs(folder)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_writes_the_same_bytes_whatever_happens(verb, given, tmp_path):
    """Beside a busy loop, and killed with SIGKILL; ``scripts/same_bytes.py`` does it more often."""
    with busy_loop():
        hashes = set(run_again(verb, given, tmp_path, RUNS))
        killed, _ = kill_and_resume(verb, given, tmp_path, KILLS, SECONDS)
    assert hashes == {killed}


def test_a_hash_tells_files_apart_and_leaves_durations_out(tmp_path):
    (tmp_path / "run.json").write_text('{"value": 1, "fit_seconds": 2}')
    first = hash_of(tmp_path)
    (tmp_path / "run.json").write_text('{"value": 1, "fit_seconds": 3}')
    assert hash_of(tmp_path) == first
    (tmp_path / "run.json").write_text('{"value": 2, "fit_seconds": 3}')
    assert hash_of(tmp_path) != first


def test_the_clock_is_the_sources_where_it_says_so(monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    assert clock.now().isoformat() == "1970-01-02T00:00:00+00:00"
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "yesterday")
    with pytest.raises(InputError, match="SOURCE_DATE_EPOCH='yesterday' is not legal"):
        clock.now()
    monkeypatch.delenv("SOURCE_DATE_EPOCH")
    assert clock.now().year > 2000
