"""What an audit comes to, in numbers: the worst prompts, how many lean beyond chance, which method
did best.
"""

from __future__ import annotations

from typing import Any

WORST = 3


def verdict(results: dict[str, Any]) -> dict[str, Any]:
    """measure: what it goes by, "max_skew" with images and "lean" without.

    worst, best: places among prompts and methods; best is the method of lowest skew, and without
    images the first, because lean falls with kappa by construction and says nothing of the price.

    beyond_chance: prompts of each method above the range of random lists. leans: whether the mean
    is beyond shuffled labels'. said: the worst prompt's lean as a share of what naming the group
    gives. lowered: whether the best method's change is surely negative.
    """
    measure = "lean" if results["chance"] is None else "max_skew"
    row = next(i for i, row in enumerate(results["summary"]) if row["key"] == measure)
    values = results["summary"][row]["values"]
    worst = sorted(
        range(len(results["prompts"])), key=lambda i: -results["prompts"][i][measure][0]["value"]
    )[:WORST]
    best = min(
        range(1, len(values)),
        key=lambda i: values[i]["value"] if measure == "max_skew" else i,
        default=0,
    )
    change = values[best].get("change")
    document: dict[str, Any] = {"measure": measure, "row": row, "worst": worst, "best": best}
    document["said"] = (
        results["prompts"][worst[0]]["lean"][0]["value"] / results["yardstick"]["explicit_lean"]
    )
    document["lowered"] = bool(change and change["high"] is not None and change["high"] < 0)
    if results["chance"] is None:
        return document | {"beyond_chance": None, "leans": None}
    limit = results["chance"]["max_skew"]["high"]
    beyond = [
        sum(entry["max_skew"][i]["value"] > limit for entry in results["prompts"])
        for i in range(len(values))
    ]
    return document | {
        "beyond_chance": beyond,
        "leans": bool(values[0]["value"] > results["chance"]["mean_max_skew"]["high"]),
    }
