"""Every method on every set: writes docs/leaderboard.md from docs/measurements/leaderboard/*.json.

Run from the repository root: ``python -m scripts.leaderboard [--data FOLDER] [--sets NAME ...]
[--methods NAME ...] [--resamples N]``. Each method on each set is one file, written when it is
done; a run that was stopped goes on where it was, and one that is done measures nothing. Methods
that are registered get a row by themselves; sets are in scripts/leaderboard_sets.py.
``--page`` writes the page alone.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scripts.critical_difference import Ranking, diagram, ranked
from scripts.leaderboard_sets import SETS, Set
from scripts.measured_runs import write_plain

import equipoise as eq
from equipoise._bench import machine
from equipoise.errors import EquipoiseError
from equipoise.evaluation import Evaluation, Settings, parse
from equipoise.evaluation._comparison import _slug as slug
from equipoise.methods._describe import describe_methods
from equipoise.methods._specs import BASELINE, MethodSpec, serve
from equipoise.metrics import Bootstrap
from equipoise.metrics._probe import METRIC as PROBE

FILES = Path("docs/measurements/leaderboard")
PAGE = Path("docs/leaderboard.md")
# Beside the defaults: settings that a reader would ask for, chosen before measuring.
VARIANTS = {
    "closed-form": ["closed-form", "closed-form:kappa=inf"],
    "adapted": ["adapted", "adapted:kappa=inf"],
    "orth-proj": ["orth-proj", "orth-proj:span=texts"],
    "roboshot": ["roboshot:tolerance=0.1"],
    "sfid": ["sfid:tau=0.9,modality=image"],
    "leace": ["leace", "leace:variant=orth"],
    "spd": ["spd:modality=image,tau=0.9"],
    "rlace": ["rlace:rounds=50"],  # each round is an eigenproblem as wide as the embeddings
    "joint-vl": ["joint-vl:queue=1024,epochs=25,lr=0.0001"],
}
ROUNDS = 3  # the fastest counts
CLOCK = "processor"  # its time changes little where other work runs on the machine
TASKS = {"retrieval": "To search by text", "classification": "To classify without training"}


def specs(chosen: Iterable[str]) -> list[MethodSpec]:
    """``none``, and every method that was asked for, in its variants."""
    typed = [text for name in chosen for text in VARIANTS.get(name, [name])]
    return [MethodSpec(BASELINE), *(spec for spec in parse(typed) if spec.name != BASELINE)]


# --- Measuring ---------------------------------------------------------------------------------


def measure(data: Path, chosen: Iterable[Set], methods: list[str], settings: Settings) -> None:
    """Every cell that has no file yet."""
    FILES.mkdir(parents=True, exist_ok=True)
    for one in chosen:
        evaluation = one.build(data, settings)
        warm = False
        for spec in specs(methods):
            path = FILES / f"{one.name}--{slug(spec.label)}.json"
            key = evaluation.key(spec)
            if _measured(path, key):
                continue
            if not warm:
                _warm(evaluation)
                warm = True
            print(f"{one.name}: {spec.label}", flush=True)
            cell = {"key": key, "set": one.name, "method": spec.label}
            write_plain(path, cell | _cell(one, data, evaluation, spec))


def _measured(path: Path, key: str) -> bool:
    """Whether a cell is there; one that was timed by the clock on the wall is measured again."""
    if not path.is_file():
        return False
    cell = json.loads(path.read_text())
    return cell["key"] == key and ("refused" in cell or cell.get("clock") == CLOCK)


def _warm(evaluation: Evaluation) -> None:
    """Encode what several methods share, so that the first of them is not charged for it."""
    for images in (evaluation.measured, evaluation.fitting):
        if images is not None:
            _ = images.images
    with suppress(EquipoiseError):
        evaluation._fit(parse(["closed-form"]))


def _cell(one: Set, data: Path, evaluation: Evaluation, spec: MethodSpec) -> dict[str, Any]:
    """What is measured of one method on one set, or why it cannot be."""
    try:
        evaluation.check([spec])
        start = time.process_time()
        operators = evaluation._fit([MethodSpec(BASELINE), spec])
        fit_seconds = time.process_time() - start
    except EquipoiseError as error:
        return {"refused": str(error).replace(f"{data}/", "")}
    measured, counts = evaluation._measure(operators)
    operator = operators[spec.label]
    values = {metric: measured.bootstrap.values[spec.label, metric] for metric in measured.better}
    replicates = {
        metric: measured.bootstrap.replicates[spec.label, metric] for metric in measured.better
    }
    better = dict(measured.better)
    if one.found is not None:
        precision = _precision(one, data, evaluation, operator)
        values["mAP"], replicates["mAP"] = precision
        better["mAP"] = "higher"
    rows = []
    if evaluation.settings.probe:
        settings = evaluation.settings
        rows = evaluation.probe.measure(operators, BASELINE, settings.level, settings.interval)
    return {
        "task": evaluation.task,
        "values": values,
        "replicates": {metric: np.round(found, 6).tolist() for metric, found in replicates.items()},
        "better": better,
        "floors": dict(measured.floors),
        "probe": next((row.to_plain() for row in rows if row.method == spec.label), None),
        "n": measured.bootstrap.n,
        "left_out": measured.bootstrap.left_out,
        "counts": counts.to_plain(),
        "clock": CLOCK,
        "fit_seconds": fit_seconds,
        "query_microseconds": _microseconds(evaluation, operator),
        "machine": machine.describe(),
    }


def _microseconds(evaluation: Evaluation, operator: Any) -> float:
    """What a method adds to one query: its text, and its page where images are placed.

    It is processor time, which other work on the machine changes little.
    """
    texts, prompts = evaluation.texts, evaluation.asked.prompts
    rows = np.asarray(evaluation.measured.images[0])
    if evaluation.task == "retrieval":
        serve(operator, rows)
    gate = {"gate": False} if operator.gates_by_default else {}
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.process_time()
        if operator.per_prompt and evaluation.task == "retrieval":
            operator.scores(rows, texts, prompts, **gate)
        else:
            operator.text(texts, prompts, **gate)
        best = min(best, time.process_time() - start)
    return 1e6 * best / len(texts)


def _precision(
    one: Set, data: Path, evaluation: Evaluation, operator: Any
) -> tuple[float, np.ndarray]:
    """The mean average precision of queries whose right images are known, and its replicates.

    The resamples are of images, drawn as counts.
    """
    rows, there = evaluation.measured.images
    paths = [path for path, kept in zip(evaluation.measured.paths, there, strict=True) if kept]
    wanted = one.found(data, paths) if one.found else {}
    texts = np.asarray(evaluation.encoder.encode_text(list(wanted)))
    serve(operator, rows)
    gate = {"gate": False} if operator.gates_by_default else {}
    scores = np.asarray(operator.scores(np.asarray(rows), texts, list(wanted), **gate))
    settings = evaluation.settings
    rng = np.random.default_rng(settings.seed)
    even = np.full(len(paths), 1 / len(paths))
    drawn = rng.multinomial(len(paths), even, settings.resamples)
    weights = np.vstack([np.ones(len(paths)), drawn])
    found = []
    for right, column in zip(wanted.values(), scores.T, strict=True):
        found.append(average_precisions(right, column, weights))
    means = np.mean(found, axis=0)
    return float(means[0]), means[1:]


def average_precisions(right: np.ndarray, scores: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The average precision (m,) of one query under each row of weights (m, n).

    Images of equal score are found together.
    """
    order = np.argsort(-scores, kind="stable")
    ranked = scores[order]
    last = np.append(ranked[1:] != ranked[:-1], True)
    counted = weights[:, order]
    seen = np.cumsum(counted, axis=1)[:, last]
    found = np.cumsum(counted * right[order], axis=1)[:, last]
    gained = np.diff(found, axis=1, prepend=0)
    precision = found / np.maximum(seen, 1)
    return (precision * gained).sum(1) / found[:, -1]


