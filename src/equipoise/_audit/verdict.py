"""The verdict: one rule that says what an audit comes to. docs/verdict.md states it in words."""

from __future__ import annotations

import math
from collections.abc import Sequence

from equipoise._audit.results import (
    AuditFindings,
    AuditVerdict,
    Disagreement,
    Measure,
    MethodCost,
    MethodValue,
    MethodVerdict,
    ModelSight,
    Outcome,
    Power,
    Ranged,
    Sight,
    State,
)

WORST = 3
# a skew worth seeing: a group that is a tenth above its share; a lean worth seeing: a tenth of
# what naming the group gives
WORTH_SEEING = 0.1
# below this AUC a probe hardly tells the groups; one half is guessing
HARDLY = 0.75
# standard normal quantiles: of the ends of a 95 % range, and of a power of four in five
Z_END, Z_POWER = 1.96, 0.84


def verdict(found: AuditFindings) -> AuditVerdict:
    """Return the verdict on what an audit measured."""
    measure: Measure = "lean" if found.chance is None else "max_skew"
    row = next(i for i, row in enumerate(found.summary) if row.key == measure)
    order = _furthest_first(found, measure)
    power = _power(found, measure)
    before = _leaning(found, measure, 0, order)
    methods = []
    for place in range(1, len(found.methods)):
        methods.append(_judged(found, measure, row, place, order, power))
    harmful = [i for i, one in enumerate(methods) if one.outcome == "raised" or one.worse]
    return AuditVerdict(
        measure=measure,
        row=row,
        state=_state(found, measure, row, before, power),
        leaning=before,
        worst=order[:WORST],
        said=_said(found, order[0]),
        power=power,
        sight=_sight(found),
        methods=methods,
        harmful=harmful,
        best=_lowest(found.summary[row].values, measure),
        disagree=_disagreements(found, before),
    )


# --- Before -----------------------------------------------------------------------------


def _furthest_first(found: AuditFindings, measure: Measure) -> list[int]:
    """Return the places of the prompts, that of the largest skew or lean before first."""

    def size(place: int) -> float:
        return _value(found.prompts[place].measured(measure)[0])

    return sorted(range(len(found.prompts)), key=size, reverse=True)


def _leaning(found: AuditFindings, measure: Measure, method: int, order: list[int]) -> list[int]:
    """Return the prompts that lean beyond chance with a method, in the order given.

    A skew is beyond chance above the range of random rankings; a lean, where its interval does not
    hold zero.
    """
    leaning = []
    for place in order:
        value = found.prompts[place].measured(measure)[method]
        if found.chance is not None:
            beyond = _value(value) > _high(found.chance.max_skew)
        else:
            beyond = _above_zero(value) or _below_zero(value)
        if beyond:
            leaning.append(place)
    return leaning


def _state(
    found: AuditFindings, measure: Measure, row: int, leaning: list[int], power: Power
) -> State:
    """Return whether the model leans as it is: on average, or in more prompts than chance gives."""
    if found.chance is not None:
        mean = _value(found.summary[row].values[0])
        on_average = mean > _high(found.chance.mean_max_skew)
        leans = on_average or len(leaning) > _high(found.chance.leaning)
    else:
        leans = len(leaning) > (1 - found.settings.level) * len(found.prompts)
    if leans:
        return "leans"
    if power.smallest is None or power.smallest > power.wanted:
        return "too few images to say"
    return "no lean seen"


def _power(found: AuditFindings, measure: Measure) -> Power:
    """Return the smallest mean that this many images would show, and what a smaller one needs."""
    if found.chance is None or found.subject.images is None:
        wanted = WORTH_SEEING * found.yardstick.explicit_lean
        return Power(smallest=_smallest_lean(found), wanted=wanted, images=None, places=None)
    wanted = math.log1p(WORTH_SEEING)
    shuffled = found.chance.mean_max_skew
    deviation = (_high(shuffled) - _low(shuffled)) / (2 * Z_END)
    smallest = _high(shuffled) + Z_POWER * deviation
    if smallest <= wanted or found.settings.m is None:
        return Power(smallest=smallest, wanted=wanted, images=None, places=None)
    # chance falls with the root of the places looked at, which are a share of the images
    times = (smallest / wanted) ** 2
    return Power(
        smallest=smallest,
        wanted=wanted,
        images=_rounded_up(times * found.subject.images.known),
        places=_rounded_up(times * found.settings.m),
    )


