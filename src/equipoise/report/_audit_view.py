"""What the page of one audit shows: which rows, which marks, in what order."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from equipoise.report import _charts as charts
from equipoise.report import _measures as measures

Results = dict[str, Any]

# rows of the first chart; a swarm's half height in pixels; lanes of the dots that follow the dial
ROWS, HALF, LANES = 4, 34.0, 6
# the axis of kappa is that of its logarithm, with zero and infinity at the ends
KAPPA_ENDS = (-2.5, 2.5)
_KAPPA_TICKS = {-2.5: "0", -2: "0.01", -1: "0.1", 0: "1", 1: "10", 2: "100", 2.5: "∞"}
_BARE = charts.Scale(*KAPPA_ENDS)
KAPPAS = charts.Scale(
    *KAPPA_ENDS, tuple(charts.Tick(_BARE.at(at), text) for at, text in _KAPPA_TICKS.items())
)
_BEGINNING = re.compile(r"^(a|the) (photo|picture|image) of (a |an |the )?", re.IGNORECASE)


@dataclass(frozen=True)
class SwarmRow:
    """The prompts with one method. named: the dots whose prompt is written beside them."""

    method: int
    dots: list[charts.Dot]
    named: list[charts.Dot]


def view(results: Results) -> dict[str, Any]:
    """Return what the templates of an audit need beside the results."""
    chosen = results["verdict"]["best"]
    methods = list(enumerate(results["methods"]))
    axis = prompt_axis(results)
    swarm = _swarm(results, axis)
    return _dial(results) | {
        "r": results,
        "chosen": chosen,
        "judged": _verdict_of(results, chosen),
        "after": methods[1:],
        "axis": axis,
        "band": _band(results, axis),
        "swarm": swarm,
        "half": min(HALF, charts.tallest(row.dots for row in swarm)) + 14,
        "lanes": [_lane(place) for place in range(len(results["prompts"]))],
        "sections": measures.sections([("", results)], several=False),
        "order": _order(results),
        "standing": [_standing(results, one) for one in results["verdict"]["methods"]],
        "still": _probe_still_tells(results, chosen),
        "rows": {row["key"]: place for place, row in enumerate(results["summary"])},
        "short": short,
        "disagrees": {one["prompt"] for one in results["verdict"]["disagree"]},
    }


def _verdict_of(results: Results, method: int) -> int | None:
    """Return the place of the verdict on a method."""
    for place, one in enumerate(results["verdict"]["methods"]):
        if one["method"] == method:
            return place
    return None


# --- Prompts ----------------------------------------------------------------------------


def prompt_axis(results: Results) -> charts.Scale:
    """Return the axis on which every prompt has a place, with its intervals."""
    measure = results["verdict"]["measure"]
    values = []
    for entry in results["prompts"]:
        for record in entry[measure]:
            values += charts.ends(record)
    if results["chance"]:
        values.append(results["chance"]["max_skew"]["high"])
    return charts.scale(values)


def _band(results: Results, axis: charts.Scale) -> tuple[float, float] | None:
    """Return where the range of random rankings begins and how wide it is."""
    if not results["chance"]:
        return None
    low = axis.at(results["chance"]["max_skew"]["low"])
    return low, round(axis.at(results["chance"]["max_skew"]["high"]) - low, 2)


def _swarm(results: Results, axis: charts.Scale) -> list[SwarmRow]:
    """Return a row per method for the first chart: before, the chosen one, and some others."""
    chosen = results["verdict"]["best"]
    others = [place for place in range(1, len(results["methods"])) if place != chosen]
    places = [0, chosen, *others] if chosen else [0]
    rows = []
    for method in sorted(places[:ROWS]):
        values = _values(results, method)
        dots = _squeezed(charts.swarm(values, _kinds(results, method), axis))
        rows.append(SwarmRow(method, dots, _named(dots, values)))
    return rows


def _values(results: Results, method: int) -> list[float]:
    measure = results["verdict"]["measure"]
    values = []
    for entry in results["prompts"]:
        value = entry[measure][method]["value"]
        values.append(0.0 if value is None else value)
    return values


def _kinds(results: Results, method: int) -> list[str]:
    """Return for each prompt whether it leans with a method, and whether that made it worse."""
    verdict = results["verdict"]
    leaning, worse = set(verdict["leaning"]), set()
    place = _verdict_of(results, method)
    if place is not None:
        leaning = set(verdict["methods"][place]["leaning"])
        worse = set(verdict["methods"][place]["worse"])
    kinds = []
    for prompt in range(len(results["prompts"])):
        if prompt in worse:
            kinds.append("worse")
        elif prompt in leaning:
            kinds.append("leans")
        else:
            kinds.append("within")
    return kinds


def _squeezed(dots: list[charts.Dot]) -> list[charts.Dot]:
    """Return dots of which none is further from the middle than there is room."""
    tallest = charts.tallest([dots])
    if tallest <= HALF:
        return dots
    share = HALF / tallest
    return [charts.Dot(dot.prompt, dot.at, round(dot.up * share, 1), dot.kind) for dot in dots]


def short(prompt: str) -> str:
    """Return a prompt without the words that most prompts begin with."""
    return _BEGINNING.sub("", prompt)


def _named(dots: Sequence[charts.Dot], values: Sequence[float]) -> list[charts.Dot]:
    """Return the furthest prompt that leans, and the furthest of those made worse."""
    beyond = [dot for dot in dots if dot.kind != "within"]
    furthest = sorted(beyond, key=lambda dot: values[dot.prompt], reverse=True)
    if not furthest or furthest[0].kind == "worse":
        return furthest[:1]
    worse = [dot for dot in furthest if dot.kind == "worse"]
    return [*furthest[:1], *worse[:1]]


def _lane(place: int) -> float:
    """Return the height at which a prompt's dot moves sideways, in percent."""
    return round(100 * (place * 5 % LANES + 0.5) / LANES, 1)


