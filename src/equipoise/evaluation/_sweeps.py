"""Sweeps: methods at every value of their strength, as points of fairness against utility, and
those that no other point beats in both.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from equipoise import methods
from equipoise.errors import EquipoiseError, InputError
from equipoise.evaluation._comparison import Progress, compare, grid
from equipoise.evaluation._document import plain, versions
from equipoise.evaluation._evaluation import Evaluation
from equipoise.evaluation._grids import Run, grids
from equipoise.evaluation._questions import Queries
from equipoise.methods._specs import BASELINE, MethodSpec
from equipoise.metrics._probe import METRIC as PROBE

AXES = ("fairness", "utility")
KIND, FORMAT = "equipoise sweep", 1
CARRIED = (
    "task",
    "protocol",
    "dataset",
    "fitting",
    "attribute",
    "encoder",
    "model",
    "prompts",
    "settings",
    "counts",
)


def sweep_grid(
    preset: str | None,
    given: Sequence[str],
    books: Sequence[str],
    task: str,
    labelled: bool = False,
) -> list[MethodSpec]:
    """As ``grid``, with each method at the values of its strength; a value that was typed stands, a
    method without a strength is one point.

    Without preset and method: all that have a strength and can be fitted for this task.
    """
    typed = (
        given
        if given or preset
        else [name for name in methods.names() if _sweepable(name, task, labelled)]
    )
    specs = [one for spec in grid(preset, typed, books, task, labelled) for one in _along(spec)]
    return [spec for i, spec in enumerate(specs) if spec not in specs[:i]]


def _sweepable(name: str, task: str, labelled: bool) -> bool:
    spec, method = MethodSpec(name), methods.find(name)
    fits = labelled or not spec.needs_labels
    return (
        method.sweep is not None
        and fits
        and not (task == "retrieval" and "class_prompts" in method.needs)
    )


def _along(spec: MethodSpec) -> list[MethodSpec]:
    strength = None if spec.is_file else methods.find(spec.name).sweep
    if strength is None or strength.param in spec.params:
        return [spec]
    start = () if strength.becomes == BASELINE else (strength.neutral,)  # ``none`` is there already
    return [
        MethodSpec(spec.name, spec.params | {strength.param: value}, spec.book)
        for value in (*start, *strength.values)
    ]


def sweep(
    evaluation: Evaluation,
    specs: Sequence[MethodSpec],
    folder: Path,
    *,
    fairness: str | None = None,
    utility: str | None = None,
    progress: Progress | None = None,
) -> tuple[dict[str, Any], list[Run]]:
    """The document of a sweep, and the run of each point, which lies in ``folder`` as ``compare``
    leaves it.

    fairness, utility: metrics; by default the first that should be low, and the first that should
    be high. What cannot be fitted at some value is left out, with the reason.
    """
    if isinstance(evaluation.asked, Queries) and evaluation.asked.targets is None:
        raise InputError(
            "queries of your own have no right image, so retrieval has no utility to draw; sweep"
            " with captions (`caption_column`), or sweep `task` classification"
        )
    evaluation.check(specs)
    found: list[tuple[MethodSpec, Run]] = []
    left_out, axes = [], ("", "")
    for done, spec in enumerate(specs, 1):
        try:
            found.append((spec, compare(evaluation, [spec], folder)[0][0]))
        except EquipoiseError as error:
            if spec.name == BASELINE:
                raise
            left_out.append({"label": spec.label, "reason": str(error)})
        if spec.name == BASELINE:  # the first, so that a wrong name ends it here
            axes = _metric(found[0][1], "lower", fairness), _metric(found[0][1], "higher", utility)
        if progress is not None:
            progress(done, len(specs), spec.label)
    return document(found, *axes, left_out), [run for _, run in found]


def document(
    runs: Sequence[tuple[MethodSpec, Run]],
    fairness: str,
    utility: str,
    left_out: Sequence[dict] = (),
) -> dict[str, Any]:
    """What a page and a table need, from the runs of a sweep alone."""
    points = [_point(spec, run, fairness, utility) for spec, run in runs]
    for point in points:
        point["front"] = all(point[axis]["value"] is not None for axis in AXES) and not any(
            _beats(other, point) for other in points
        )
    first = runs[0][1]
    (table,) = grids(
        [
            run | {"rows": [row for row in run["rows"] if row["metric"] in (fairness, utility)]}
            for _, run in runs
        ]
    )
    about = {key: first[key] for key in CARRIED} | {"title": table.title, "note": table.note}
    rows = {row["metric"]: row for row in first["rows"]}
    for name, metric in zip(AXES, (fairness, utility), strict=True):
        row = rows[metric]
        about[name] = {
            "metric": metric,
            "better": row["better"],
            "n": row["n"],
            "floor": row.get("floor"),
        }
    return plain(
        {
            "kind": KIND,
            "format": FORMAT,
            "versions": versions(),
            **about,
            "points": points,
            "left_out": list(left_out),
        }
    )


def _point(spec: MethodSpec, run: Run, fairness: str, utility: str) -> dict[str, Any]:
    strength = None if spec.is_file else methods.find(spec.name).sweep
    param = strength.param if strength else None
    defaults = {} if spec.is_file else methods.defaults(spec.name)
    value = spec.params.get(param, defaults.get(param)) if param else None
    rest = MethodSpec(
        spec.name, {key: given for key, given in spec.params.items() if key != param}, spec.book
    )
    about: dict[str, Any] = {
        "series": rest.label,
        "label": spec.label,
        "param": param,
        "value": value,
    }
    about["default"] = param is not None and value == defaults.get(param)
    rows = {row["metric"]: row for row in run["rows"] if row["method"] == spec.label}
    for name, metric in zip(AXES, (fairness, utility), strict=True):
        row = rows.get(metric, {})  # a method with a space a prompt has no probe
        about[name] = {key: row.get(key) for key in ("value", "low", "high", "difference")}
    return about


def _metric(run: Run, better: str, given: str | None) -> str:
    legal = [
        row["metric"]
        for row in run["rows"]
        if row["better"] == better and (row["metric"] != PROBE or given == PROBE)
    ]
    if given is not None and given not in legal:
        raise InputError(
            f"there is no metric {given!r} of which {better} is better; there are"
            f" {', '.join(dict.fromkeys(legal))}"
        )
    return given or legal[0]


def _beats(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether a point is at least as good in both, and better in one."""
    if None in (values := [point[axis]["value"] for point in (one, other) for axis in AXES]):
        return False
    skew, use, other_skew, other_use = values
    return skew <= other_skew and use >= other_use and (skew < other_skew or use > other_use)
