"""Which methods can be told apart over several sets, and the diagram that shows it.

Methods have a mean rank over the sets. Nemenyi's test (5 %) tells two of them apart where their
mean ranks differ by more than the critical difference; bars of the diagram join those that do not.
"""

from __future__ import annotations

from html import escape
from typing import NamedTuple

import numpy as np

WIDTH, MARGIN, ROW, TOP = 960, 300, 18, 46  # pixels


class Ranking(NamedTuple):
    """The mean rank of each method, best first, and what two must differ by."""

    means: dict[str, float]
    needed: float
    sets: int

    @property
    def first(self) -> str:
        return next(iter(self.means))

    @property
    def alike(self) -> list[str]:
        """The methods that cannot be told from the first."""
        best = self.means[self.first]
        return [name for name, mean in self.means.items() if mean - best < self.needed]

    @property
    def bars(self) -> list[tuple[float, float]]:
        """The longest stretches of mean ranks within which no two methods are told apart."""
        means = list(self.means.values())
        found: list[tuple[float, float]] = []
        for start, low in enumerate(means):
            within = [mean for mean in means[start:] if mean - low < self.needed]
            longer = not found or within[-1] > found[-1][1]
            if len(within) > 1 and longer:
                found.append((low, within[-1]))
        return found


def ranked(values: list[dict[str, float]]) -> Ranking | None:
    """The ranking by values (lower is better) of the methods that all sets have.

    None where there are too few to compare.
    """
    from scipy.stats import rankdata, studentized_range

    if len(values) < 2:
        return None
    shared = sorted(set.intersection(*(set(one) for one in values)))
    count = len(shared)
    if count < 2:
        return None
    ranks = [rankdata([one[name] for name in shared]) for one in values]
    means = dict(zip(shared, np.mean(ranks, axis=0).tolist(), strict=True))
    quantile = float(studentized_range.ppf(0.95, count, np.inf)) / np.sqrt(2)
    needed = quantile * np.sqrt(count * (count + 1) / (6 * len(values)))
    best_first = dict(sorted(means.items(), key=lambda pair: pair[1]))
    return Ranking(best_first, float(needed), len(values))


def diagram(ranking: Ranking) -> str:
    """The critical-difference diagram as SVG: ranks on a line, names below, bars between equals."""
    count = len(ranking.means)
    bars = ranking.bars
    below = TOP + 8 * len(bars) + ROW
    half = (count + 1) // 2
    height = below + ROW * half + 8
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img"'
        ' font-size="12" font-family="sans-serif" fill="currentColor" stroke="none">',
        f"<title>Mean ranks of {count} methods over {ranking.sets} sets; bars join methods"
        " that cannot be told apart</title>",
        _line(_x(1, count), TOP, _x(count, count), TOP),
    ]
    step = max(1, count // 12)
    for rank in range(1, count + 1, step):
        x = _x(rank, count)
        lines += [_line(x, TOP - 5, x, TOP), _text(x, TOP - 9, str(rank), "middle")]
    end = _x(min(1 + ranking.needed, count), count)
    lines += [_line(_x(1, count), 14, end, 14, 2), _text(end + 6, 18, "critical difference")]
    for place, (low, high) in enumerate(bars):
        y = TOP + 8 * (place + 1)
        lines.append(_line(_x(low, count) - 3, y, _x(high, count) + 3, y, 3))
    for place, (name, mean) in enumerate(ranking.means.items()):
        lines += _label(name, mean, place, half, count, below)
    return "\n".join([*lines, "</svg>"])


def _label(name: str, mean: float, place: int, half: int, count: int, below: int) -> list[str]:
    """A method's name at the side, and the line to its mean rank."""
    left = place < half
    row = place if left else count - 1 - place
    x, y = _x(mean, count), below + ROW * row
    edge = MARGIN - 20 if left else WIDTH - MARGIN + 20
    side, gap = ("end", -6) if left else ("start", 6)
    path = f'<path d="M{x:.1f} {TOP}V{y}H{edge}" fill="none" stroke="currentColor"'
    path += ' stroke-width="0.7"/>'
    return [path, _text(edge + gap, y + 4, f"{name} {mean:.1f}", side)]


def _x(rank: float, count: int) -> float:
    return MARGIN + (WIDTH - 2 * MARGIN) * (rank - 1) / max(1, count - 1)


def _line(x: float, y: float, to_x: float, to_y: float, width: float = 1) -> str:
    ends = f'x1="{x:.1f}" y1="{y}" x2="{to_x:.1f}" y2="{to_y}"'
    return f'<line {ends} stroke="currentColor" stroke-width="{width}"/>'


def _text(x: float, y: float, text: str, side: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y}" text-anchor="{side}">{escape(text)}</text>'
