"""What the page of one audit shows: which rows, which marks, in what order."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from equipoise._audit.results import AuditDocument, AuditedMethod, DialFindings, MethodVerdict
from equipoise.report import _charts as charts
from equipoise.report import _measures as measures

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


@dataclass(frozen=True)
class AuditView:
    """What the templates of an audit need beside the document.

    chosen: the method that is shown first. judged: the place of its verdict. after: the methods,
    without the model as it is, by their places. half: the half height of a swarm. lanes: the height
    of each prompt's dot beside the dial. order: the prompts, furthest first. standing: what each
    method did to each prompt, in a word. still: whether a probe tells the groups. rows: the place
    of each metric in the summary. disagrees: prompts whose wording and results disagree.
    """

    chosen: int
    judged: int | None
    after: list[tuple[int, AuditedMethod]]
    axis: charts.Scale
    band: tuple[float, float] | None
    swarm: list[SwarmRow]
    half: float
    lanes: list[float]
    sections: list[measures.MeasureSection]
    order: list[int]
    standing: list[dict[int, str]]
    still: str
    rows: dict[str, int]
    disagrees: set[int]


def view(document: AuditDocument) -> AuditView:
    """Return what the templates of an audit need beside the document."""
    chosen = document.verdict.best
    axis = prompt_axis(document)
    swarm = _swarm(document, axis)
    placed = measures.PlacedAudit(document)
    return AuditView(
        chosen=chosen,
        judged=_verdict_of(document, chosen),
        after=list(enumerate(document.methods))[1:],
        axis=axis,
        band=_band(document, axis),
        swarm=swarm,
        half=min(HALF, charts.tallest(row.dots for row in swarm)) + 14,
        lanes=[_lane(place) for place in range(len(document.prompts))],
        sections=measures.sections([placed]),
        order=_order(document),
        standing=[_standing(one) for one in document.verdict.methods],
        still=_probe_still_tells(document, chosen),
        rows=placed.places(),
        disagrees={one.prompt for one in document.verdict.disagree},
    )


def _verdict_of(document: AuditDocument, method: int) -> int | None:
    """Return the place of the verdict on a method."""
    for place, one in enumerate(document.verdict.methods):
        if one.method == method:
            return place
    return None


# --- Prompts ----------------------------------------------------------------------------


def prompt_axis(document: AuditDocument) -> charts.Scale:
    """Return the axis on which every prompt has a place, with its intervals."""
    values = []
    for entry in document.prompts:
        for record in entry.measured(document.verdict.measure):
            values += charts.ends(record)
    if document.chance is not None:
        values.append(document.chance.max_skew.high)
    return charts.scale(values)


def _band(document: AuditDocument, axis: charts.Scale) -> tuple[float, float] | None:
    """Return where the range of random rankings begins and how wide it is."""
    if document.chance is None:
        return None
    ends = charts.whisker(document.chance.max_skew, axis)
    if ends.low is None or ends.high is None:
        return None
    return ends.low, round(ends.high - ends.low, 2)


def _swarm(document: AuditDocument, axis: charts.Scale) -> list[SwarmRow]:
    """Return a row per method for the first chart: before, the chosen one, and some others."""
    chosen = document.verdict.best
    others = [place for place in range(1, len(document.methods)) if place != chosen]
    places = [0, chosen, *others] if chosen else [0]
    rows = []
    for method in sorted(places[:ROWS]):
        values = _values(document, method)
        dots = _squeezed(charts.swarm(values, _kinds(document, method), axis))
        rows.append(SwarmRow(method, dots, _named(dots, values)))
    return rows


def _values(document: AuditDocument, method: int) -> list[float]:
    values = []
    for entry in document.prompts:
        value = entry.measured(document.verdict.measure)[method].value
        values.append(0.0 if value is None else value)
    return values


def _kinds(document: AuditDocument, method: int) -> list[str]:
    """Return for each prompt whether it leans with a method, and whether that made it worse."""
    verdict = document.verdict
    leaning, worse = set(verdict.leaning), set()
    place = _verdict_of(document, method)
    if place is not None:
        leaning = set(verdict.methods[place].leaning)
        worse = set(verdict.methods[place].worse)
    kinds = []
    for prompt in range(len(document.prompts)):
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


def _order(document: AuditDocument) -> list[int]:
    """Return the prompts, that of the largest value before first."""
    values = _values(document, 0)
    return sorted(range(len(values)), key=lambda place: values[place], reverse=True)


def _standing(judged: MethodVerdict) -> dict[int, str]:
    """Return what a method did to each prompt, in a word."""
    standing = dict.fromkeys(judged.better, "better")
    standing |= dict.fromkeys(judged.raised, "raised")
    return standing | dict.fromkeys(judged.worse, "worse")


# --- Methods ----------------------------------------------------------------------------


def _probe_still_tells(document: AuditDocument, method: int) -> str:
    """Return whether a probe tells the groups after a method: by the interval of its AUC."""
    row = document.verdict.sight.probe
    if row is None:
        return "Not measured"
    auc = document.summary[row].values[method]
    if auc.value is None:
        return "Not measured"
    low = auc.low if auc.low is not None else -math.inf
    return "Yes" if low > measures.GUESSING else "Not seen"


# --- The dial ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Course:
    """The mean of a method over kappa, as a line."""

    method: int
    segments: list[tuple[float, float, float, float]]


@dataclass(frozen=True)
class DialFront:
    """Leakage against loss of a method over kappa, of images where it changes them."""

    method: int
    which: str
    x: charts.Scale
    y: charts.Scale
    points: list[tuple[float, float]]
    segments: list[tuple[float, float, float, float]]


@dataclass(frozen=True)
class DialView:
    """The charts of methods that have a kappa. turning: those methods, by their places."""

    turning: list[tuple[int, AuditedMethod]]
    kappas: charts.Scale
    course: charts.Scale
    courses: list[Course]
    fronts: list[DialFront]


def dials(document: AuditDocument) -> DialView:
    """Return the charts of methods that have a kappa."""
    turned, turning = [], []
    for place, method in enumerate(document.methods):
        dial = document.dials[place]
        if dial is not None:
            turned.append((place, dial))
            turning.append((place, method))
    values = [measures.floor_of(document, document.verdict.measure)]
    for _, dial in turned:
        values += _means(dial)
    course = charts.scale(values)
    return DialView(
        turning=turning,
        kappas=KAPPAS,
        course=course,
        courses=[_course(place, dial, course) for place, dial in turned],
        fronts=[_front(place, dial) for place, dial in turned],
    )


def _means(dial: DialFindings) -> list[float]:
    return dial.lean if dial.max_skew is None else dial.max_skew


def _course(method: int, dial: DialFindings, axis: charts.Scale) -> Course:
    points = []
    for kappa, value in zip(dial.kappas, _means(dial), strict=True):
        points.append((KAPPAS.at(_kappa_place(kappa)), axis.up(value)))
    return Course(method, charts.segments(points))


def _front(method: int, dial: DialFindings) -> DialFront:
    which, losses, leakages = "texts", dial.self_loss_texts, dial.leakage_texts
    if dial.leakage_images:
        which, losses, leakages = "images", dial.self_loss_images, dial.leakage_images
    x, y = charts.scale(losses or ()), charts.scale(leakages or ())
    points = []
    for loss, leakage in zip(losses or (), leakages or (), strict=True):
        points.append((x.at(loss), y.up(leakage)))
    return DialFront(method, which, x, y, points, charts.segments(points))


def _kappa_place(kappa: float | str) -> float:
    """Return where a kappa stands on the axis of the dial. JSON has no infinity: it is a word."""
    if isinstance(kappa, str) or math.isinf(kappa):
        return KAPPA_ENDS[1]
    if kappa == 0:
        return KAPPA_ENDS[0]
    return math.log10(kappa)
