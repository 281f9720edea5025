"""``equipoise bench apply``: streaming apply of .npy shards beside two rivals.

They are cp and sync of the same files, and a numpy script.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from equipoise._bench.timing import interleaved
from equipoise._space import AttributeSpace
from equipoise.errors import InputError

ROWS, DIM = 2_000_000, 512
SHARD_ROWS = 250_000

# What a user would write: the paper's formula, shard by shard, with the normalisations and a dense
# projector.
SCRIPT = """
import sys
from pathlib import Path
import numpy as np

source, destination, basis = sys.argv[1:]
q = np.load(basis).astype(np.float32)
projector = q @ q.T
for path in sorted(Path(source).glob("*.npy")):
    e = np.load(path).astype(np.float32)
    e /= np.linalg.norm(e, axis=1, keepdims=True)
    par = e @ projector
    perp = e - par
    a = np.linalg.norm(par, axis=1, keepdims=True)
    b = np.linalg.norm(perp, axis=1, keepdims=True)
    ratio = a + (1 - b) / a
    alpha = (ratio - b * np.sqrt(ratio**2 + b**2 - 1)) / (ratio**2 + b**2)
    u = np.sqrt(1 - alpha**2) * perp / b + alpha * par / a
    np.save(Path(destination) / path.name, u.astype(np.float16))
"""

# Runs the command in a process of its own, as a user does, and says how much memory it took.
COMMAND = """
import sys
from equipoise._cli import main
try:
    main()
finally:  # not getrusage, whose maximum is inherited from the parent
    status = open("/proc/self/status")
    print(next(line.split()[1] for line in status if line.startswith("VmHWM")), file=sys.stderr)
"""


@dataclass(frozen=True)
class ApplyTiming:
    """Seconds of each contender for the same shards, syncing included.

    startup_seconds: the command on a store of one row.

    core_seconds: what all cores spent on the rows, start-up left out; neighbours on the machine
    disturb it less than the wall clock.
    """

    rows: int
    dim: int
    gigabytes: float
    seconds: float
    core_seconds: float
    startup_seconds: float
    copy_seconds: float
    script_seconds: float
    mebibytes: float

    @property
    def over_copy(self) -> float:
        """Return the time over the copy's, without start-up, which no number of rows changes."""
        return (self.seconds - self.startup_seconds) / self.copy_seconds

    @property
    def over_script(self) -> float:
        """Return how many times faster than the script it is; NaN where the script was not run.

        Start-up of both is included.
        """
        return self.script_seconds / self.seconds


def run(
    rows: Sequence[int], dim: int, rank: int, rounds: int, folder: Path | None, script: bool
) -> Iterator[ApplyTiming]:
    """Yield one row of the table per size."""
    if min(*rows, dim, rank) < 1 or rank >= dim:
        raise InputError(
            f"rows {list(rows)}, dim {dim} and rank {rank} are not legal; each starts at 1, and the"
            " rank stays below dim"
        )
    with tempfile.TemporaryDirectory(dir=folder) as place:
        for count in rows:
            yield _measure(Path(place), count, dim, rank, rounds, script)


def _measure(place: Path, rows: int, dim: int, rank: int, rounds: int, script: bool) -> ApplyTiming:
    rng = np.random.default_rng(0)
    source, one = place / "source", place / "one"
    for folder, count in ((source, rows), (one, 1)):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        _write_shards(rng, folder, count, dim)
    space = AttributeSpace.from_prototypes(
        {f"group {i}": rng.standard_normal(dim) for i in range(rank + 1)}
    )
    space.save(place / "space")
    np.save(place / "basis.npy", space.basis)
    memory, cores = [], {source: [], one: []}

    def ours(folder: Path) -> None:
        command = [
            sys.executable,
            "-c",
            COMMAND,
            "apply",
            str(folder),
            "--out",
            str(place / "ours"),
            "--space",
            str(place / "space"),
            "--json",
        ]
        before = _core_seconds()
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        cores[folder].append(_core_seconds() - before)
        memory.append(int(done.stderr.split()[-1]) / 1024)
        if json.loads(done.stdout)["rows"] != (rows if folder == source else 1):
            raise InputError("the run did not write all rows; is the place full?")

    def plain() -> None:
        subprocess.run(["cp", "-r", str(source), str(place / "copy")], check=True)
        os.sync()

    def naive() -> None:
        (place / "script").mkdir()
        subprocess.run(
            [
                sys.executable,
                "-c",
                SCRIPT,
                *map(str, (source, place / "script", place / "basis.npy")),
            ],
            check=True,
        )
        os.sync()

    def cleared() -> None:
        for name in ("ours", "copy", "script"):
            shutil.rmtree(place / name, ignore_errors=True)
        os.sync()

    contenders = {"copy": plain, "ours": lambda: ours(source), "startup": lambda: ours(one)} | (
        {"script": naive} if script else {}
    )
    seconds = interleaved(contenders, rounds, before=cleared)
    size = sum(path.stat().st_size for path in source.iterdir()) / 1e9
    cleared()
    spent = statistics.median(cores[source]) - statistics.median(cores[one])
    script_seconds = seconds.get("script", float("nan"))
    return ApplyTiming(
        rows,
        dim,
        size,
        seconds["ours"],
        spent,
        seconds["startup"],
        seconds["copy"],
        script_seconds,
        max(memory),
    )


def _core_seconds() -> float:
    import resource  # not on every system

    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _write_shards(rng: np.random.Generator, folder: Path, rows: int, dim: int) -> None:
    """Write the same rows into every shard: their number counts, not what they hold."""
    block = rng.standard_normal((min(SHARD_ROWS, rows), dim), dtype=np.float32)
    block /= np.linalg.norm(block, axis=1, keepdims=True)
    block = block.astype(np.float16)
    for i, start in enumerate(range(0, rows, SHARD_ROWS)):
        np.save(folder / f"img_emb_{i:05d}.npy", block[: rows - start])
