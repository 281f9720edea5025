"""``Grid``: runs of one task, dataset, encoder and protocol as one table, and its cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from equipoise.errors import InputError
from equipoise.methods._specs import BASELINE
from equipoise.metrics._probe import METRIC as PROBE

Run = dict[str, Any]
NOTE = (
    "Values in percent with {level} intervals (bootstrap over {over}, {resamples} resamples, n ="
    " {n}); in the second line, the paired difference from {baseline}. {more}Perceived or"
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
    rows: dict[tuple[str, str], dict[str, Any]]
    marks: dict[tuple[str, str], str]

    @property
    def has_floor(self) -> str:
        """Return the metric that has floors, or ""."""
        for (_, metric), row in self.rows.items():
            if "floor" in row:
                return metric
        return ""


def grids(runs: Sequence[Run]) -> list[Grid]:
    """Return a table for each set of runs that can be compared.

    Those are runs of the same task, images, encoder, protocol, prompts and settings.
    """
    if not runs:
        raise InputError("there is no run to make a table of")
    together: dict[tuple, list[Run]] = {}
    for run in runs:
        settings = str(run["settings"])
        key = (*_subject(run), run["dataset"]["sha256"], run["prompts"], settings)
        together.setdefault(key, []).append(run)
    return [_grid(part) for part in together.values()]


def _subject(run: Run) -> tuple:
    encoder = run["model"] or run["encoder"]["id"] or "stored embeddings"
    return (
        run["dataset"]["name"],
        run["attribute"]["name"],
        run["task"],
        encoder,
        run["protocol"]["name"],
    )


def _grid(runs: list[Run]) -> Grid:
    """Return the table of runs that can be compared."""
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for run in runs:
        for row in run["rows"]:
            rows.setdefault((row["method"], row["metric"]), row)
    methods = tuple(dict.fromkeys(method for method, _ in rows))
    metrics = tuple(dict.fromkeys(metric for _, metric in rows))
    dataset, attribute, task, encoder, protocol = _subject(runs[0])
    title = f"{task.capitalize()} on {dataset} by {attribute}, {encoder}, protocol {protocol}"
    return Grid(title, _note(runs, rows), methods, metrics, rows, _marks(rows, methods, metrics))


def _note(runs: list[Run], rows: dict[tuple[str, str], dict[str, Any]]) -> str:
    """Return what stands below a table."""
    first = runs[0]["rows"][0]
    baselines = [row["difference"]["from"] for row in rows.values() if "difference" in row]
    baseline = baselines[0] if baselines else BASELINE
    probes = [row for row in rows.values() if row["metric"] == PROBE]
    probed = READ.format(n=f"{probes[0]['n']:,}") if probes else ""
    return NOTE.format(
        level=f"{100 * first['level']:g}%",
        over=first["over"],
        resamples=f"{first['resamples']:,}",
        n=f"{first['n']:,}",
        baseline=baseline,
        more=probed + _fitted(runs),
    )


def _fitted(runs: list[Run]) -> str:
    """Return a sentence for each set of images that methods were fitted on."""
    where: dict[str, list[str]] = {}
    for run in runs:
        for method, about in run["methods"].items():
            images = about.get("fitted_on")
            if images:
                where.setdefault(_described(images), []).append(method)
    sentences = []
    for images, methods in where.items():
        names = ", ".join(dict.fromkeys(methods))
        sentences.append(f"Fitted on {images}: {names}. ")
    return "".join(sentences)


def _described(images: dict[str, Any]) -> str:
    if images["measured"]:
        return "the measured images, without their labels"
    return f"{images['images']:,} images of {images['name']} that are not measured"


def _marks(
    rows: dict, methods: Sequence[str], metrics: Sequence[str]
) -> dict[tuple[str, str], str]:
    """Return which values of each metric are the best and the second among debiasing methods.

    There are none where there is one method only, nor for the probe.
    """
    marks: dict[tuple[str, str], str] = {}
    for metric in metrics:
        if metric != PROBE:
            for method, mark in _marks_of(rows, methods, metric).items():
                marks[method, metric] = mark
    return marks


def _marks_of(rows: dict, methods: Sequence[str], metric: str) -> dict[str, str]:
    """Return "best" and "second" by method; values that print alike share a mark."""
    rivals: dict[str, float] = {}
    for method in methods:
        row = rows.get((method, metric))
        if method != BASELINE and row is not None and row["value"] is not None:
            sign = -1 if row["better"] == "higher" else 1
            rivals[method] = sign * round(row["value"], 3)
    if len(rivals) < 2:
        return {}
    best, *others = sorted(set(rivals.values()))
    marks = {}
    for method, value in rivals.items():
        if value == best:
            marks[method] = "best"
        elif value == others[0]:
            marks[method] = "second"
    return marks


def percent(value: float | None, signed: bool = False) -> str:
    """Return a share in percent with one decimal; a dash where there is no value."""
    if value is None:
        return "–"
    sign = "+" if signed else ""
    return f"{100 * value:{sign}.1f}"


def interval(record: dict[str, Any], signed: bool = False) -> str:
    """Return "value [low, high]" in percent."""
    ends = ", ".join(percent(record[end], signed) for end in ("low", "high"))
    return f"{percent(record['value'], signed)} [{ends}]"


def printed(record: dict[str, Any]) -> str:
    """Return the paper's own value, with a mark where it cannot be right."""
    shown = percent(record["value"])
    if record["spread"] is not None:
        shown += f" ±{percent(record['spread'])}"
    if record["problem"]:
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
            record = grid.rows.get((method, metric), {})
            mark = grid.marks.get((method, metric), "")
            row += _cells(record, mark, metric == grid.has_floor)
            paper += _published_cells(record, metric == grid.has_floor)
        body.append(row)
        if any(paper[1:]):
            body.append(paper)
    return header, body


def _cells(record: dict[str, Any], mark: str, with_floors: bool) -> list[str]:
    """Return the cells of a metric: its value, and its floors where it has some."""
    cells = [_cell(record, mark)]
    if with_floors and record:
        cells += [percent(record["floor"]), interval(record["permuted"])]
    elif with_floors:
        cells += ["", ""]
    return cells


def _published_cells(record: dict[str, Any], with_floors: bool) -> list[str]:
    cells = [printed(record["published"]) if "published" in record else ""]
    if with_floors:
        cells += ["", ""]
    return cells


def _cell(record: dict[str, Any], mark: str) -> str:
    if not record:
        return ""
    value = interval(record)
    shown = {"best": f"**{value}**", "second": f"_{value}_", "": value}[mark]
    if "difference" in record:
        shown += f"\n{interval(record['difference'], signed=True)}"
    return shown