def _order(results: Results) -> list[int]:
    """Return the prompts, that of the largest value before first."""
    values = _values(results, 0)
    return sorted(range(len(values)), key=lambda place: values[place], reverse=True)


def _standing(results: Results, judged: dict[str, Any]) -> dict[int, str]:
    """Return what a method did to each prompt, in a word."""
    standing = {}
    for word in ("better", "raised", "worse"):
        for prompt in judged[word]:
            standing[prompt] = word
    return standing


# --- Methods ----------------------------------------------------------------------------


def _probe_still_tells(results: Results, method: int) -> str:
    """Return whether a probe tells the groups after a method: by the interval of its AUC."""
    row = results["verdict"]["sight"]["probe"]
    if row is None:
        return "Not measured"
    auc = results["summary"][row]["values"][method]
    if auc["value"] is None:
        return "Not measured"
    low = auc["low"] if auc["low"] is not None else -math.inf
    return "Yes" if low > measures.GUESSING else "Not seen"


# --- The dial ---------------------------------------------------------------------------


def _dial(results: Results) -> dict[str, Any]:
    """Return the charts of methods that have a kappa."""
    key = "max_skew" if results["chance"] else "lean"
    turning = []
    values: list[float | None] = [measures.floor_of(results, key)]
    for place, method in enumerate(results["methods"]):
        dial = results["dials"][place]
        if dial is not None:
            turning.append((place, method))
            values += dial[key]
    course = charts.scale(values)
    courses = []
    for place, _ in turning:
        dial = results["dials"][place]
        points = []
        for kappa, value in zip(dial["kappas"], dial[key], strict=True):
            points.append((KAPPAS.at(_kappa_place(kappa)), course.up(value)))
        courses.append({"method": place, "segments": charts.segments(points)})
    return {
        "turning": turning,
        "kappas": KAPPAS,
        "course": course,
        "courses": courses,
        "fronts": [_front(results, place) for place, _ in turning],
    }


def _front(results: Results, method: int) -> dict[str, Any]:
    """Return leakage against loss over kappa, of images where the method changes them."""
    dial = results["dials"][method]
    which = "images" if dial["leakage_images"] else "texts"
    losses, leakages = dial[f"self_loss_{which}"], dial[f"leakage_{which}"]
    x, y = charts.scale(losses), charts.scale(leakages)
    points = []
    for loss, leakage in zip(losses, leakages, strict=True):
        points.append((x.at(loss), y.up(leakage)))
    front = {"method": method, "which": which, "x": x, "y": y, "points": points}
    return front | {"segments": charts.segments(points)}


def _kappa_place(kappa: float | str) -> float:
    """Return where a kappa stands on the axis of the dial. JSON has no infinity: it is a word."""
    if isinstance(kappa, str) or math.isinf(kappa):
        return KAPPA_ENDS[1]
    if kappa == 0:
        return KAPPA_ENDS[0]
    return math.log10(kappa)
