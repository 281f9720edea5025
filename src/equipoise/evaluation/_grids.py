"""``Grid``: runs of one task, dataset, encoder and protocol as one table, methods down and metrics
across, and its cells as strings.
"""

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
    """One table: methods down, metrics across; rows (method, metric) as runs have them.

    marks: "best" and "second" among the methods.
    """

    title: str
    note: str
    methods: tuple[str, ...]
    metrics: tuple[str, ...]
    rows: dict[tuple[str, str], dict[str, Any]]
    marks: dict[tuple[str, str], str]

    @property
    def has_floor(self) -> str:
        """The metric that has floors, or ""."""
        return next(
            (metric for method, metric in self.rows if "floor" in self.rows[method, metric]), ""
        )


def grids(runs: Sequence[Run]) -> list[Grid]:
    """Runs of the same task, images, encoder, protocol, prompts and settings in one table."""
    if not runs:
        raise InputError("there is no run to make a table of")
    together: dict[tuple, list[Run]] = {}
    for run in runs:
        together.setdefault(
            (*_subject(run), run["dataset"]["sha256"], run["prompts"], str(run["settings"])), []
        ).append(run)
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
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for run in runs:
        for row in run["rows"]:
            rows.setdefault((row["method"], row["metric"]), row)
    methods, metrics = (tuple(dict.fromkeys(key[i] for key in rows)) for i in (0, 1))
    dataset, attribute, task, encoder, protocol = _subject(runs[0])
    first = runs[0]["rows"][0]
    baseline = next(
        (row["difference"]["from"] for row in rows.values() if "difference" in row), BASELINE
    )
    numbers = {
        "level": f"{100 * first['level']:g}%",
        "resamples": f"{first['resamples']:,}",
        "n": f"{first['n']:,}",
    }
    probed = next(
        (READ.format(n=f"{row['n']:,}") for row in rows.values() if row["metric"] == PROBE), ""
    )
    note = NOTE.format(
        baseline=baseline, over=first["over"], more=probed + _fitted(runs), **numbers
    )
    title = f"{task.capitalize()} on {dataset} by {attribute}, {encoder}, protocol {protocol}"
    return Grid(title, note, methods, metrics, rows, _marks(rows, methods, metrics))


def _fitted(runs: list[Run]) -> str:
    """Which methods were fitted on which images, a sentence for each set of images."""
    where: dict[str, list[str]] = {}
    for run in runs:
        for method, about in run["methods"].items():
            if images := about.get("fitted_on"):
                which = (
                    "the measured images, without their labels"
                    if images["measured"]
                    else f"{images['images']:,} images of {images['name']}"
                )
                where.setdefault(
                    which if images["measured"] else f"{which} that are not measured", []
                ).append(method)
    return "".join(
        f"Fitted on {which}: {', '.join(dict.fromkeys(methods))}. "
        for which, methods in where.items()
    )


def _marks(
    rows: dict, methods: Sequence[str], metrics: Sequence[str]
) -> dict[tuple[str, str], str]:
    """The best two values of each metric among the debiasing methods; none where there is one
    method only, nor for the probe.
    """
    marks: dict[tuple[str, str], str] = {}
    for metric in (metric for metric in metrics if metric != PROBE):
        rivals = [
            m
            for m in methods
            if m != BASELINE and (m, metric) in rows and rows[m, metric]["value"] is not None
        ]
        if len(rivals) < 2:
            continue
        sign = -1 if rows[rivals[0], metric]["better"] == "higher" else 1
        values = sorted({sign * round(rows[m, metric]["value"], 3) for m in rivals})
        for method in rivals:
            place = values.index(sign * round(rows[method, metric]["value"], 3))
            if place < 2:
                marks[method, metric] = ("best", "second")[place]
    return marks


def percent(value: float | None, signed: bool = False) -> str:
    """100 x, with one decimal; a dash where there is no value."""
    return "–" if value is None else f"{100 * value:{'+' if signed else ''}.1f}"


def interval(record: dict[str, Any], signed: bool = False) -> str:
    """value [low, high]."""
    ends = ", ".join(percent(record[end], signed) for end in ("low", "high"))
    return f"{percent(record['value'], signed)} [{ends}]"


def printed(record: dict[str, Any]) -> str:
    """The paper's own value, with a mark where it cannot be right."""
    spread = "" if record["spread"] is None else f" ±{percent(record['spread'])}"
    return f"{percent(record['value'])}{spread}{' (!)' if record['problem'] else ''}"


def lines(grid: Grid) -> tuple[list[str], list[list[str]]]:
    """Header and rows of strings, for the terminal and Markdown: value, paired difference below it,
    floors, and the paper's row.
    """
    header = ["method"]
    for metric in grid.metrics:
        header += (
            [metric]
            if metric != grid.has_floor
            else [metric, "floor, exact", "floor, permuted labels"]
        )
    body = []
    for method in grid.methods:
        row, paper = [method], ["  as published"]
        for metric in grid.metrics:
            record = grid.rows.get((method, metric))
            row.append(_cell(record, grid.marks.get((method, metric), "")))
            paper.append(printed(record["published"]) if record and "published" in record else "")
            if metric == grid.has_floor:
                row += (
                    [percent(record["floor"]), interval(record["permuted"])] if record else ["", ""]
                )
                paper += ["", ""]
        body += [row] + ([paper] if any(paper[1:]) else [])
    return header, body


def _cell(record: dict[str, Any] | None, mark: str) -> str:
    if record is None:
        return ""
    value = interval(record)
    value = {"best": f"**{value}**", "second": f"_{value}_", "": value}[mark]
    return value + (
        f"\n{interval(record['difference'], signed=True)}" if "difference" in record else ""
    )