# --- The page ----------------------------------------------------------------------------------


class Board(NamedTuple):
    """What was measured on one set: its cells by method, all on the same resamples."""

    one: Set
    cells: dict[str, dict[str, Any]]
    refused: dict[str, str]
    bootstrap: Bootstrap

    @property
    def first(self) -> dict[str, Any]:
        return self.cells[BASELINE]

    @property
    def fairness(self) -> str:
        """The metric that ranks: skew in retrieval, the mean gap in classification."""
        names = list(self.first["better"])
        return next(name for name in names if name.startswith(("MS@", "EO_avg")))

    @property
    def utility(self) -> str | None:
        """The metric that says how well the task is done, where one was measured."""
        names = list(self.first["better"])
        recalls = sorted((name for name in names if name.startswith("R@")), key=_places)
        told = [name for name in ("mAP", "macro F1", "F1") if name in names]
        return next(iter([*told, *reversed(recalls)]), None)

    def kept(self, method: str) -> float | None:
        """How much better a method does the task than ``none``, in points."""
        if self.utility is None:
            return None
        return 100 * self.bootstrap.difference(method, BASELINE, self.utility).value


def _places(recall: str) -> int:
    return int(recall.removeprefix("R@"))


def boards() -> tuple[list[Board], list[Set]]:
    """Every set that has been measured whole, and those that have not."""
    known = {spec.label for spec in specs(eq.methods.names())}
    cells = {one.name: _cells(one, known) for one in SETS}
    every = set().union(*(set(found) for found in cells.values()))
    whole, left = [], []
    for one in SETS:
        if every and set(cells[one.name]) == every:
            whole.append(_board(one, cells[one.name]))
        else:
            left.append(one)
    return whole, left


