"""``compare``: a grid of methods, one file per cell; what is finished is not computed again."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from equipoise import methods, published
from equipoise._artefact import require_writable
from equipoise.errors import InputError
from equipoise.evaluation._evaluation import Evaluation
from equipoise.evaluation._run_document import EvaluationRun
from equipoise.evaluation._run_file import read, write
from equipoise.methods._specs import BASELINE, MethodSpec, parse

Progress = Callable[[int, int, str], None]


class Preset(NamedTuple):
    """A table of the paper: its task, datasets and methods as they are typed."""

    task: str
    datasets: tuple[str, ...]
    methods: tuple[str, ...]


def presets() -> dict[str, Preset]:
    """Return the tables of the paper that can be made.

    table2 and table3: every method of theirs that is in the registry. table5: prototype x modality
    x scope (x book).
    """
    grid = (
        "closed-form:prototype=both|anchor|variants,modality=both|image|text,scope=shared|per"
        " prompt"
    )
    return {
        "table2": Preset("classification", ("CelebA", "FACET"), _published(2)),
        "table3": Preset("retrieval", ("COCO2017", "Flickr30K"), _published(3)),
        "table5": Preset("retrieval or classification", ("Flickr30K", "CelebA"), (BASELINE, grid)),
    }


def grid(
    preset: str | None,
    given: Sequence[str],
    books: Sequence[str],
    task: str,
    labelled: bool = False,
) -> list[MethodSpec]:
    """Return the methods of a preset and those that were typed, ``none`` first.

    labelled: whether a preset's methods that learn from labels are wanted too.
    """
    typed = list(given)
    if preset is not None:
        typed = [*_methods_of(preset, task, labelled), *typed]
    if not typed:
        raise InputError(
            f"no method was given; pass `method`, or `preset` with one of {', '.join(presets())}"
        )
    specs = parse(typed, books)
    return [MethodSpec(BASELINE), *(spec for spec in specs if spec.name != BASELINE)]


def _methods_of(preset: str, task: str, labelled: bool) -> list[str]:
    """Return the methods of a preset as they are typed."""
    known = presets()
    if preset not in known:
        raise InputError(f"there is no preset {preset!r}; there are {', '.join(known)}")
    if task not in known[preset].task:
        raise InputError(
            f"{preset} is a table of {known[preset].task}, and the task is {task}; pass"
            " `task`, or another preset"
        )
    names = known[preset].methods
    if labelled:
        return list(names)
    return [name for name in names if not parse([name])[0].needs_labels]


def compare(
    evaluation: Evaluation,
    specs: Sequence[MethodSpec],
    folder: Path,
    *,
    progress: Progress | None = None,
) -> tuple[list[EvaluationRun], int]:
    """Return the run of each method beside ``none``, and how many of them existed already.

    Each run has a file of its own in ``folder``. progress(done, all, label) is told of each.
    """
    require_writable(folder / "run.json")
    evaluation.check(specs)
    runs, found = [], 0
    for done, spec in enumerate(specs, 1):
        key = evaluation.key(spec)
        path = folder / f"{_slug(spec.label)}-{key[:12]}.json"
        run = read(path) if path.is_file() else None
        if run is not None and run.key == key:
            found += 1
        else:
            run = evaluation.run([spec])
            seconds = round(evaluation.fit_seconds[spec.label], 4)
            run = run.model_copy(update={"key": key, "fit_seconds": seconds})
            write(path, run)
        runs.append(run)
        if progress is not None:
            progress(done, len(specs), spec.label)
    return runs, found


def _published(table: int) -> tuple[str, ...]:
    """Return the methods of a table of the paper that are in the registry."""
    here = methods.names()
    names = dict.fromkeys(published.lookup(table=table)["method"])
    return tuple(name for name in names if name in here)


def _slug(label: str) -> str:
    return re.sub(r"[^a-z0-9.]+", "-", label.lower()).strip("-")