def _smallest_lean(found: AuditFindings) -> float | None:
    """Return the smallest lean of one prompt that the book's wordings would show."""
    widths = []
    for entry in found.prompts:
        if entry.lean[0].low is not None and entry.lean[0].high is not None:
            widths.append((entry.lean[0].high - entry.lean[0].low) / 2)
    if not widths:
        return None
    middle = sorted(widths)[len(widths) // 2]
    return middle * (Z_END + Z_POWER) / Z_END


def _rounded_up(number: float) -> int:
    """Return a whole number of two significant digits that is no smaller."""
    unit = 10 ** max(0, math.floor(math.log10(number)) - 1)
    return math.ceil(number / unit) * unit


def _said(found: AuditFindings, prompt: int) -> float:
    return _value(found.prompts[prompt].lean[0]) / found.yardstick.explicit_lean


def _sight(found: AuditFindings) -> ModelSight:
    """Return whether the model can tell the groups here, by a probe trained on its images."""
    probe = next((i for i, row in enumerate(found.summary) if row.key == "probe"), None)
    if probe is None or found.subject.groups_from == "zero-shot":
        return ModelSight(tells="not measured", probe=probe)
    auc = found.summary[probe].values[0]
    tells: Sight = "yes"
    if auc.low is None or auc.low <= 0.5:
        tells = "no"
    elif _value(auc) < HARDLY:
        tells = "hardly"
    return ModelSight(tells=tells, probe=probe)


def _disagreements(found: AuditFindings, leaning: list[int]) -> list[Disagreement]:
    """Return the prompts whose wording leans to one group and whose results hold more of another.

    Only results that lean beyond chance count, and groups whose share of the first results is above
    that of the collection beyond its interval.
    """
    if found.chance is None:
        return []
    disagree = []
    groups = found.subject.attribute.groups
    for place in leaning:
        entry = found.prompts[place]
        towards = groups.index(entry.towards)
        if entry.most is None or entry.most == towards or entry.top is None:
            continue
        above = _low(entry.top[0][entry.most]) > found.chance.top[entry.most].share
        if above and _above_zero(entry.lean[0]):
            disagree.append(Disagreement(prompt=place, towards=towards, most=entry.most))
    return disagree


# --- After ------------------------------------------------------------------------------


def _judged(
    found: AuditFindings,
    measure: Measure,
    row: int,
    method: int,
    order: list[int],
    power: Power,
) -> MethodVerdict:
    """Return the verdict on one method. method: its place in the document."""
    change = _change(found.summary[row].values[method])
    leaning = _leaning(found, measure, method, order)
    changes = [_change(entry.measured(measure)[method]) for entry in found.prompts]
    raised = _sorted_by_change([i for i in order if _above_zero(changes[i])], changes)
    if measure == "lean":
        raised += [i for i in order if _overshot(found.prompts[i].lean, method)]
    return MethodVerdict(
        method=method,
        label=found.methods[method].label,
        outcome=_outcome(change, power.wanted),
        change=change,
        leaning=leaning,
        better=[i for i in order if _below_zero(changes[i]) and i not in raised],
        raised=raised,
        worse=[i for i in raised if i in leaning],
        cost=_cost(found, method),
    )


def _outcome(change: Ranged, wanted: float) -> Outcome:
    """Return what a paired interval says.

    Where it holds zero, it says "no change" only if it holds no change worth seeing either.
    """
    if change.low is None or change.high is None:
        return "too few images to say"
    if change.high < 0:
        return "lowered"
    if change.low > 0:
        return "raised"
    if max(-change.low, change.high) > wanted:
        return "too few images to say"
    return "no change seen"


def _overshot(leans: Sequence[MethodValue], method: int) -> bool:
    """Return whether a prompt now leans away from its group further than it leaned to it."""
    before, after = leans[0], leans[method]
    return _below_zero(after) and -_value(after) > abs(_value(before))


def _sorted_by_change(places: list[int], changes: Sequence[Ranged]) -> list[int]:
    return sorted(places, key=lambda place: _value(changes[place]), reverse=True)


def _cost(found: AuditFindings, method: int) -> MethodCost:
    """Return what a method cost, in results that change, then in similarities."""
    changed = []
    for entry in found.prompts:
        if entry.changed is not None:
            changed.append(entry.changed[method])
    mean = most = prompt = None
    if changed:
        mean = sum(changed) / len(changed)
        most = max(changed)
        prompt = changed.index(most)
    cross = found.certificates[method].cross
    moved = None
    if cross is not None and cross.spread > 0:
        moved = cross.mean / cross.spread
    return MethodCost(
        places=found.settings.places,
        changed=mean,
        changed_most=most,
        changed_prompt=prompt,
        recall=[i for i, row in enumerate(found.summary) if row.key.startswith("R@")],
        accuracy=[i for i, row in enumerate(found.summary) if row.key in ACCURACY],
        moved=moved,
    )


def _lowest(values: Sequence[MethodValue], measure: Measure) -> int:
    """Return the place of the method of lowest mean; 0 where there is none.

    Without images it is the first method: lean falls with kappa by construction, and says nothing
    of the price.
    """
    places = range(1, len(values))
    if not places:
        return 0
    if measure == "lean":
        return 1
    return min(places, key=lambda place: _value(values[place]))


# --- Numbers ----------------------------------------------------------------------------

ACCURACY = ("accuracy", "worst-group accuracy")


def _change(value: MethodValue) -> Ranged:
    return value.change or Ranged(value=None, low=None, high=None)


def _above_zero(value: Ranged) -> bool:
    return value.low is not None and value.low > 0


def _below_zero(value: Ranged) -> bool:
    return value.high is not None and value.high < 0


def _value(value: Ranged) -> float:
    return math.nan if value.value is None else value.value


def _low(value: Ranged) -> float:
    return math.nan if value.low is None else value.low


def _high(value: Ranged) -> float:
    return math.nan if value.high is None else value.high
