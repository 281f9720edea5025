"""Write docs/traces.md: which files a verb passes on its way from the command line to the kernel.

``python scripts/traces.py`` runs each verb on small files under ``sys.setprofile`` and writes the
page. ``--check`` writes nothing and exits with 1 where a room is entered twice on the way down.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import io
import os
import sys
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
from PIL import Image

import equipoise as eq

SOURCE = Path(eq.__file__).parent
PAGE = Path(__file__).parents[1] / "docs" / "traces.md"
PICTURES = 24

# Small services that every room may call at any depth, and that call no room themselves.
HELPERS = {"errors", "_display", "_progress", "_artefact", "_paths", "_clock", "_version"}
HELPERS |= {"_telemetry", "_array_types", "__init__"}

# What a room hands down and a lower room calls: by its file, with who calls it and why.
CALLBACKS = {
    "metrics/_walk.py": "the counting of one block, which `kernels/_host.py` spreads over threads",
    "evaluation/_classification.py": "a metric, which `metrics/_resample_cells.py` computes for"
    " each resample",
    "generation/_picture_files.py": "the painting of one batch, whose size `encoders/_batching.py` finds",
    "generation/_results_document.py": "how the plan of a run is written, which `_documents.py` asks"
    " for",
    "generation/_fitting.py": "the pipeline's text encoder, with which `prompts/_prototypes.py`"
    " encodes a prompt book",
}

INTRODUCTION = """# From the command line to the kernel and back

This page follows five verbs through the files of the package. `python scripts/traces.py` made it
from real runs on small files with the embedded model.

Each line is a file, at the moment of its first call, and the function that was called. It is
indented further than the file that called it, which may stand further up. A room is a folder of the package, or a file beside the
folders; ARCHITECTURE.md draws them. Only the main path is shown. Left out are:

- what runs while a module is imported;
- files that are on the page already, when they are called again;
- files that only their own room calls and that call no other room;
- small services that every room may call and that call no room: errors, progress bars, the clock,
  paths, and the writing of files.

A result goes back the way it came: each function returns to the line above it. Compiled code has no
lines of its own: `kernels/_host.py` hands the rows to `kernels/_numba.py`, where numba is installed.

**No room is entered twice on the way down.** For every call of a run, the script reads the chain of
calls that led to it. A chain may stay in a room for several calls. Once it has left a room, it does
not come back, except into a function or an object that the room itself handed down. There are
{count} such callbacks:

{callbacks}

`python scripts/traces.py --check` fails for any other.
"""


@dataclass(frozen=True)
class Step:
    """A call: the file, the function, and the room that the file is in."""

    file: str
    function: str

    @property
    def room(self) -> str:
        """Return the folder of the package, or the file beside the folders."""
        return self.file.split("/")[0].removesuffix(".py")


@dataclass
class Trace:
    """The first call of each file with its depth, and the chains that come back to a room."""

    lines: list[tuple[int, Step]] = field(default_factory=list)
    rooms: list[str] = field(default_factory=list)
    back: dict[str, str] = field(default_factory=dict)
    _depths: dict[str, int] = field(default_factory=dict)

    def enter(self, chain: list[Step]) -> None:
        """Note the last call of a chain."""
        last = chain[-1]
        if last.file not in self._depths:
            callers = [step.file for step in chain[:-1] if step.file in self._depths]
            depth = self._depths[callers[-1]] + 1 if callers else 0
            self._depths[last.file] = depth
            self.lines.append((depth, last))
        if last.room not in self.rooms:
            self.rooms.append(last.room)
        way = room_path(chain[:-1])
        if last.room in way[:-1]:
            called = " > ".join(f"{step.file}:{step.function}" for step in chain)
            self.back.setdefault(last.file, called)

    def shown(self) -> list[tuple[int, Step]]:
        """Return the lines of the main path: where a room is entered, and what leads to another."""
        kept = []
        for i, (depth, step) in enumerate(self.lines):
            above = [line for line in self.lines[:i] if line[0] == depth - 1]
            entered = not above or above[-1][1].room != step.room
            if entered or self._leads_on(i):
                kept.append((depth, step))
        return kept

    def _leads_on(self, at: int) -> bool:
        """Return whether a file of another room stands below this line."""
        depth, here = self.lines[at]
        for below, step in self.lines[at + 1 :]:
            if below <= depth:
                return False
            if step.room != here.room:
                return True
        return False


def room_path(chain: list[Step]) -> list[str]:
    """Return the rooms of a chain; after a callback the path goes on from the room that gave it."""
    path: list[str] = []
    for step in chain:
        if step.room in path:
            del path[path.index(step.room) + 1 :]
        else:
            path.append(step.room)
    return path


class Tracer:
    """Follows the calls of this package's functions, in every thread."""

    def __init__(self) -> None:
        self.trace = Trace()
        self._main: list[Step | None] = []
        self._local = threading.local()
        self._known: dict[str, str | None] = {}
        self._lock = threading.Lock()

    def __enter__(self) -> Trace:
        self._local.chain = self._main
        threading.setprofile(self._event)
        sys.setprofile(self._event)
        return self.trace

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def _event(self, frame: FrameType, event: str, _: Any) -> None:
        if event not in ("call", "return"):
            return
        file = self._file(frame.f_code.co_filename)
        if file is None:
            return
        chain = self._chain()
        if event == "return":
            if chain:
                chain.pop()
            return
        function = frame.f_code.co_name
        # None marks a module that is being imported: what runs above it is no part of the path
        chain.append(None if function == "<module>" else Step(file, function))
        if None in chain:
            return
        steps = [step for step in chain if step is not None and step.room not in HELPERS]
        if steps and chain[-1] == steps[-1]:
            with self._lock:
                self.trace.enter(steps)

    def _chain(self) -> list[Step | None]:
        """Return this thread's chain; that of a worker goes on from the main thread's."""
        if not hasattr(self._local, "chain"):
            self._local.chain = list(self._main)
        return self._local.chain

    def _file(self, path: str) -> str | None:
        if path not in self._known:
            inside = path.startswith(f"{SOURCE}{os.sep}")
            self._known[path] = Path(path).relative_to(SOURCE).as_posix() if inside else None
        return self._known[path]


