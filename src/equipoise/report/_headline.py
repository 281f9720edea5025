"""The verdict in one sentence: what leans, what lowers it, and which method made something worse.

A sentence names each number by its place and form in the document: {path|form}.
"""

from __future__ import annotations

from equipoise._audit.results import AuditDocument
from equipoise.report._number_format import NumberPlace


def headline_with_places(document: AuditDocument, at: NumberPlace | None = None) -> str:
    """Return the sentence, with each number named by its place.

    at: the place of the document itself, on a page of several.
    """
    at = at or NumberPlace()
    verdict, name = document.verdict, document.subject.attribute.name
    if verdict.measure == "lean":
        return _texts_only(document, at, name)
    if verdict.state == "leans":
        before = f"Search results lean by {name} for {_leaning(at)}"
        return _sentence([before, *_methods(document, at), *_named_by(document)])
    return _sentence([_unseen(document, at, name), *_harm(document, at), *_named_by(document)])


def _sentence(parts: list[str]) -> str:
    return "; ".join(parts) + "."


def _named_by(document: AuditDocument) -> list[str]:
    """Return who named the groups, where it was the model that is audited."""
    if document.subject.groups_from != "zero-shot":
        return []
    return ["the model itself named the groups"]


def _leaning(at: NumberPlace) -> str:
    return f"{at.verdict.leaning:c} of {at.subject.prompts:n} prompts"


def _texts_only(document: AuditDocument, at: NumberPlace, name: str) -> str:
    state = document.verdict.state
    if state == "leans":
        before = f"{_leaning(at)} that name no group lean by {name}"
    elif state == "no lean seen":
        before = (
            f"No lean by {name} was seen in prompts that name no group, and one of"
            f" {at.verdict.power.smallest:4} would have shown"
        )
    else:
        before = (
            f"The book has too few wordings to say whether prompts that name no group lean by"
            f" {name}"
        )
    return _sentence([before, *_harm(document, at), "no images were searched"])


def _unseen(document: AuditDocument, at: NumberPlace, name: str) -> str:
    """Return what is said where no lean was seen: never that there is none."""
    sight = document.verdict.sight
    known, smallest = at.subject.images.known, at.verdict.power.smallest
    if sight.tells in ("no", "hardly"):
        how = "cannot tell" if sight.tells == "no" else "hardly tells"
        auc = at.summary[sight.probe].values[0].value
        return (
            f"The model {how} {_groups(document)} apart in these images (a trained probe has an AUC"
            f" of {auc:2}, where one half is guessing), and no lean by {name} was seen"
        )
    if document.verdict.state == "no lean seen":
        return (
            f"No lean by {name} was seen in search results, and {known:n} images would have shown"
            f" a group that is {smallest:e%} above its share on average"
        )
    return (
        f"There are too few images to say whether search results lean by {name}: {known:n} show no"
        f" group that is less than {smallest:e%} above its share on average"
    )


def _groups(document: AuditDocument) -> str:
    *others, last = document.subject.attribute.groups
    return f"{', '.join(others)} and {last}"


def _methods(document: AuditDocument, at: NumberPlace) -> list[str]:
    """Return what the methods did to a lean that was seen, harm in every case."""
    chosen = document.recommendation.method
    if not document.verdict.methods:
        return []
    harm = _harm(document, at)
    if chosen is not None:
        return [_lowers(document, at, chosen), *harm]
    outcomes = {one.outcome for one in document.verdict.methods}
    if "lowered" in outcomes:
        return ["no method lowers it without making a prompt worse", *harm]
    if outcomes == {"too few images to say"}:
        return ["there are too few images to say whether a method lowers it", *harm]
    return ["no method was seen to lower it", *harm]


def _lowers(document: AuditDocument, at: NumberPlace, chosen: int) -> str:
    """Return what the recommended method does; the mean may fall where as many prompts lean."""
    verdict = document.verdict
    place = next(i for i, one in enumerate(verdict.methods) if one.method == chosen)
    label, leaning = at.methods[chosen].label, at.verdict.methods[place].leaning
    if len(verdict.methods[place].leaning) < len(verdict.leaning):
        return f"{label:s} lowers that to {leaning:c}"
    return f"{label:s} lowers the mean skew, and {leaning:c} prompts lean with it"


def _harm(document: AuditDocument, at: NumberPlace) -> list[str]:
    """Return, for every method that made something worse, what it did."""
    verdict = document.verdict
    raised = "it"  # the lean that the headline began with
    if verdict.state != "leans":
        raised = "the mean lean" if verdict.measure == "lean" else "the mean skew"
    said = []
    for place in verdict.harmful:
        one = verdict.methods[place]
        label, worse = at.methods[one.method].label, at.verdict.methods[place].worse
        prompts = "prompt" if len(one.worse) == 1 else "prompts"
        if one.outcome == "raised":
            also = f", and makes {worse:c} {prompts} worse" if one.worse else ""
            said.append(f"{label:s} raises {raised}{also}")
        else:
            said.append(f"{label:s} makes {worse:c} {prompts} worse")
    return said
