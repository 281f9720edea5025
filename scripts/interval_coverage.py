"""Coverage of intervals on made galleries: writes docs/measurements/coverage.json and the tables of
docs/intervals.md.

A gallery is drawn again and again from one population. What an interval should hold is the value
that galleries of this size have on average; its coverage is how often it does.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from equipoise import metrics
from equipoise.metrics._floor import shuffled_max_skews
from equipoise.metrics._intervals import (
    CENTRED,
    KINDS,
    POSITIVE,
    Chance,
    LeaveOneOut,
    interval,
    lifted,
)
from equipoise.metrics._labels import Coded
from equipoise.metrics._resample_lists import multiplicities
from equipoise.metrics._retrieval import Ranking

MEASUREMENTS = Path("docs/measurements/coverage.json")
PAGE = Path("docs/intervals.md")
START, END = "<!-- coverage: made by scripts/interval_coverage.py -->", "<!-- end -->"
# images -> galleries whose intervals are looked at, and galleries that say what to expect
IMAGES = {200: (1000, 2000), 500: (1000, 2000), 5000: (1000, 2000)}
LEANS = {"at the floor": 0.0, "near it": 0.5, "further": 1.0, "far from it": 2.0}
SHARES = (0.5, 0.3)  # of the first group in the population
QUERIES, RESAMPLES, DIM = 10, 400, 16
LEVEL, LISTS, PERMUTATIONS = 0.95, 1000, 200
JACKKNIFED = 500  # images up to which BCa is measured, which needs the skew without each


def main() -> None:
    scale = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
    again = sys.argv[2:] or list(LEANS)  # the other rows stay as they were measured
    known = json.loads(MEASUREMENTS.read_text()) if MEASUREMENTS.exists() else []
    found = []
    for images, (galleries, population) in IMAGES.items():
        for share in SHARES:
            for name, lean in LEANS.items():
                if name not in again:
                    about = (images, share, name)
                    found += [r for r in known if (r["images"], r["share"], r["where"]) == about]
                    continue
                count = max(20, round(galleries * scale))
                found.append(measure(images, share, name, lean, count, population))
                print(found[-1], flush=True)
    MEASUREMENTS.write_text(json.dumps(found, indent=1) + "\n")
    text = PAGE.read_text()
    before, _, rest = text.partition(START)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{START}\n{table(found)}\n{END}{after}")


def measure(
    images: int, share: float, name: str, lean: float, galleries: int, population: int
) -> dict:
    """Return the coverage of each kind, for one query and for the mean of ten."""
    rng = np.random.default_rng([images, round(100 * share), round(100 * lean)])
    queries = rng.standard_normal((QUERIES, DIM))
    queries[:, 0] = lean * np.where(np.arange(QUERIES) % 2, 1, -1)
    m = max(20, images // 10)
    skews = [_skews(_gallery(rng, images, share, queries), m) for _ in range(population)]
    expected = np.mean(skews, axis=0)
    covered: dict[str, dict[str, float]] = {"one": {}, "mean": {}}
    for _ in range(galleries):
        ranking = _gallery(rng, images, share, queries)
        chances = _chances(rng, ranking, m)
        wanted = expected
        if not lean:  # what is printed beside it: the floor of this very gallery
            wanted = np.full(QUERIES, chances[0].mean)
        for (what, kind), held in _held(rng, ranking, m, wanted, chances).items():
            covered[what][kind] = covered[what].get(kind, 0.0) + held / galleries
    return {
        "images": images,
        "share": share,
        "where": name,
        "skew": float(expected.mean()),
        "galleries": galleries,
        **covered,
    }


def _gallery(rng: np.random.Generator, images: int, share: float, queries: np.ndarray) -> Ranking:
    """Return the ranking of a gallery: a first axis that tells two groups, the others noise."""
    first = rng.random(images) < share
    rows = rng.standard_normal((images, DIM))
    rows[:, 0] += np.where(first, 1.0, -1.0)
    order = np.argsort(-(queries @ rows.T), axis=1)
    # deep enough for a resample that draws few of the first
    return Ranking.of(top=order[:, : images // 3 + 60], groups=Coded((~first).astype(int), (0, 1)))


def _skews(ranking: Ranking, m: int) -> np.ndarray:
    return ranking.max_skew(m).values[0]


def _chances(rng: np.random.Generator, ranking: Ranking, m: int) -> tuple[Chance, Chance]:
    """Return what random rankings have, of one query and of the mean, as an audit finds it."""
    codes = ranking.groups.codes
    floor = metrics.max_skew_floor(sensitive_features=codes, m=m)
    alone = _random_skews(rng, codes, m)
    means = shuffled_max_skews(ranking, m, "dataset", PERMUTATIONS, 0, False).mean(1)
    return (
        Chance(floor, float(np.quantile(alone, LEVEL))),
        Chance(floor, float(np.quantile(means, (1 + LEVEL) / 2))),
    )


def _random_skews(rng: np.random.Generator, codes: np.ndarray, m: int) -> np.ndarray:
    """Return the skew of random lists of two groups, which follows from how many are of each."""
    sizes = np.bincount(codes, minlength=2)
    first = rng.hypergeometric(sizes[0], sizes[1], m, LISTS)
    shares = np.stack([first, m - first], axis=1) / m
    with np.errstate(divide="ignore"):
        return np.log(shares / (sizes / sizes.sum())).max(axis=1)


def _held(
    rng: np.random.Generator,
    ranking: Ranking,
    m: int,
    expected: np.ndarray,
    chances: tuple[Chance, Chance],
) -> dict[tuple[str, str], float]:
    """Return whether each interval holds what galleries have on average.

    For one query it is the share of the ten queries whose own interval does.
    """
    times = multiplicities(rng, len(ranking.groups.codes), RESAMPLES)
    values, drawn = _skews(ranking, m), ranking.resampled(times).max_skew(m).values
    jackknife = None
    if len(ranking.groups.codes) <= JACKKNIFED:
        jackknife = _without_each(ranking, m)
    found = {}
    for kind in KINDS:
        if kind == "bca" and jackknife is None:
            continue
        inside = []
        for i, value in enumerate(values):
            without = _column(jackknife, i)
            inside.append(_holds(expected[i], value, drawn[:, i], kind, without, chances[0]))
        found["one", kind] = float(np.mean(inside))
        together = None if jackknife is None else jackknife.mean(1)
        found["mean", kind] = float(
            _holds(expected.mean(), values.mean(), drawn.mean(1), kind, together, chances[1])
        )
    return found


def _holds(
    expected: float,
    value: float,
    drawn: np.ndarray,
    kind: str,
    jackknife: np.ndarray | None,
    chance: Chance,
) -> bool:
    def without() -> list[LeaveOneOut]:
        if jackknife is None:
            return []
        return [LeaveOneOut(jackknife, np.ones(len(jackknife), int))]

    low, high = interval(float(value), drawn, LEVEL, kind, without, POSITIVE)
    if kind == CENTRED:
        low = lifted(float(value), low, chance)
    return bool(low <= expected <= high)


def _without_each(ranking: Ranking, m: int) -> np.ndarray:
    """Return the skew of each query without each image in turn: (images, queries)."""
    images = len(ranking.groups.codes)
    times = (1 - np.eye(images)).astype(np.uint16)
    return ranking.resampled(times).max_skew(m).values


def _column(rows: np.ndarray | None, i: int) -> np.ndarray | None:
    return None if rows is None else rows[:, i]


def table(found: list[dict]) -> str:
    """Return the table of the page."""
    head = ["images", "share", "where", "galleries", "MaxSkew"]
    for what in ("one prompt", "mean of ten"):
        head += [f"{what}, {kind}" for kind in KINDS]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for row in found:
        share = f"{100 * row['share']:.0f} %"
        cells = [f"{row['images']:,}", share, row["where"], f"{row['galleries']:,}"]
        cells.append(f"{row['skew']:.3f}")
        for what in ("one", "mean"):
            for kind in KINDS:
                held = row[what].get(kind)
                cells.append("–" if held is None else f"{100 * held:.1f}")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
