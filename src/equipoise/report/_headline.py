"""The verdict in one sentence: what leans, what lowers it, and which method made something worse.

A sentence names each number by its place and form in the results: {path|form}.
"""

from __future__ import annotations

from typing import Any

Results = dict[str, Any]


def headline_with_places(results: Results) -> str:
    """Return the sentence, with each number named by its place."""
    found = results["verdict"]
    name = results["subject"]["attribute"]["name"]
    if found["measure"] == "lean":
        return _texts_only(results, name)
    if found["state"] == "leans":
        before = f"Search results lean by {name} for {_of_prompts('verdict.leaning|c')}"
        return _sentence([before, *_methods(results), *_named_by(results)])
    return _sentence([_unseen(results, name), *_harm(results), *_named_by(results)])


def _sentence(parts: list[str]) -> str:
    return "; ".join(parts) + "."


def _named_by(results: Results) -> list[str]:
    """Return who named the groups, where it was the model that is audited."""
    if results["subject"]["groups_from"] != "zero-shot":
        return []
    return ["the model itself named the groups"]


def _of_prompts(count: str) -> str:
    return f"{{{count}}} of {{subject.prompts|n}} prompts"


def _texts_only(results: Results, name: str) -> str:
    found = results["verdict"]
    if found["state"] == "leans":
        before = f"{_of_prompts('verdict.leaning|c')} that name no group lean by {name}"
    elif found["state"] == "no lean seen":
        before = (
            f"No lean by {name} was seen in prompts that name no group, and one of"
            " {verdict.power.smallest|4} would have shown"
        )
    else:
        before = (
            f"The book has too few wordings to say whether prompts that name no group lean by"
            f" {name}"
        )
    return _sentence([before, *_harm(results), "no images were searched"])


def _unseen(results: Results, name: str) -> str:
    """Return what is said where no lean was seen: never that there is none."""
    found = results["verdict"]
    sight = found["sight"]
    if sight["tells"] in ("no", "hardly"):
        how = "cannot tell" if sight["tells"] == "no" else "hardly tells"
        return (
            f"The model {how} {_groups(results)} apart in these images (a trained probe has an AUC"
            f" of {{summary.{sight['probe']}.values.0.value|2}}, where one half is guessing), and"
            f" no lean by {name} was seen"
        )
    if found["state"] == "no lean seen":
        return (
            f"No lean by {name} was seen in search results, and {{subject.images.known|n}} images"
            " would have shown a group that is {verdict.power.smallest|e%} above its share on"
            " average"
        )
    return (
        f"There are too few images to say whether search results lean by {name}:"
        " {subject.images.known|n} show no group that is less than {verdict.power.smallest|e%}"
        " above its share on average"
    )


def _groups(results: Results) -> str:
    *others, last = results["subject"]["attribute"]["groups"]
    return f"{', '.join(others)} and {last}"


def _methods(results: Results) -> list[str]:
    """Return what the methods did to a lean that was seen, harm in every case."""
    found = results["verdict"]
    chosen = results["recommendation"]["method"]
    if not found["methods"]:
        return []
    if chosen is not None:
        return [_lowers(results, chosen), *_harm(results)]
    outcomes = {one["outcome"] for one in found["methods"]}
    if "lowered" in outcomes:
        return ["no method lowers it without making a prompt worse", *_harm(results)]
    if outcomes == {"too few images to say"}:
        return ["there are too few images to say whether a method lowers it", *_harm(results)]
    return ["no method was seen to lower it", *_harm(results)]


def _lowers(results: Results, chosen: int) -> str:
    """Return what the recommended method does; the mean may fall where as many prompts lean."""
    found = results["verdict"]
    place = next(i for i, one in enumerate(found["methods"]) if one["method"] == chosen)
    label = f"{{methods.{chosen}.label|s}}"
    count = f"{{verdict.methods.{place}.leaning|c}}"
    if len(found["methods"][place]["leaning"]) < len(found["leaning"]):
        return f"{label} lowers that to {count}"
    return f"{label} lowers the mean skew, and {count} prompts lean with it"


def _harm(results: Results) -> list[str]:
    """Return, for every method that made something worse, what it did."""
    raised = "it"  # the lean that the headline began with
    if results["verdict"]["state"] != "leans":
        raised = "the mean lean" if results["verdict"]["measure"] == "lean" else "the mean skew"
    said = []
    for place in results["verdict"]["harmful"]:
        one = results["verdict"]["methods"][place]
        label = f"{{methods.{one['method']}.label|s}}"
        worse = f"{{verdict.methods.{place}.worse|c}}"
        prompts = "prompt" if len(one["worse"]) == 1 else "prompts"
        if one["outcome"] == "raised":
            also = f", and makes {worse} {prompts} worse" if one["worse"] else ""
            said.append(f"{label} raises {raised}{also}")
        else:
            said.append(f"{label} makes {worse} {prompts} worse")
    return said
