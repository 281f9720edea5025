"""What became of the closed loops of a run, by pictures that no pilot saw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from equipoise.generation import _treatments as treatments
from equipoise.generation._measures import UNKNOWN, PictureGrid
from equipoise.generation._plan import DrawingPlan
from equipoise.generation._results_document import (
    LoopOfMethod,
    LoopOfPrompt,
    LoopVerdict,
    SeenGroupShare,
)
from equipoise.generation._share_controller import PilotEnd, SeenShare, seen_shares
from equipoise.generation._steering_document import SteeredMethod, SteeredPrompt, Steering


def loops(
    plan: DrawingPlan,
    cells: PictureGrid,
    codes: np.ndarray | None,
    steering: Steering | None,
    by: str,
) -> list[LoopOfMethod]:
    """Return the closed loops of a run.

    codes: the group (methods, prompts, numbers) that each picture shows; None where nobody was
    asked. by: who was.
    """
    if steering is None:
        return []
    found = []
    for label, spec in plan.specs().items():
        method = steering.of(label)
        if method is not None:
            budget = sum(treatments.pilot_rounds(spec))
            prompts = _prompts(method, cells, codes, steering.level)
            found.append(
                LoopOfMethod(
                    method=label,
                    steered_by=steering.annotator,
                    by=by,
                    budget=budget,
                    level=steering.level,
                    prompts=prompts,
                    left_alone=method.left_alone,
                )
            )
    return found


def _prompts(
    method: SteeredMethod, cells: PictureGrid, codes: np.ndarray | None, level: float
) -> list[LoopOfPrompt]:
    row = cells.methods.index(method.method)
    found = []
    for one in method.prompts:
        shown = None
        if codes is not None:
            shown = codes[row, cells.prompts.index(one.prompt)]
        found.append(_prompt(one, shown, level))
    return found


def _prompt(one: SteeredPrompt, shown: np.ndarray | None, level: float) -> LoopOfPrompt:
    groups = list(one.wanted)
    codes = np.zeros(0, int) if shown is None else shown
    counts = [int((codes == place).sum()) for place in range(len(groups))]
    seen = seen_shares(counts, level)
    first = seen_shares(list(one.rounds[0].counts().values()), level)
    verdict, reason = _judged(one, seen)
    return LoopOfPrompt(
        prompt=one.prompt,
        wanted=one.wanted,
        first=_named(groups, first),
        drawn=one.shares,
        strength=one.strength,
        spent=sum(done.pictures for done in one.rounds),
        seen=_named(groups, seen),
        n=sum(counts),
        left_out=int((codes == UNKNOWN).sum()),
        verdict=verdict,
        reason=reason,
    )


def _named(groups: Sequence[str], shares: Sequence[SeenShare]) -> dict[str, SeenGroupShare]:
    """Return group -> share; {} where no picture counts."""
    if not shares:
        return {}
    found = {}
    for group, share in zip(groups, shares, strict=True):
        found[group] = SeenGroupShare(value=share.value, low=share.low, high=share.high)
    return found


def _judged(one: SteeredPrompt, seen: Sequence[SeenShare]) -> tuple[LoopVerdict, str]:
    """Return whether the run has the wanted shares, and if not, why."""
    if not seen:
        return "not known", "nobody named a group in the pictures of the run"
    pairs = zip(seen, one.wanted.values(), strict=True)
    if all(share.holds(wanted) for share, wanted in pairs):
        return "reached", "the wanted shares are in the interval"
    if one.end in WHY:
        return "could not be moved", WHY[one.end].format(drawn=_drawn(one.shares))
    return "not reached", NOT_REACHED


def _drawn(shares: Mapping[str, float]) -> str:
    return _listed([group for group, share in shares.items() if share > 0])


def _listed(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else words[0]


WHY: dict[PilotEnd, str] = {
    "flat": "the annotator sees the same, as far as the pilot can tell, whichever group is drawn",
    "saturated": "{drawn} alone is drawn, and that does not suffice",
    "unsure": "the annotator named no group in the pilot",
}
NOT_REACHED = (
    "groups can be drawn so, but the pilot was too small to find how, or chance decided; a larger"
    " budget may do"
)