def _cells(one: Set, known: set[str]) -> dict[str, dict[str, Any]]:
    """What was measured on one set, by method; files of variants that are gone are left out."""
    read = [json.loads(path.read_text()) for path in sorted(FILES.glob(f"{one.name}--*.json"))]
    return {cell["method"]: cell for cell in read if cell["method"] in known}


def _board(one: Set, found: dict[str, dict[str, Any]]) -> Board:
    cells, refused = {}, {}
    for method, cell in found.items():
        if "refused" in cell:
            refused[method] = cell["refused"]
        else:
            cells[method] = cell
    return Board(one, cells, refused, _bootstrap(cells))


def _bootstrap(cells: dict[str, dict[str, Any]]) -> Bootstrap:
    """The cells together, for paired differences of any two methods."""
    values, replicates = {}, {}
    for method, cell in cells.items():
        for metric, value in cell["values"].items():
            values[method, metric] = np.nan if value is None else value
            replicates[method, metric] = np.array(cell["replicates"][metric], float)
    first = cells[BASELINE]
    return Bootstrap(values, replicates, lambda key: [], "images", first["n"], first["left_out"])


def ranks(board: Board) -> dict[str, tuple[int, int, int]]:
    """The rank of each debiasing method by fairness, and the best and worst rank it could have.

    A method could have the rank of another where the interval of their paired difference holds 0.
    """
    methods = [method for method in board.cells if method != BASELINE]
    metric = board.fairness
    places = {}
    for method in methods:
        rank, better, worse = 1, 0, 0
        for other in methods:
            if other == method:
                continue
            gap = board.bootstrap.difference(method, other, metric)
            rank += gap.value > 0
            better += gap.low > 0
            worse += gap.high < 0
        places[method] = (rank, 1 + better, len(methods) - worse)
    return places


def removed(board: Board, method: str) -> str:
    """How much of what was too much is gone, in percent, with the interval of the difference.

    Skew counts from its floor, a gap from 0. What is removed may be more than all: a page may have
    less skew than chance would give it.
    """
    metric = board.fairness
    excess = board.first["values"][metric] - board.first["floors"].get(metric, 0)
    gap = board.bootstrap.difference(method, BASELINE, metric)
    low, high = -gap.high / excess, -gap.low / excess
    return f"{-100 * gap.value / excess:.0f} [{100 * low:.0f}, {100 * high:.0f}]"


