"""What an audit comes to, in numbers: the worst prompts, how many lean, which method did best."""

from __future__ import annotations

from typing import Any

WORST = 3


def verdict(results: dict[str, Any]) -> dict[str, Any]:
    """Return the verdict on an audit's results.

    measure: what the verdict goes by, "max_skew" with images and "lean" without. row: its place in
    the summary. worst, best: places among prompts and methods. best is the method of lowest skew.
    Without images it is the first method, because lean falls with kappa by construction and says
    nothing of the price.

    beyond_chance: for each method, the number of prompts above the range of random lists. leans:
    whether the mean is above that of shuffled labels. said: the worst prompt's lean as a share of
    what naming the group gives. lowered: whether the best method's change is surely negative.
    """
    prompts, chance = results["prompts"], results["chance"]
    measure = "lean" if chance is None else "max_skew"
    row = next(i for i, row in enumerate(results["summary"]) if row["key"] == measure)
    values = results["summary"][row]["values"]
    worst = _worst_prompts(prompts, measure)
    best = _best_method(values, measure)
    said = prompts[worst[0]]["lean"][0]["value"] / results["yardstick"]["explicit_lean"]
    change = values[best].get("change")
    lowered = bool(change and change["high"] is not None and change["high"] < 0)
    beyond, leans = None, None
    if chance is not None:
        limit = chance["max_skew"]["high"]
        beyond = [_count_beyond(limit, prompts, method) for method in range(len(values))]
        leans = bool(values[0]["value"] > chance["mean_max_skew"]["high"])
    return {
        "measure": measure,
        "row": row,
        "worst": worst,
        "best": best,
        "said": said,
        "lowered": lowered,
        "beyond_chance": beyond,
        "leans": leans,
    }


def _worst_prompts(prompts: list[dict[str, Any]], measure: str) -> list[int]:
    """Return the places of the prompts that are furthest off before debiasing."""

    def size(place: int) -> float:
        return prompts[place][measure][0]["value"]

    return sorted(range(len(prompts)), key=size, reverse=True)[:WORST]


def _best_method(values: list[dict[str, Any]], measure: str) -> int:
    """Return the place of the best method; 0 where there is none."""
    places = range(1, len(values))
    if not places:
        return 0
    if measure == "lean":
        return 1
    return min(places, key=lambda place: values[place]["value"])


def _count_beyond(limit: float, prompts: list[dict[str, Any]], method: int) -> int:
    """Return how many prompts have a skew above the limit with this method."""
    return sum(entry["max_skew"][method]["value"] > limit for entry in prompts)
