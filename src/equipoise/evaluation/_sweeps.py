"""Sweeps: methods at every value of their strength, as points of fairness against utility."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from equipoise import methods
from equipoise.errors import EquipoiseError, InputError
from equipoise.evaluation._comparison import Progress, compare, grid
from equipoise.evaluation._evaluation import Evaluation
from equipoise.evaluation._grids import grids
from equipoise.evaluation._queries import Queries
from equipoise.evaluation._run_document import Better, EvaluationRun, MetricRow, RunFacts
from equipoise.evaluation._run_file import versions
from equipoise.evaluation._sweep_document import (
    FORMAT,
    KIND,
    LeftOut,
    PointValue,
    SweepAxis,
    SweepPoint,
    SweepResults,
)
from equipoise.methods._specs import BASELINE, MethodSpec
from equipoise.metrics._probe import METRIC as PROBE


def sweep_grid(
    preset: str | None,
    given: Sequence[str],
    books: Sequence[str],
    task: str,
    labelled: bool = False,
) -> list[MethodSpec]:
    """Return the methods of ``grid``, each at the values of its strength.

    A value that was typed stands; a method without a strength is one point. Without preset and
    method: all methods that have a strength and can be fitted for this task.
    """
    if not given and not preset:
        given = [name for name in methods.names() if _sweepable(name, task, labelled)]
    specs: list[MethodSpec] = []
    for spec in grid(preset, given, books, task, labelled):
        for point in _along(spec):
            if point not in specs:
                specs.append(point)
    return specs


def _sweepable(name: str, task: str, labelled: bool) -> bool:
    """Return whether a method has a strength and can be fitted for the task."""
    method = methods.find(name)
    if method.sweep is None:
        return False
    if MethodSpec(name).needs_labels and not labelled:
        return False
    return not (task == "retrieval" and "class_prompts" in method.needs)


def _along(spec: MethodSpec) -> list[MethodSpec]:
    """Return a method at each value of its strength."""
    strength = None if spec.is_file else methods.find(spec.name).sweep
    if strength is None or strength.param in spec.params:
        return [spec]
    # ``none`` is a point already
    start = () if strength.becomes == BASELINE else (strength.neutral,)
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
) -> tuple[SweepResults, list[EvaluationRun]]:
    """Return the results of a sweep, and the run of each point.

    The runs are kept in ``folder``, as ``compare`` leaves them. fairness, utility: metrics; by
    default the first that should be low, and the first that should be high. What cannot be fitted
    at some value is left out, with the reason.
    """
    if isinstance(evaluation.asked, Queries) and evaluation.asked.targets is None:
        raise InputError(
            "queries of your own have no right image, so retrieval has no utility to draw; sweep"
            " with captions (`caption_column`), or sweep `task` classification"
        )
    evaluation.check(specs)
    found: list[tuple[MethodSpec, EvaluationRun]] = []
    left_out, axes = [], ("", "")
    for done, spec in enumerate(specs, 1):
        try:
            found.append((spec, compare(evaluation, [spec], folder)[0][0]))
        except EquipoiseError as error:
            if spec.name == BASELINE:
                raise
            left_out.append(LeftOut(label=spec.label, reason=str(error)))
        if spec.name == BASELINE:
            # ``none`` is the first, so that a wrong name of a metric ends the sweep here
            first = found[0][1]
            axes = _metric(first, "lower", fairness), _metric(first, "higher", utility)
        if progress is not None:
            progress(done, len(specs), spec.label)
    return sweep_results(found, *axes, left_out), [run for _, run in found]


def sweep_results(
    runs: Sequence[tuple[MethodSpec, EvaluationRun]],
    fairness: str,
    utility: str,
    left_out: Sequence[LeftOut] = (),
) -> SweepResults:
    """Return what a page and a table need, from the runs of a sweep alone."""
    first = runs[0][1]
    [table] = grids([_with_metrics(run, (fairness, utility)) for _, run in runs])
    rows = {row.metric: row for row in first.rows}
    return SweepResults(
        kind=KIND,
        format=FORMAT,
        versions=versions(),
        **{name: getattr(first, name) for name in RunFacts.model_fields},
        counts=first.counts,
        title=table.title,
        note=table.note,
        fairness=_axis(rows[fairness]),
        utility=_axis(rows[utility]),
        points=_with_front([_point(spec, run, fairness, utility) for spec, run in runs]),
        left_out=list(left_out),
    )


def _with_metrics(run: EvaluationRun, metrics: tuple[str, ...]) -> EvaluationRun:
    """Return a run with the rows of these metrics only."""
    rows = [row for row in run.rows if row.metric in metrics]
    return run.model_copy(update={"rows": rows})


def _axis(row: MetricRow) -> SweepAxis:
    return SweepAxis(metric=row.metric, better=row.better, n=row.n, floor=row.floor)


def _point(spec: MethodSpec, run: EvaluationRun, fairness: str, utility: str) -> SweepPoint:
    """Return a point: a method at one value of its strength, and where it lies."""
    param, value, default = None, None, None
    strength = None if spec.is_file else methods.find(spec.name).sweep
    if strength is not None:
        param = strength.param
        default = methods.defaults(spec.name).get(param)
        value = spec.params.get(param, default)
    others = {key: given for key, given in spec.params.items() if key != param}
    rows = {row.metric: row for row in run.rows if row.method == spec.label}
    return SweepPoint(
        series=MethodSpec(spec.name, others, spec.book).label,
        label=spec.label,
        param=param,
        value=value,
        default=param is not None and value == default,
        fairness=_point_value(rows.get(fairness)),
        utility=_point_value(rows.get(utility)),
        front=False,
    )


def _point_value(row: MetricRow | None) -> PointValue:
    if row is None:  # a method with one space per prompt has no probe
        return PointValue(value=None, low=None, high=None, difference=None)
    return PointValue(value=row.value, low=row.low, high=row.high, difference=row.difference)


def _with_front(points: list[SweepPoint]) -> list[SweepPoint]:
    """Return the points, each with whether it is measured and no other beats it."""
    marked = []
    for point in points:
        front = point.measured and not any(_beats(other, point) for other in points)
        marked.append(point.model_copy(update={"front": front}))
    return marked


def _metric(run: EvaluationRun, better: Better, given: str | None) -> str:
    """Return the metric that was named, or the first of those where ``better`` is better."""
    legal = []
    for row in run.rows:
        is_default = row.metric != PROBE
        if row.better == better and (is_default or given == PROBE):
            legal.append(row.metric)
    if given is not None and given not in legal:
        raise InputError(
            f"there is no metric {given!r} of which {better} is better; there are"
            f" {', '.join(dict.fromkeys(legal))}"
        )
    return given or legal[0]


def _beats(one: SweepPoint, other: SweepPoint) -> bool:
    """Return whether a point is at least as good in both, and better in one."""
    skew, use = one.fairness.value, one.utility.value
    other_skew, other_use = other.fairness.value, other.utility.value
    if skew is None or use is None or other_skew is None or other_use is None:
        return False
    as_good = skew <= other_skew and use >= other_use
    return as_good and (skew < other_skew or use > other_use)
