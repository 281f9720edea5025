"""The recommendation: one rule that chooses a method, or none (docs/verdict.md)."""

from __future__ import annotations

from equipoise._audit.results import (
    AuditFindings,
    AuditVerdict,
    MethodVerdict,
    PassedOver,
    Recommendation,
)

RULE = (
    "Of the methods that lower the mean skew beyond chance and make no prompt worse beyond its"
    " interval, the one that lowers it most. Where the paired interval cannot tell another from it,"
    " the one of them that changes fewest results."
)
TEXTS_ONLY = (
    "Without images nothing is recommended: any method lowers the lean of texts, and only images"
    " show what that costs a search."
)


def recommend(found: AuditFindings, judged: AuditVerdict) -> Recommendation:
    """Return the method that the rule chooses, and why the others were passed over."""
    chosen, reason = _choose(found, judged)
    passed_over = []
    for one in judged.methods:
        if chosen is None or one.method != chosen.method:
            why = _why_not(found, one, judged, chosen)
            passed_over.append(PassedOver(method=one.method, why=why))
    return Recommendation(
        method=None if chosen is None else chosen.method,
        rule=RULE,
        why=reason,
        passed_over=passed_over,
        file=None,
        python=[],
        shell=[],
        back="",
    )


def _choose(found: AuditFindings, judged: AuditVerdict) -> tuple[MethodVerdict | None, str]:
    if found.chance is None:
        return None, TEXTS_ONLY
    if judged.state != "leans":
        return None, "No lean beyond chance was seen, so there is nothing to lower."
    candidates = [one for one in judged.methods if one.outcome == "lowered" and not one.worse]
    if not candidates:
        return None, "No method lowers the lean without making a prompt worse."
    best = min(candidates, key=_change)
    alike = [one for one in candidates if one is best or _alike(found, one, best)]
    chosen = min(alike, key=_changed)
    if len(candidates) == 1:
        return chosen, "It is the only method that lowers the lean and makes no prompt worse."
    if chosen is best:
        return chosen, "It lowers the lean most, and makes no prompt worse."
    return chosen, (
        f"{best.label} changes more results, and lowers the lean no further than the interval can"
        " tell."
    )


def _why_not(
    found: AuditFindings, one: MethodVerdict, judged: AuditVerdict, chosen: MethodVerdict | None
) -> str:
    """Return why a method is not the one recommended."""
    if judged.measure == "lean":
        return "only texts were measured"
    if one.outcome != "lowered":
        return {
            "raised": "it raises the mean skew",
            "no change seen": "no change of the mean skew was seen",
        }.get(one.outcome, "there are too few images to say what it does")
    if one.worse:
        prompts = "1 prompt" if len(one.worse) == 1 else f"{len(one.worse)} prompts"
        return f"it makes {prompts} worse"
    if chosen is None:
        return "there was no lean to lower"
    if _alike(found, one, chosen):
        return "it lowers the mean skew about as much, and changes more results"
    return "it lowers the mean skew less"


def _alike(found: AuditFindings, one: MethodVerdict, other: MethodVerdict) -> bool:
    """Return whether the paired interval of their difference holds zero."""
    for gap in found.gaps:
        if {gap.method, gap.other} == {one.method, other.method}:
            low, high = gap.difference.low, gap.difference.high
            return low is None or high is None or low <= 0 <= high
    return False


def _change(one: MethodVerdict) -> float:
    return one.change.value or 0.0


def _changed(one: MethodVerdict) -> float:
    return one.cost.changed or 0.0
