"""Run every verb of the command line offline, in a folder that is given, on its smallest job."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

from equipoise import _cli as cli

GROUPS = ("male", "female")
MINI = ("--model", "mini", "--offline")
TABLE = (
    "people.csv", *MINI, "--label-column", "work", "--group-columns", "gender",
    "--workers", "0", "--probe", "0", "--resamples", "20",
)  # fmt: skip
BEFORE = (
    ("prompts", "write", "--from", "prompts.txt", "--out", "book.json"),
    ("prompts", "check", "book.json"),
    ("fit", "-a", "gender", "-b", "book.json", "--model", "mini", "--out", "space.safetensors"),
    (
        "generate", "prompts.txt", "--out", "run", "--offline", "--per-prompt", "2", "--steps", "1",
        "--annotator", "encoder:mini", "--resamples", "20",
    ),
)  # fmt: skip
AFTER = (
    ("embed", "people.csv", "--out", "store", *MINI, "--column", "path", "--workers", "1"),
    ("apply", "store", "--out", "fair", "--space", "space.safetensors"),
    (
        "audit",
        *MINI,
        "run/images",
        "-p",
        "prompts.txt",
        "--resamples",
        "20",
        "-m",
        "4",
        "--out",
        "audit",
    ),
    ("report", "audit", "--out", "report.html"),
    ("evaluate", *TABLE, "--out", "evaluated.json"),
    ("compare", *TABLE, "--out", "grid", "--method", "closed-form:kappa=1|inf"),
    ("annotate", "export", "run", "--out", "labels.csv"),
    ("bench", "bootstrap", "--samples", "200", "--resamples", "20", "--rounds", "1"),
    ("bench", "encode", "--model", "mini", "--count", "4", "--size", "64", "--rounds", "1"),
    ("methods",),
    ("cache",),
    ("doctor", *MINI),
)


def typed(*arguments: str) -> None:
    """Run one command, which must succeed."""
    sys.argv = ["equipoise", *arguments]
    try:
        cli.main()
    except SystemExit as stop:
        if stop.code:
            raise


def write_table() -> None:
    """A table of the pictures that generate drew, with a group and a class for each."""
    with open("people.csv", "w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["path", "work", "gender"])
        for i, path in enumerate(sorted(Path("run/images").rglob("*.png"))):
            work = path.parent.name.rpartition("-")[2]
            table.writerow([str(path), work, GROUPS[i % 2]])


def annotate() -> None:
    """Serve the page, open it once, and stop with Ctrl-C."""
    command = ["annotate", "run", "--annotators", "anna,ben", "--port", "0", "--json"]
    server = subprocess.Popen(
        [sys.executable, "-m", "equipoise", *command], stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    line = server.stdout.readline()
    print(line)
    address = line[line.index("http://") :].split("#")[0].split('"')[0]
    with urllib.request.urlopen(address) as page:
        assert b"<html" in page.read()
    server.send_signal(signal.SIGINT)
    server.wait(timeout=60)


def explore() -> None:
    """Serve the page, search once, and stop with Ctrl-C."""
    command = ["explore", "run/images", *MINI, "-a", "gender", "--port", "0", "--json"]
    server = subprocess.Popen(
        [sys.executable, "-m", "equipoise", *command], stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    address, key = json.loads(server.stdout.readline())["link"].split("#key=")
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    asked = json.dumps({"text": "a photo of a doctor", "k": 2}).encode()
    with urllib.request.urlopen(
        urllib.request.Request(f"{address}api/search", asked, headers)
    ) as answer:
        assert len(answer.readlines()) == 2
    with urllib.request.urlopen(f"{address}picture/0?key={key}") as picture:
        assert picture.read(2) == b"\xff\xd8"
    server.send_signal(signal.SIGINT)
    server.wait(timeout=60)


def main(folder: str) -> None:
    os.chdir(folder)
    Path("prompts.txt").write_text("a photo of a doctor\na photo of a nurse\n")
    for command in BEFORE:
        typed(*command)
    write_table()
    annotate()
    explore()
    for command in AFTER:
        typed(*command)


if __name__ == "__main__":
    main(sys.argv[1])
