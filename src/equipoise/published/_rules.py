"""Check what printed cells must satisfy, whatever the data and the method were.

Linear rules hold for means over resamples as well.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator

from equipoise.published._cell import Cell

Finding = tuple[list[Cell], str]  # the cells concerned, at least one of which is wrong, and why
Rule = Callable[[Iterable[Cell]], Iterator[Finding]]

# EO_avg over EO_max, least and most. CelebA: mean and largest gap over the pairs of four groups,
# one class (the released form, which made the tables). FACET: mean and largest over 18 classes of
# the gap between two groups.
GAP_RATIO = {
    "CelebA": (1 / 2, 2 / 3, "four groups allow 1/2 to 2/3"),
    "FACET": (1 / 18, 1.0, "18 classes allow 1/18 to 1"),
}
# log(share of a group in the top M / its share in N) is at most log(N / M).
MOST_SKEW = {"COCO2017": 100 * math.log(1368 / 1000), "Flickr30K": 100 * math.log(3079 / 1000)}
MOST_PARITY = 100 / math.sqrt(2)  # every picture in one of the two groups
# Whole numbers of pictures. SP_5: mean of sqrt(2) |n - 50| / 100 over five prompts. Acc^G: right
# pictures among 500.
STEP = {
    "SP_5": (math.sqrt(2) / 5, "five prompts of 100 pictures give multiples of sqrt(2)/500"),
    "Acc^G": (1 / 5, "500 pictures give multiples of 1/500"),
}
SLACK = 1e-9  # of binary floating point


def gaps(cells: Iterable[Cell]) -> Iterator[Finding]:
    """Yield pairs in which the mean gap and the largest gap do not bound each other."""
    for mean, largest in _pairs(cells, "EO_avg", "EO_max"):
        low, high, allowed = GAP_RATIO[mean.dataset]
        too_low = mean.number + mean.rounding < low * (largest.number - largest.rounding) - SLACK
        too_high = mean.number - mean.rounding > high * (largest.number + largest.rounding) + SLACK
        if too_low or too_high:
            share = f"{mean.number / largest.number:.3f}"
            yield (
                [mean, largest],
                f"EO_avg {mean.value} is {share} of EO_max {largest.value}; {allowed}",
            )


def recall(cells: Iterable[Cell]) -> Iterator[Finding]:
    """Yield pairs that break this: what is among the first 5 is among the first 10."""
    for five, ten in _pairs(cells, "R@5", "R@10"):
        if five.number - five.rounding > ten.number + ten.rounding + SLACK:
            yield [five, ten], f"R@10 {ten.value} is below R@5 {five.value}"


def bounds(cells: Iterable[Cell]) -> Iterator[Finding]:
    """Yield cells that are negative or above the largest value of their metric."""
    for cell in cells:
        most = {
            "MS@1000": MOST_SKEW.get(cell.dataset, math.inf),
            "SP_all": MOST_PARITY,
            "SP_5": MOST_PARITY,
        }.get(cell.metric, 100.0)
        if not 0 <= cell.number <= most + cell.rounding + SLACK:
            yield [cell], f"{cell.metric} {cell.value} is outside 0 to {most:.1f}"


def steps(cells: Iterable[Cell]) -> Iterator[Finding]:
    """Yield cells that no share of so few pictures can have."""
    for cell in cells:
        if cell.metric in STEP:
            step, grid = STEP[cell.metric]
            below = math.floor(cell.number / step) * step
            if min(cell.number - below, below + step - cell.number) > cell.rounding + SLACK:
                yield [cell], f"{grid}: {below:.3f} or {below + step:.3f}"


def digits(cells: Iterable[Cell]) -> Iterator[Finding]:
    """Yield cells that have fewer decimals than the rest of their column."""
    for column in _columns(cells):
        usual = Counter(cell.rounding for cell in column).most_common(1)[0][0]
        for cell in column:
            if cell.rounding > usual:
                yield [cell], f"printed as {cell.value}, with fewer decimals than its column"


def marks(cells: Iterable[Cell]) -> Iterator[Finding]:
    """Yield cells whose mark does not fit their value.

    Among the debiasing methods the best value is marked best and the next one second, ties alike.
    """
    for column in _columns(cell for cell in cells if cell.method != "none"):
        ordered = sorted({cell.number for cell in column}, reverse=column[0].better == "higher")
        places = dict(zip(ordered, ("best", "second"), strict=False))
        for cell in column:
            place = places.get(cell.number, "")
            if place != cell.marker:
                marked, ranked = (
                    word or "neither best nor second" for word in (cell.marker, place)
                )
                yield [cell], f"marked {marked}, its value is {ranked}"


def repeats(cells: Iterable[Cell]) -> Iterator[Finding]:
    """Yield results that two tables print differently."""
    for same in _grouped(cells, "model", "dataset", "method", "variant", "metric"):
        if len({(cell.value, cell.spread) for cell in same}) > 1:
            yield (
                same,
                "; ".join(
                    f"table {cell.table} prints {cell.value} ± {cell.spread}" for cell in same
                ),
            )


ARITHMETIC: dict[str, Rule] = {"gaps": gaps, "recall": recall, "bounds": bounds, "steps": steps}
PRINTING: dict[str, Rule] = {"digits": digits, "marks": marks, "repeats": repeats}


def broken(cells: list[Cell]) -> list[tuple[Cell, str, str]]:
    """Return each cell that breaks a rule, the rule's name and why, in the order of the cells."""
    rules = ARITHMETIC | PRINTING
    found = []
    for name, rule in rules.items():
        for concerned, why in rule(cells):
            found += [(cell, name, why) for cell in concerned]
    order = {cell: place for place, cell in enumerate(cells)}
    return sorted(found, key=lambda finding: order[finding[0]])


def _grouped(cells: Iterable[Cell], *names: str) -> Iterable[list[Cell]]:
    """Return the cells that agree in the named fields, together."""
    groups = defaultdict(list)
    for cell in cells:
        key = tuple(getattr(cell, name) for name in names)
        groups[key].append(cell)
    return groups.values()


def _columns(cells: Iterable[Cell]) -> Iterable[list[Cell]]:
    """Return the cells of each column of a table."""
    return _grouped(cells, "table", "model", "dataset", "metric")


def _pairs(cells: Iterable[Cell], first: str, second: str) -> Iterator[tuple[Cell, Cell]]:
    """Yield two cells of one row of a table, where it has both."""
    for row in _grouped(cells, "table", "model", "dataset", "method", "variant"):
        by_metric = {cell.metric: cell for cell in row}
        if first in by_metric and second in by_metric:
            yield by_metric[first], by_metric[second]