def table(board: Board) -> str:
    """One set's methods, best first."""
    places = ranks(board)
    metrics = [name for name in board.first["better"] if not name.startswith("NDKL")]
    header = ["rank (could be)", "method", "excess removed, %", *metrics, PROBE]
    wall = any(cell.get("clock") != CLOCK for cell in board.cells.values())
    header += ["fit, s (wall)", "query, µs (wall)"] if wall else ["fit, s", "query, µs"]
    lines = ["| " + " | ".join(header) + " |", "|---" * len(header) + "|"]
    for method in sorted(board.cells, key=lambda name: places.get(name, (0, 0, 0))):
        cell = board.cells[method]
        row = ["", method, ""]
        if method in places:
            rank, best, worst = places[method]
            row = [f"{rank} ({best} to {worst})", method, removed(board, method)]
        row += [_estimate(board, method, metric) for metric in metrics]
        row.append(_interval(cell["probe"]) if cell["probe"] else "")
        row += [f"{cell['fit_seconds']:.2f}", f"{cell['query_microseconds']:.0f}"]
        lines.append("| " + " | ".join(row) + " |")
    return "\n".join(lines)


def _estimate(board: Board, method: str, metric: str) -> str:
    if (method, metric) not in board.bootstrap.values:
        return ""
    found = board.bootstrap.estimate(method, metric)
    return _interval({"value": found.value, "low": found.low, "high": found.high})


def _interval(row: dict[str, Any]) -> str:
    if row["value"] is None or np.isnan(row["value"]):
        return ""
    return f"{100 * row['value']:.1f} [{100 * row['low']:.1f}, {100 * row['high']:.1f}]"


def over_sets(found: list[Board]) -> str:
    """What to use for each task: mean ranks over its sets, and a diagram of who is told apart."""
    parts = []
    for task, title in TASKS.items():
        boards_of = [board for board in found if board.first["task"] == task]
        ranking = ranked([_fairness(board) for board in boards_of])
        if ranking is not None:
            sentence = _what_to_use(ranking, boards_of)
            parts.append(f"## {title}\n\n{sentence}\n\n{diagram(ranking)}\n")
        elif boards_of:
            parts.append(f"## {title}\n\nOne set has been measured. {advice(boards_of[0])}\n")
    return "\n".join(parts)


def _fairness(board: Board) -> dict[str, float]:
    """The metric that ranks, of each debiasing method."""
    metric = board.fairness
    methods = [method for method in board.cells if method != BASELINE]
    return {method: board.bootstrap.values[method, metric] for method in methods}


def _what_to_use(ranking: Ranking, found: list[Board]) -> str:
    """What the numbers advise, and what the diagram's mean."""
    about = {one["name"]: one for one in describe_methods()}
    light = [method for method in ranking.means if _serves_anywhere(about, method)]
    told = len(ranking.means) - len(ranking.alike)
    best = f"**{ranking.first}** has the best mean rank ({ranking.means[ranking.first]:.1f})"
    text = f"What to use: {best}" if told else f"So few sets tell no method from the first: {best}"
    if light and light[0] != ranking.first:
        text += (
            f"; without labels and with any vector database it is **{light[0]}**"
            f" ({ranking.means[light[0]]:.1f})"
        )
    text += f". {_least_lost(ranking.alike, found)}"
    return (
        f"{text}Mean ranks are by fairness, of the {len(ranking.means)} methods that all"
        f" {ranking.sets} sets have. Two must differ by {ranking.needed:.1f} before Nemenyi's test"
        f" (5 %) tells them apart: it tells {told} from the first, and {len(ranking.alike) - 1} it"
        " does not. Bars join methods that it cannot tell apart."
    )


def _least_lost(methods: list[str], found: list[Board]) -> str:
    """Which of some methods keeps most of the task, on average over sets that measure it."""
    measured = [board for board in found if board.utility is not None]
    if not measured or len(methods) < 2:
        return ""
    changes = {}
    for method in methods:
        changes[method] = float(np.mean([board.kept(method) or 0.0 for board in measured]))
    best = max(changes, key=lambda method: changes[method])
    metrics = sorted({str(board.utility) for board in measured})
    named = " and ".join(metrics)
    first = methods[0]
    if best == first:
        return f"It also keeps most of the task: {changes[first]:+.1f} points of {named}. "
    return (
        f"Of the {len(methods)} that are not told from the first, **{best}** keeps most of the task:"
        f" {changes[best]:+.1f} points of {named}, where {first} has {changes[first]:+.1f}. "
    )


