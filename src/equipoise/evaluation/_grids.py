"""``Grid``: runs of one task, dataset, encoder and protocol as one table, and its cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from equipoise.errors import InputError
from equipoise.evaluation import _small_cells as small_cells
from equipoise.evaluation._run_document import (
    EvaluationRun,
    FittedOn,
    MetricRow,
    PublishedCell,
)
from equipoise.methods._specs import BASELINE
from equipoise.metrics._intervals import HasInterval
from equipoise.metrics._probe import METRIC as PROBE

Rows = dict[tuple[str, str], MetricRow]  # by method and metric
NOTE = (
    "Values in percent with {level} intervals (bootstrap over {over}, {resamples} resamples, n ="
    " {n}); in the second line, the paired difference from {baseline}. Bold is the best of all rows"
    " where it differs from {baseline} beyond chance. {more}Perceived or"
    " linguistic attributes, not identity; lower skew is not the same as fair."
)
READ = (
    f"{PROBE}: how well a linear classifier that learned from labels tells the groups of {{n}}"
    " images apart; 50 is not at all. "
)


@dataclass(frozen=True)
class Grid:
    """One table: methods down, metrics across.

    rows: (method, metric) -> the row of a run. marks: (method, metric) -> "best" or "second".
    """

    title: str
    note: str
    methods: tuple[str, ...]
    metrics: tuple[str, ...]
    rows: Rows
    marks: dict[tuple[str, str], str]

    @property
    def has_floor(self) -> str:
        """Return the metric that has floors, or ""."""
        for (_, metric), row in self.rows.items():
            if row.floor is not None:
                return metric
        return ""


def grids(runs: Sequence[EvaluationRun]) -> list[Grid]:
    """Return a table for each set of runs that can be compared.

    Those are runs of the same task, images, encoder, protocol, prompts and settings.
    """
    if not runs:
        raise InputError("there is no run to make a table of")
    together: dict[tuple, list[EvaluationRun]] = {}
    for run in runs:
        settings = str(run.settings)
        key = (*_subject(run), run.dataset.sha256, run.prompts, settings)
        together.setdefault(key, []).append(run)
    return [_grid(part) for part in together.values()]


def _subject(run: EvaluationRun) -> tuple:
    encoder = run.model or run.encoder.id or "stored embeddings"
    return (run.dataset.name, run.attribute.name, run.task, encoder, run.protocol.name)


def _grid(runs: list[EvaluationRun]) -> Grid:
    """Return the table of runs that can be compared."""
    rows: Rows = {}
    for run in runs:
        for row in run.rows:
            rows.setdefault((row.method, row.metric), row)
    methods = tuple(dict.fromkeys(method for method, _ in rows))
    metrics = tuple(dict.fromkeys(metric for _, metric in rows))
    dataset, attribute, task, encoder, protocol = _subject(runs[0])
    title = f"{task.capitalize()} on {dataset} by {attribute}, {encoder}, protocol {protocol}"
    return Grid(title, _note(runs, rows), methods, metrics, rows, _marks(rows, methods, metrics))


def _note(runs: list[EvaluationRun], rows: Rows) -> str:
    """Return what stands below a table."""
    first = runs[0].rows[0]
    baselines = [row.difference.baseline for row in rows.values() if row.difference]
    baseline = baselines[0] if baselines else BASELINE
    probes = [row for row in rows.values() if row.metric == PROBE]
    probed = READ.format(n=f"{probes[0].n:,}") if probes else ""
    return NOTE.format(
        level=f"{100 * first.level:g}%",
        over=first.over,
        resamples=f"{first.resamples:,}",
        n=f"{first.n:,}",
        baseline=baseline,
        more=probed + _small(rows) + _as_released(runs[0]) + _fitted(runs),
    )


def _as_released(run: EvaluationRun) -> str:
    """Return what the released code does that ours does not, where a run does so too."""
    if not run.protocol.to_the_letter:
        return ""
    if run.task == "retrieval":
        return "As released: images of an unknown group count as a group of their own. "
    return (
        "As released: FACET's prompts always say a and keep underscores, and a class that is"
        " neither true nor predicted anywhere scores 0 in macro F1. "
    )


def _small(rows: Rows) -> str:
    """Return a sentence on the cells that have too few images, where there are some."""
    named = dict.fromkeys(cell for row in rows.values() for cell in row.small or ())
    if not named:
        return ""
    return f"{small_cells.NOTE}{'; '.join(named)}. "


def _fitted(runs: list[EvaluationRun]) -> str:
    """Return a sentence for each set of images that methods were fitted on."""
    where: dict[str, list[str]] = {}
    for run in runs:
        for method, about in run.methods.items():
            if about.fitted_on is not None:
                where.setdefault(_described(about.fitted_on), []).append(method)
    sentences = []
    for images, methods in where.items():
        names = ", ".join(dict.fromkeys(methods))
        sentences.append(f"Fitted on {images}: {names}. ")
    return "".join(sentences)


def _described(fitted_on: FittedOn) -> str:
    if fitted_on.measured:
        return "the measured images, without their labels"
    return f"{fitted_on.images:,} images of {fitted_on.name} that are not measured"


def _marks(
    rows: Rows, methods: Sequence[str], metrics: Sequence[str]
) -> dict[tuple[str, str], str]:
    """Return which values of each metric are the best and the second of all rows.

    A value is marked only where it differs from the baseline's beyond chance; the baseline's own,
    where all others do. There are none for the probe.
    """
    marks: dict[tuple[str, str], str] = {}
    for metric in metrics:
        if metric != PROBE:
            for method, mark in _marks_of(rows, methods, metric).items():
                marks[method, metric] = mark
    return marks


def _marks_of(rows: Rows, methods: Sequence[str], metric: str) -> dict[str, str]:
    """Return "best" and "second" by method; values that print alike share a mark."""
    rivals = _lower_is_better(rows, methods, metric)
    if len(rivals) < 2:
        return {}
    differing = [name for name in rivals if _differs(rows[name, metric])]
    sure = set(differing)
    if len(differing) == len(rivals) - 1:
        sure.add(BASELINE)
    places = dict(zip(sorted(set(rivals.values())), ("best", "second"), strict=False))
    marks = {}
    for name, value in rivals.items():
        if name in sure and value in places:
            marks[name] = places[value]
    return marks


def _lower_is_better(rows: Rows, methods: Sequence[str], metric: str) -> dict[str, float]:
    """Return the values of a metric as they print, by method, turned so that the least is best."""
    values: dict[str, float] = {}
    for method in methods:
        row = rows.get((method, metric))
        if row is not None and row.value is not None:
            sign = -1 if row.better == "higher" else 1
            values[method] = sign * round(row.value, 3)
    return values


def _differs(row: MetricRow) -> bool:
    """Return whether the paired difference from the baseline is beyond chance."""
    gap = row.difference
    if gap is None or gap.low is None or gap.high is None:
        return False
    return gap.low > 0 or gap.high < 0


def percent(value: float | None, signed: bool = False) -> str:
    """Return a share in percent with one decimal; a dash where there is no value.

    What rounds to zero has no sign.
    """
    if value is None:
        return "–"
    sign = "+" if signed else ""
    written = f"{100 * value:{sign}.1f}"
    return written if float(written) else "0.0"


def interval(found: HasInterval, signed: bool = False) -> str:
    """Return "value [low, high]" in percent, with a mark where too few images stand behind it."""
    low, high = percent(found.low, signed), percent(found.high, signed)
    mark = small_cells.MARK if getattr(found, "small", None) else ""
    return f"{percent(found.value, signed)}{mark} [{low}, {high}]"


def printed(cell: PublishedCell) -> str:
    """Return the paper's own value, with a mark where it cannot be right."""
    shown = percent(cell.value)
    if cell.spread is not None:
        shown += f" ±{percent(cell.spread)}"
    if cell.problem:
        shown += " (!)"
    return shown


