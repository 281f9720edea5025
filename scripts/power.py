"""Write docs/power.md, how many results show which lean of one prompt, computed exactly: python -m scripts.power.

Two groups. A random ranking puts a hypergeometric number of a group among the first M; a ranking that prefers the group
by given odds puts Fisher's noncentral hypergeometric number there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.stats import hypergeom, nchypergeom_fisher

PAGE = Path(__file__).resolve().parents[1] / "docs" / "power.md"
SHARES = (0.5, 0.2, 0.05)  # of the group, in the collection
RESULTS = (20, 50, 100, 200, 500, 1000)
IMAGES_PER_RESULT = 10  # an audit looks at the first tenth of a small collection
SEEN = 0.8

TEXT = """# How many images for which lean

You want to know whether your collection is large enough to show the lean that you care about. This page says what one prompt needs, computed exactly by `python -m scripts.power`. The mean over many prompts needs less,
and [the verdict](verdict.md) of an audit says how much less for yours.

A ranking that ignores the group still puts more or fewer of it first by chance. A prompt *leans beyond chance* if its MaxSkew is above that of 95 % of random rankings. The table is for two groups and a collection of ten images per result.

- **by chance**: the mean MaxSkew of random rankings, its floor.
- **beyond chance from**: how many of the first results must belong to the group before the prompt counts as leaning to it.
- **seen four times in five**: the share of the group that a model must really give, so that the prompt is found to lean to it in four audits of five. A smaller lean may be there and not be seen.

{table}

Three things follow.

- **The first page is short.** With 20 results of a balanced collection, a model that gives a group {example} of the places is found four times in five, and one that gives it 60 % mostly is not. Look at more results, at more prompts, or both.
- **Rare groups need many results.** If a group is a twentieth of the collection, 20 results have one of it on average. That it is missing from a page says nothing.
- **Not seen is not absent.** An audit that finds no lean says which lean it could have seen. Quote both.
"""


def page() -> str:
    """Return the page with its table."""
    head = [
        "| share in the collection | images | first results | by chance | beyond chance from | seen four times in five |",
        "|---|---|---|---|---|---|",
    ]
    rows = [row(share, results) for share in SHARES for results in RESULTS]
    _, seen = power(0.5, 20)
    return TEXT.format(table="\n".join(head + rows), example=percent(seen))


def row(share: float, results: int) -> str:
    """Return one row of the table."""
    images = IMAGES_PER_RESULT * results
    floor, _, first = chance(share, results)
    _, seen = power(share, results)
    cells = [
        percent(share),
        f"{images:,}",
        f"{results:,}",
        f"{100 * floor:.1f} %",
        f"{first} of {results:,}",
        percent(seen),
    ]
    return f"| {' | '.join(cells)} |"


def chance(share: float, results: int) -> tuple[float, float, int]:
    """Return the mean and the 95 % quantile of random rankings, and the first count beyond it."""
    counts, skews = skews_of(share, results)
    images = IMAGES_PER_RESULT * results
    probabilities = hypergeom.pmf(counts, images, round(share * images), results)
    order = np.argsort(skews, kind="stable")
    reached = np.cumsum(probabilities[order]) >= 0.95 - 1e-12
    limit = skews[order][np.argmax(reached)]
    beyond = counts[(skews > limit) & (counts > share * results)]
    return float(probabilities @ skews), float(limit), int(beyond[0])


def power(share: float, results: int) -> tuple[float, float]:
    """Return the odds at which a lean is seen four times in five, and the share that they give."""
    images = IMAGES_PER_RESULT * results
    _, _, first = chance(share, results)

    def ranking(odds: float) -> Any:
        return nchypergeom_fisher(images, round(share * images), results, odds)

    odds: Any = brentq(lambda odds: ranking(odds).sf(first - 1) - SEEN, 1.0, 1000.0)
    return odds, ranking(odds).mean() / results


def skews_of(share: float, results: int) -> tuple[np.ndarray, np.ndarray]:
    """Return every count of the group among the results, and its MaxSkew."""
    counts = np.arange(results + 1)
    with np.errstate(divide="ignore"):
        group = np.log(counts / results / share)
        others = np.log((results - counts) / results / (1 - share))
    return counts, np.maximum(group, others)


def percent(share: float) -> str:
    return f"{100 * share:.0f} %"


if __name__ == "__main__":
    PAGE.write_text(page())