def _serves_anywhere(about: dict[str, Any], method: str) -> bool:
    """Whether a method needs no labels, and any vector database can serve it."""
    one = about[method.split(" (", maxsplit=1)[0]]
    return not one["needs_labels"] and bool(one["any_database"])


def advice(board: Board) -> str:
    """A sentence on what to use: what removes most, and what costs least among its equals."""
    places = ranks(board)
    first = min(places, key=lambda method: places[method][0])
    equals = [method for method, (_, best, _) in places.items() if best == 1 and method != first]
    about = {one["name"]: one for one in describe_methods()}
    light = [method for method in [first, *equals] if _serves_anywhere(about, method)]
    text = f"**{first}** removes most ({removed(board, first)} % of the excess)"
    if equals:
        text += f"; not told apart from it: {', '.join(sorted(equals))}"
    if light and equals:
        text += f". Of these, without labels and with any vector database: {', '.join(light)}"
    return f"{text}. {_least_lost([first, *equals], [board])}".rstrip()


HEAD = """# Leaderboard

Every method on every set that we hold, made by one command: `python -m scripts.leaderboard`. It measures what has no file in `docs/measurements/leaderboard` yet, and writes this page from the files; add a method or a set, run it again, and there is a row. Click a
heading to sort.

- **excess removed**: of MaxSkew above the floor of a random ranking, or of the mean gap in true positive rates (EO_avg), the share that a method takes away; negative where it made things worse. 95 % intervals, over images, here of the paired difference from `none`.
- **rank (could be)**: by that metric; in brackets the best and the worst rank that the intervals allow. Two methods whose brackets overlap are not told apart by this set.
- **R@k**, **mAP** (things that people wear, and attributes of CelebA), **F1**: what is left of the task. **probe AUC**: what a fresh linear classifier reads of the group; 50 is nothing. A method that re-ranks has no embedding to read from.
- **fit, s** and **query, µs**: processor time. The second is what a method adds to one query, in a batch; re-rankers place images of the whole set. A table that says *(wall)* was timed by the clock on the wall, on two cores that others used too.

Sets of mini are 2,000 photographs at most, drawn by lot, and methods are fitted on 1,000 others, to keep the whole short; skew is that of the first 200 (of a tenth of the images on Flickr8k). On IdenProf nobody has said the gender: a linear classifier reads it from the same embeddings, by FairFace's labels, and photographs of which it is not 90 % sure are left out.

Values in percent. Methods that need labels had those of other images. Groups are as annotators, or words of captions, say. Lower skew is not the same as fair.
"""


def page(found: list[Board], left: list[Set]) -> str:
    """The page, from the files."""
    parts = [HEAD]
    if left:
        named = "; ".join(one.title for one in left)
        parts.append(f"Not measured whole yet, and so not here: {named}.\n")
    parts.append(over_sets(found))
    for board in found:
        counts = board.first["counts"]
        groups = ", ".join(f"{name} {size:,}" for name, size in counts["groups"].items())
        about = f"{board.first['task'].capitalize()}, {counts['images']:,} images ({groups})"
        if board.first["task"] == "retrieval":
            metric = board.fairness
            floor = board.first["floors"][metric]
            about += f", {counts['queries']} queries; the floor of {metric} is {100 * floor:.1f}"
        parts += [f"## {board.one.title}\n", f"{about}. {advice(board)}\n", table(board) + "\n"]
        if board.refused:
            parts.append("Not here:\n")
            parts += [f"- *{name}*: {why}" for name, why in board.refused.items()]
            parts.append("")
    return "\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, add_help=True)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--sets", nargs="+", default=[one.name for one in SETS])
    parser.add_argument("--methods", nargs="+", default=eq.methods.names())
    parser.add_argument("--resamples", type=int, default=1000)
    parser.add_argument("--page", action="store_true")
    given = parser.parse_args()
    if not given.page:
        chosen = [one for one in SETS if one.name in given.sets]
        settings = Settings(resamples=given.resamples, permutations=1)
        measure(given.data, chosen, given.methods, settings)
    PAGE.write_text(page(*boards()))


if __name__ == "__main__":
    main()
