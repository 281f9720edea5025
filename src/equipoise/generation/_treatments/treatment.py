"""``Treatment``: what a method does to the pictures of a run, from the first to the last."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

import numpy as np

from equipoise.generation._manifest import DrawnPicture
from equipoise.generation._painters import Painter
from equipoise.generation._shares import GroupShares
from equipoise.prompts._attribute import Attribute
from equipoise.prompts._stated_groups import explicit_groups

if TYPE_CHECKING:
    from equipoise.generation._plan import DrawingPlan


@dataclass(frozen=True)
class LoopAim:
    """What a closed loop draws for a prompt.

    shares: of the groups. round: of its pilot, from 1 on; 0 in the run itself.
    """

    shares: GroupShares
    strength: float
    round: int


@dataclass(frozen=True)
class DrawingRun:
    """What every method of a run works with.

    aims: method -> prompt -> what a closed loop found; other prompts are drawn as they were asked
    for.
    """

    plan: DrawingPlan
    painter: Painter
    attribute: Attribute
    aims: Mapping[str, Mapping[str, LoopAim]] = field(default_factory=dict)

    def gated(self, prompt: str) -> bool:
        """Return whether the run's gate leaves a prompt as it is."""
        return self.plan.gate and bool(explicit_groups(prompt, self.attribute))


@dataclass(frozen=True)
class TreatmentFacts:
    """What a method says of a picture.

    gated: its prompt was left as it is, and left_alone may say why. spaces: part of the pipeline ->
    hash of its space. drawn: the group that was drawn for it, and shares: with which. wording: what
    the generator was asked for, where that is not the prompt. aim: where a closed loop decided.
    """

    gated: bool
    spaces: Mapping[str, str] = field(default_factory=dict)
    drawn: str = ""
    wording: str = ""
    left_alone: str = ""
    shares: Mapping[str, float] = field(default_factory=dict)
    aim: LoopAim | None = None


class Treatment(ABC):
    """A method at work on a painter; a context manager that leaves the painter as it was."""

    def __init__(self, run: DrawingRun):
        self.run: DrawingRun = run

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave the painter as it was, which is nothing to do unless a method changes it."""
        return

    @abstractmethod
    def paint(self, pictures: Sequence[DrawnPicture]) -> np.ndarray:
        """Return the pictures (n, height, width, 3) as bytes."""

    @abstractmethod
    def says(self, picture: DrawnPicture) -> TreatmentFacts:
        """Return what is to be known of a picture."""


class Untouched(Treatment):
    """The original model: every prompt as it is."""

    def paint(self, pictures: Sequence[DrawnPicture]) -> np.ndarray:
        return self.run.painter.paint([p.prompt for p in pictures], [p.seed for p in pictures])

    def says(self, picture: DrawnPicture) -> TreatmentFacts:
        return TreatmentFacts(gated=self.run.gated(picture.prompt))
