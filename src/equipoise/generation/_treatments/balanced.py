"""``balanced`` for generation: a group is drawn for each picture, and its prompt goes there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from equipoise.errors import InputError
from equipoise.generation._group_draws import DrawnGroup, GroupDraws
from equipoise.generation._manifest import DrawnPicture
from equipoise.generation._quota import WINDOW
from equipoise.generation._shares import EQUAL
from equipoise.generation._states_towards import StatesTowards, steer
from equipoise.generation._treatments.treatment import (
    DrawingRun,
    LoopAim,
    Treatment,
    TreatmentFacts,
)

HOW = ("prompt", "states")
LEAST = 4  # pictures of a round: of fewer, all alike, the interval still holds one half


@dataclass(frozen=True)
class BalancedDrawing:
    """``balanced`` as it is typed.

    how: "prompt" asks for the group's anchor, which works with any generator; "states" moves the
    prompt's states along the attribute space to where the anchor's are. strength: how far of that
    way. budget: pictures per prompt of a pilot, by which the shares that are drawn are adjusted
    until an annotator sees those asked for; 0 for none. rounds: how often they may be adjusted.
    """

    how: Literal["prompt", "states"] = "prompt"
    strength: float = 1.0
    budget: int = 0
    rounds: int = 3

    def __post_init__(self) -> None:
        if self.how not in HOW:
            raise InputError(f"how={self.how!r} is not legal; pass one of {', '.join(HOW)}")
        if not isinstance(self.strength, int | float) or not 0 <= self.strength < np.inf:
            raise InputError(f"strength={self.strength!r} is not legal; it is a number from 0")
        if self.how == "prompt" and self.strength != 1:
            raise InputError(
                f"strength={self.strength} goes with how=states; a wording has no strength"
            )
        if not _whole(self.rounds, 1):
            raise InputError(f"rounds={self.rounds!r} is not legal; it is a whole number from 1")
        least = LEAST * self.rounds
        if self.budget != 0 and not _whole(self.budget, least):
            raise InputError(
                f"budget={self.budget!r} is not legal; {self.rounds} rounds need a whole number"
                f" of pictures per prompt, from {least}; 0 is for no closed loop"
            )

    @property
    def needs_pipe(self) -> bool:
        return self.how == "states"

    def open(self, run: DrawingRun) -> Treatment:
        """Return it at work on a run."""
        if self.how == "prompt":
            return GroupWordings(run)
        return GroupStates(run, self.strength)


def _whole(number: object, least: int) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and number >= least


class DrawnGroups(Treatment):
    """Draws a group for each picture of a run."""

    def __init__(self, run: DrawingRun):
        super().__init__(run)
        plan = run.plan
        self.draws = GroupDraws(run.attribute, EQUAL, plan.book or None, shares=plan.shares)
        self._places = {asked.prompt: place for place, asked in enumerate(plan.prompts)}
        self._aims: dict[str, LoopAim] = {}

    def aim(self, aims: Mapping[str, LoopAim]) -> None:
        """Draw prompts with the shares that a closed loop chose, from now on."""
        self._aims |= aims
        for prompt, aim in aims.items():
            self.draws.aim(prompt, aim.shares)

    def drawn(self, picture: DrawnPicture) -> DrawnGroup:
        """Return what is drawn for a picture: by its number, and its prompt's place in the run.

        So the pictures of a prompt have the shares, and so have first pictures of many prompts. A
        picture that is drawn again keeps its group.
        """
        first = self.run.plan.seed % WINDOW + self._places[picture.prompt]
        return self.draws(picture.prompt, first + picture.number)

    def says(self, picture: DrawnPicture) -> TreatmentFacts:
        drawn = self.drawn(picture)
        if drawn.left_alone:
            return TreatmentFacts(gated=True, left_alone=drawn.left_alone)
        shares = self.draws.shares(picture.prompt)
        aim = self._aims.get(picture.prompt)
        return TreatmentFacts(gated=False, drawn=drawn.group, shares=shares, aim=aim)


class GroupWordings(DrawnGroups):
    """The generator is asked for the drawn group's anchor."""

    def __init__(self, run: DrawingRun):
        super().__init__(run)
        wordings = []
        for asked in run.plan.prompts:
            if not self.draws.left_alone(asked.prompt):
                wordings += self.draws.anchors(asked.prompt).values()
        run.painter.require(wordings)

    def paint(self, pictures: Sequence[DrawnPicture]) -> np.ndarray:
        wordings = [self.drawn(picture).wording for picture in pictures]
        return self.run.painter.paint(wordings, [picture.seed for picture in pictures])

    def says(self, picture: DrawnPicture) -> TreatmentFacts:
        drawn = self.drawn(picture)
        wording = "" if drawn.left_alone else drawn.wording
        return replace(super().says(picture), wording=wording)


class GroupStates(DrawnGroups):
    """The prompt's states are moved to where the drawn group's anchor is in the attribute space."""

    def __init__(self, run: DrawingRun, strength: float):
        super().__init__(run)
        plan = run.plan
        self.steered: StatesTowards = steer(
            run.painter.require_pipe("balanced:how=states"),
            self.draws,
            book=plan.book or None,
            tokens=plan.tokens,
            strength=strength,
            seed=plan.seed,
        )

    def close(self) -> None:
        self.steered.remove()

    def paint(self, pictures: Sequence[DrawnPicture]) -> np.ndarray:
        groups = [self.drawn(picture).group for picture in pictures]
        painted: dict[int, np.ndarray] = {}
        for group in dict.fromkeys(groups):
            places = [i for i, drawn in enumerate(groups) if drawn == group]
            some = [pictures[i] for i in places]
            with self.steered.towards(group):
                drawn = self.run.painter.paint([p.prompt for p in some], [p.seed for p in some])
            painted.update(zip(places, drawn, strict=True))
        return np.stack([painted[i] for i in range(len(pictures))])

    def says(self, picture: DrawnPicture) -> TreatmentFacts:
        spaces = {part: space.fingerprint for part, space in self.steered.hook.spaces.items()}
        return replace(super().says(picture), spaces=spaces)
