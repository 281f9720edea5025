"""The six verbs that write artefacts, each as a small command, and the hash of what it wrote."""

from __future__ import annotations

import contextlib
import csv
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

GROUPS = ("male", "female")
PICTURES = 48
DURATIONS = ("fit_seconds",)  # the fields that say how long something took
Command = Callable[[Path, Path], list[Any]]

# Each takes the folder of inputs and the folder to write, and is typed again after a kill.
VERBS: dict[str, Command] = {
    "fit": lambda given, out: [
        *(
            "fit",
            "--model",
            "mini",
            "-a",
            "gender",
            "-b",
            "people-gender",
            "-o",
            out / "space",
            "--force",
        ),
    ],
    "embed": lambda given, out: [
        *("embed", given / "pictures", "--out", out, "--model", "mini", "--shard", 8, "--resume"),
    ],
    "audit": lambda given, out: [
        *("audit", "--model", "mini", given / "pictures.csv", "-a", "gender"),
        *("--group-columns", "gender", "--resamples", 50, "--out", out, "--force"),
    ],
    "compare": lambda given, out: [
        *(
            "compare",
            "--out",
            out,
            given / "pictures.csv",
            "--model",
            "mini",
            "-t",
            "classification",
        ),
        *("--group-columns", "gender", "--label-column", "label", "--method", "closed-form"),
        *("--template", "a photo of a {} person", "--resamples", 50),
    ],
    "generate": lambda given, out: [
        *(
            "generate",
            "--out",
            out,
            "a photo of a doctor",
            "-n",
            2,
            "--steps",
            2,
            "--batch-size",
            1,
        ),
    ],
    "apply": lambda given, out: [
        *("apply", given / "store", "--out", out, "--space", given / "space", "--resume"),
    ],
}


def make_inputs(folder: Path) -> None:
    """Write pictures with labels, a store of their rows and a space."""
    rng = np.random.default_rng(0)
    (folder / "pictures").mkdir(parents=True)
    lines = []
    for i in range(PICTURES):
        coarse = Image.fromarray(rng.integers(0, 256, (5, 5, 3), dtype=np.uint8))
        coarse.resize((80, 60)).save(folder / "pictures" / f"{i:03d}.png")
        label = ("smiling", "tired")[i // 2 % 2]
        lines.append([f"pictures/{i:03d}.png", GROUPS[i % 2], label])
    with (folder / "pictures.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["path", "gender", "label"], *lines])
    finished(VERBS["fit"](folder, folder), folder)
    finished(VERBS["embed"](folder, folder / "store"), folder)


def started(command: list[Any], given: Path) -> subprocess.Popen:
    """Start a command, with a cache of its own and a clock that stands still."""
    environment = os.environ | {
        "EQUIPOISE_CACHE": str(given / "cache"),
        "SOURCE_DATE_EPOCH": "1700000000",
    }
    return subprocess.Popen(
        [sys.executable, "-m", "equipoise", *map(str, command)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def finished(command: list[Any], given: Path) -> float:
    """Run a command to its end; the seconds that it took."""
    begun = time.perf_counter()
    process = started(command, given)
    said, _ = process.communicate()
    if process.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))} ended with {said}")
    return time.perf_counter() - begun


def hash_of(out: Path) -> str:
    """Hash the files that a verb wrote, without durations."""
    whole = hashlib.sha256()
    for path in sorted(out.rglob("*")):
        if path.is_file() and not path.name.startswith("."):
            whole.update(f"{path.relative_to(out)} ".encode())
            whole.update(_without_durations(path))
    return whole.hexdigest()[:16]


def _without_durations(path: Path) -> bytes:
    data = path.read_bytes()
    if path.suffix != ".json":
        return data
    document = json.loads(data)
    if not isinstance(document, dict):
        return data
    for name in DURATIONS:
        document.pop(name, None)
    return json.dumps(document).encode()


@contextlib.contextmanager
def busy_loop() -> Iterator[None]:
    """Keep a core busy meanwhile."""
    loop = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        loop.kill()
        loop.wait()


def run_again(verb: str, given: Path, folder: Path, runs: int) -> list[str]:
    """Return the hash of each of several runs, each into a folder of its own, without a cache."""
    hashes = []
    out = folder / verb / "out"  # some artefacts name the place of their inputs or outputs
    for _ in range(runs):
        shutil.rmtree(folder / verb, ignore_errors=True)
        shutil.rmtree(given / "cache", ignore_errors=True)
        finished(VERBS[verb](given, out), given)
        hashes.append(hash_of(out))
    return hashes


def kill_and_resume(
    verb: str, given: Path, folder: Path, kills: int, seconds: float, seed: int = 0
) -> tuple[str, int]:
    """Kill a verb at random moments and start it again; then let it end.

    Return the hash of what it wrote, and how many kills came while it ran.
    """
    shutil.rmtree(folder / verb, ignore_errors=True)
    shutil.rmtree(given / "cache", ignore_errors=True)
    out = folder / verb / "out"
    rng, landed = random.Random(f"{verb} {seed}"), 0
    for _ in range(kills):
        process = started(VERBS[verb](given, out), given)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=rng.uniform(0, seconds))
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)  # with its decoders
            landed += 1
        process.communicate()
        if process.returncode == 0 and rng.random() < 0.5:
            shutil.rmtree(folder / verb)  # it was done: from the start again
    finished(VERBS[verb](given, out), given)
    return hash_of(out), landed