def make_inputs(folder: Path) -> None:
    """Write pictures with labels, a store of their rows and an attribute space."""
    rng = np.random.default_rng(0)
    (folder / "pictures").mkdir(parents=True)
    lines = [["path", "gender", "label"]]
    for i in range(PICTURES):
        path = f"pictures/{i:03d}.png"
        Image.fromarray(rng.integers(0, 256, (64, 64, 3), dtype=np.uint8)).save(folder / path)
        lines.append([path, ("male", "female")[i % 2], ("smiling", "tired")[i // 2 % 2]])
    (folder / "prompts.txt").write_text("a photo of a doctor\na photo of a nurse\n")
    with (folder / "pictures.csv").open("w", newline="") as file:
        csv.writer(file).writerows(lines)
    encoder = eq.load_encoder("mini")
    book, gender = eq.PromptBook.load("people-gender"), eq.Attribute.load("gender")
    eq.AttributeSpace.from_prompts(encoder, book, gender).save(folder / "space")
    eq.embed(folder / "pictures", folder / "store", shard=8, cache=False)


def commands(given: Path) -> dict[str, list[Any]]:
    """Return what is typed for each verb."""
    table = given / "pictures.csv"
    return {
        "audit": [
            *("audit", table, "--group-columns", "gender", "--method", "closed-form"),
            *("--prompts", given / "prompts.txt", "--resamples", 20, "--out", given / "audit"),
        ],
        "apply": ["apply", given / "store", "--space", given / "space", "--out", given / "fair"],
        "compare": [
            *(
                "compare",
                table,
                "--model",
                "mini",
                "--task",
                "classification",
                "--group-columns",
                "gender",
            ),
            *("--label-column", "label", "--template", "a photo of a {} person"),
            *("--method", "closed-form", "--resamples", 20, "--out", given / "runs"),
        ],
        "generate": [
            *("generate", "a photo of a doctor", "--method", "closed-form", "-n", 2),
            *("--steps", 2, "--annotator", "encoder:mini", "--out", given / "drawn"),
        ],
    }


def trace_command(arguments: list[Any]) -> Trace:
    """Run a command in this process and return the files that it passed."""
    from equipoise._cli import app

    words = [str(word) for word in arguments]
    with contextlib.redirect_stdout(io.StringIO()), Tracer() as trace:
        app(words, standalone_mode=False)
    return trace


def trace_debias(given: Path) -> Trace:
    """Debias an array and return the files that were passed."""
    space = eq.AttributeSpace.load(given / "space")
    rows = eq.open_store(given / "store").load()
    with Tracer() as trace:
        eq.debias(rows, space)
    return trace


def trace_all(given: Path) -> dict[str, tuple[str, Trace]]:
    """Return for each verb what was typed and the files that it passed."""
    found: dict[str, tuple[str, Trace]] = {}
    for verb, arguments in commands(given).items():
        typed = " ".join(_shown(word, given) for word in arguments)
        found[verb] = (f"equipoise {typed}", trace_command(arguments))
    found["debias"] = ("eq.debias(rows, space)", trace_debias(given))
    return found


def _shown(word: Any, given: Path) -> str:
    if isinstance(word, Path):
        return str(word.relative_to(given))
    return f'"{word}"' if " " in str(word) else str(word)


def section(verb: str, typed: str, trace: Trace) -> str:
    """Return one verb's part of the page."""
    shown = trace.shown()
    width = max(2 * depth + len(step.file) for depth, step in shown)
    lines = []
    for depth, step in shown:
        file = "  " * depth + step.file
        lines.append(f"{file:{width}}  {step.function}")
    rooms = ", ".join(f"`{room}`" for room in trace.rooms)
    body = "\n".join(lines)
    told = f"{len(shown)} of {len(trace.lines)} files, in {len(trace.rooms)} rooms: {rooms}."
    return f"## {verb}\n\n`{typed}`\n\n{told}\n\n```text\n{body}\n```\n"


def main() -> None:
    """Write the page, or check that no room is entered twice."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail for a room twice")
    check = parser.parse_args().check
    with tempfile.TemporaryDirectory() as folder:
        os.environ["EQUIPOISE_CACHE"] = f"{folder}/cache"
        given = Path(folder) / "given"
        make_inputs(given)
        found = trace_all(given)
    twice = []
    for verb, (_, trace) in found.items():
        print(f"{verb}: {len(trace.lines)} files in {len(trace.rooms)} rooms")
        twice += [f"{verb}: {way}" for file, way in trace.back.items() if file not in CALLBACKS]
    if twice:
        print("rooms that are entered twice:", *twice, sep="\n")
        sys.exit(1)
    print("no room is entered twice on the way down")
    if not check:
        PAGE.write_text(page(found))


def page(found: dict[str, tuple[str, Trace]]) -> str:
    """Return docs/traces.md."""
    callbacks = "\n".join(f"- `{file}`: {why}." for file, why in CALLBACKS.items())
    introduction = INTRODUCTION.format(count=len(CALLBACKS), callbacks=callbacks)
    sections = [section(verb, *traced) for verb, traced in found.items()]
    return "\n".join([introduction, *sections])


if __name__ == "__main__":
    main()
