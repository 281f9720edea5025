"""Where the marks of charts stand, in percent of a chart's width and height.

Percent and not pixels, so that a chart drawn once fits a wide screen, a phone and a sheet of paper
while its letters keep their size.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from equipoise.metrics._intervals import HasInterval

# of a swarm: how many dots fit beside each other, and the distance of two in a column, in pixels
COLUMNS, DOT = 62, 9.0
ROUNDINGS = (1, 2, 2.5, 5, 10)


@dataclass(frozen=True)
class Tick:
    """A mark of an axis: where it stands, and what it says."""

    at: float
    text: str


@dataclass(frozen=True)
class Scale:
    """A straight axis from ``low`` to ``high``."""

    low: float
    high: float
    ticks: tuple[Tick, ...] = ()

    def at(self, value: float) -> float:
        """Return where a value stands, in percent; what lies outside stands at the edge."""
        share = (value - self.low) / (self.high - self.low)
        return round(100 * min(max(share, 0.0), 1.0), 2)

    def up(self, value: float) -> float:
        """Return where a value stands on an axis that points up."""
        return round(100 - self.at(value), 2)


def scale(values: Iterable[float | None], *, zero: bool = True, percent: bool = False) -> Scale:
    """Return an axis with round ticks on which all values have a place."""
    known = [float(value) for value in values if value is not None and math.isfinite(value)]
    if zero:
        known.append(0.0)
    low, high = min(known, default=0.0), max(known, default=1.0)
    if high == low:
        high = low + 1.0
    space = 0.04 * (high - low)
    bottom = low if zero and low == 0 else low - space
    top = high if zero and high == 0 else high + space
    step = _round_step((top - bottom) / 5)
    first = math.ceil(bottom / step)
    places = range(first, math.floor(top / step) + 1)
    bare = Scale(bottom, top)
    ticks = [Tick(bare.at(place * step), _label(place * step, step, percent)) for place in places]
    return Scale(bottom, top, tuple(ticks))


def _round_step(rough: float) -> float:
    unit = 10.0 ** math.floor(math.log10(rough))
    for factor in ROUNDINGS:
        if factor * unit >= rough:
            return factor * unit
    return 10 * unit


def _label(value: float, step: float, percent: bool) -> str:
    if percent:
        return f"{100 * value:g}" if abs(value) > step / 2 else "0"
    return f"{value:.10g}" if abs(value) > step / 2 else "0"


def ends(record: HasInterval) -> list[float | None]:
    """Return a value and the ends of its interval."""
    return [record.value, record.low, record.high]


@dataclass(frozen=True)
class Whisker:
    """Where a value and its interval stand; None where it has none."""

    at: float | None
    low: float | None
    high: float | None


def whisker(record: HasInterval, axis: Scale) -> Whisker:
    """Return where a value and its interval stand on an axis."""
    return Whisker(*(None if end is None else axis.at(end) for end in ends(record)))


@dataclass(frozen=True)
class Dot:
    """A prompt in a swarm. at: percent of the width. up: pixels above or below the middle."""

    prompt: int
    at: float
    up: float
    kind: str


def swarm(values: Sequence[float], kinds: Sequence[str], axis: Scale) -> list[Dot]:
    """Return a dot per value. Dots that would cover each other stand in a column."""
    columns: dict[int, list[int]] = defaultdict(list)
    for place, value in enumerate(values):
        columns[round(axis.at(value) / 100 * COLUMNS)].append(place)
    dots = []
    for places in columns.values():
        places.sort(key=lambda place: values[place])
        for row, place in enumerate(places):
            side = 1 if row % 2 else -1
            up = side * math.ceil(row / 2) * DOT
            dots.append(Dot(place, axis.at(values[place]), up, kinds[place]))
    return sorted(dots, key=lambda dot: dot.prompt)


def tallest(swarms: Iterable[list[Dot]]) -> float:
    """Return how far the furthest dot is from the middle of its row, in pixels."""
    return max((abs(dot.up) for dots in swarms for dot in dots), default=0.0)


def segments(points: Sequence[tuple[float, float]]) -> list[tuple[float, float, float, float]]:
    """Return the line through points as pieces, since only pieces can be given in percent."""
    return [(*start, *end) for start, end in pairwise(points)]
