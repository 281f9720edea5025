"""One run at a time in a folder, on every system, and where the cache lies."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from equipoise._artefact import cache_folder
from equipoise._stores.lock import alone_in
from equipoise.errors import InputError

TWO_RUNS = """
import sys, warnings
sys.modules["fcntl"] = None  # as on a system that has no such module
from pathlib import Path
from equipoise.errors import InputError
from equipoise._stores.lock import alone_in

with alone_in(Path(sys.argv[1])):
    try:
        with alone_in(Path(sys.argv[1])):
            print("both")
    except InputError as error:
        print(error)
with alone_in(Path(sys.argv[1])):
    print("then alone")
"""
KILLED = """
import os, sys
from pathlib import Path
from equipoise._stores.lock import alone_in

with alone_in(Path(sys.argv[1])):
    os._exit(9)
"""


def test_a_second_run_is_refused_where_there_is_no_fcntl(tmp_path):
    command = [sys.executable, "-c", TWO_RUNS, str(tmp_path)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert printed.splitlines() == [
        f"another run is writing to {tmp_path}; wait for it, or pass another folder",
        "then alone",
    ]


def test_a_lock_ends_with_its_process(tmp_path):
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False)
    with alone_in(tmp_path):
        assert (tmp_path / ".lock").is_file()


def test_a_file_in_place_of_the_folder(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="file cannot be written to"), alone_in(tmp_path / "file"):
        pass


@pytest.mark.skipif(sys.platform != "linux", reason="where a cache lies depends on the system")
def test_the_cache_lies_where_this_system_keeps_caches(monkeypatch, tmp_path):
    monkeypatch.delenv("EQUIPOISE_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path))  # of another system: it means nothing here
    assert cache_folder() == Path.home() / ".cache" / "equipoise"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    assert cache_folder() == tmp_path / "caches" / "equipoise"
    monkeypatch.setenv("EQUIPOISE_CACHE", str(tmp_path / "mine"))
    assert cache_folder() == tmp_path / "mine"
