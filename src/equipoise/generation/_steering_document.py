"""``Steering``: what the closed loop of a run found; pilot/steering.json, field by field."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from equipoise._artefact import write_atomically
from equipoise._documents import Document, read_document
from equipoise.generation._share_controller import PilotEnd

FOLDER = "pilot"
STEERING = "steering.json"
FORMAT = 1


class PilotRound(Document):
    """A round of a pilot: what was drawn, and what the annotator saw."""

    strength: float
    shares: dict[str, float] = Field(description="Group -> the share that was drawn.")
    seen: dict[str, dict[str, int]] = Field(
        description="Group that was drawn -> group that was seen -> pictures."
    )
    unsure: int = Field(description="Pictures of which the annotator named no group.")

    def counts(self) -> dict[str, int]:
        """Return group -> pictures that were seen as it, whatever was drawn."""
        total = dict.fromkeys(self.shares, 0)
        for row in self.seen.values():
            for group, count in row.items():
                total[group] += count
        return total

    @property
    def pictures(self) -> int:
        """Return how many pictures the round has."""
        return sum(self.counts().values()) + self.unsure


class SteeredPrompt(Document):
    """What the pilot of a prompt found."""

    prompt: str
    wanted: dict[str, float] = Field(description="Group -> the share that is aimed at.")
    shares: dict[str, float] = Field(description="Group -> the share that the run draws.")
    strength: float = Field(ge=0, le=1, description="0: the wanted shares. 1: a group is left out.")
    end: PilotEnd
    rounds: list[PilotRound]


class SteeredMethod(Document):
    """A method of a run whose shares were adjusted, prompt by prompt."""

    method: str
    prompts: list[SteeredPrompt]
    left_alone: dict[str, str] = Field(description="Prompt -> why no group is drawn for it.")


class Steering(Document):
    """The closed loops of a run that are finished."""

    kind: Literal["equipoise steering"] = "equipoise steering"
    format: int = FORMAT
    annotator: str = Field(description="Who labelled the pictures of the pilot.")
    level: float = Field(description="Of the intervals by which the pilot settles.")
    methods: list[SteeredMethod]

    def of(self, method: str) -> SteeredMethod | None:
        """Return what was found for a method; None where its loop is not finished."""
        return next((found for found in self.methods if found.method == method), None)

    def save(self, folder: Path) -> None:
        """Write it into a run's folder; every field, so that a reader need not know defaults."""
        path = folder / FOLDER / STEERING
        write_atomically(path, (self.model_dump_json(indent=1) + "\n").encode())


def read_steering(folder: Path) -> Steering | None:
    """Return what the closed loops of a run found; None where there are none."""
    path = folder / FOLDER / STEERING
    if not path.is_file():
        return None
    remedy = "delete it, and the same command steers again from the pictures of the pilot"
    return read_document(
        Steering, path.read_bytes(), path, "the steering of a run", remedy, newest=FORMAT
    )