def lines(grid: Grid) -> tuple[list[str], list[list[str]]]:
    """Return header and rows of strings, for the terminal and Markdown.

    A cell is the value with the paired difference below it. Floors stand in columns of their own,
    the paper's figures in a row of their own.
    """
    header = ["method"]
    for metric in grid.metrics:
        header.append(metric)
        if metric == grid.has_floor:
            header += ["floor, exact", "floor, permuted labels"]
    body = []
    for method in grid.methods:
        row, paper = [method], ["  as published"]
        for metric in grid.metrics:
            found = grid.rows.get((method, metric))
            mark = grid.marks.get((method, metric), "")
            row += _cells(found, mark, metric == grid.has_floor)
            paper += _published_cells(found, metric == grid.has_floor)
        body.append(row)
        if any(paper[1:]):
            body.append(paper)
    return header, body


def _cells(row: MetricRow | None, mark: str, with_floors: bool) -> list[str]:
    """Return the cells of a metric: its value, and its floors where it has some."""
    cells = [_cell(row, mark)]
    if with_floors:
        cells += _floor_cells(row)
    return cells


def _floor_cells(row: MetricRow | None) -> list[str]:
    """Return both floors of a skew; empty cells where it has none."""
    if row is None or row.permuted is None:
        return ["", ""]
    return [percent(row.floor), interval(row.permuted)]


def _published_cells(row: MetricRow | None, with_floors: bool) -> list[str]:
    cell = row.published if row else None
    cells = [printed(cell) if cell else ""]
    if with_floors:
        cells += ["", ""]
    return cells


def _cell(row: MetricRow | None, mark: str) -> str:
    if row is None:
        return ""
    value = interval(row)
    shown = {"best": f"**{value}**", "second": f"_{value}_", "": value}[mark]
    if row.difference is not None:
        shown += f"\n{interval(row.difference, signed=True)}"
    return shown
