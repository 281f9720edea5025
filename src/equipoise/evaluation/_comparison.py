"""``compare``: a grid of methods, a file a cell; what is finished is not computed again."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from equipoise import methods, published
from equipoise._artefact import require_writable
from equipoise.errors import InputError
from equipoise.evaluation._document import read, write
from equipoise.evaluation._evaluation import Evaluation
from equipoise.methods._specs import BASELINE, MethodSpec, parse

Progress = Callable[[int, int, str], None]


class Preset(NamedTuple):
    """A table of the paper: its task, datasets and methods as they are typed."""

    task: str
    datasets: tuple[str, ...]
    methods: tuple[str, ...]


def presets() -> dict[str, Preset]:
    """table2 and table3: every method of theirs that is fitted without labels.

    table5: prototype x modality x scope (x book).
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
    """The methods of a preset and those that were typed, ``none`` first.

    labelled: a preset's methods that learn from labels too.
    """
    typed = list(given)
    if preset is not None:
        if preset not in presets():
            raise InputError(f"there is no preset {preset!r}; there are {', '.join(presets())}")
        if task not in presets()[preset].task:
            raise InputError(
                f"{preset} is a table of {presets()[preset].task}, and the task is {task}; pass"
                " `task`, or another preset"
            )
        typed = [
            *(
                name
                for name in presets()[preset].methods
                if labelled or not parse([name])[0].needs_labels
            ),
            *typed,
        ]
    if not typed:
        raise InputError(
            f"no method was given; pass `method`, or `preset` with one of {', '.join(presets())}"
        )
    specs = parse(typed, books)
    return [MethodSpec(BASELINE), *(spec for spec in specs if spec.name != BASELINE)]


def compare(
    evaluation: Evaluation,
    specs: Sequence[MethodSpec],
    folder: Path,
    *,
    progress: Progress | None = None,
) -> tuple[list[dict[str, Any]], int]:
    """The run of each method beside ``none``, in a file of its own in ``folder``; and how many of
    them were there already.

    progress(done, all, label) is told of each.
    """
    require_writable(folder / "run.json")
    evaluation.check(specs)
    runs, found = [], 0
    for done, spec in enumerate(specs, 1):
        key = evaluation.key(spec)
        path = folder / f"{_slug(spec.label)}-{key[:12]}.json"
        run = read(path) if path.is_file() else {}
        if run.get("key") == key:
            found += 1
        else:
            run = evaluation.run([spec]) | {
                "key": key,
                "fit_seconds": round(evaluation.fit_seconds[spec.label], 4),
            }
            write(path, run)
        runs.append(run)
        if progress is not None:
            progress(done, len(specs), spec.label)
    return runs, found


def _published(table: int) -> tuple[str, ...]:
    here = methods.names()
    return tuple(
        name for name in dict.fromkeys(published.lookup(table=table)["method"]) if name in here
    )


def _slug(label: str) -> str:
    return re.sub(r"[^a-z0-9.]+", "-", label.lower()).strip("-")
