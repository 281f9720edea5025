"""``SweepResults``: what the file of a sweep holds, field by field."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from equipoise._documents import Document, FreeValue, Number
from equipoise.evaluation._run_document import (
    Better,
    Difference,
    FileFacts,
    ImageCounts,
    RunFacts,
)

KIND, FORMAT = "equipoise sweep", 1


class SweepAxis(Document):
    """A metric that points are drawn by."""

    metric: str
    better: Better
    n: int = Field(description="How many were resampled.")
    floor: Number = Field(description="What a random ranking has; null where there is none.")


class PointValue(Document):
    """Where a point lies on one axis; nulls where the metric was not measured."""

    value: Number
    low: Number
    high: Number
    difference: Difference | None


class SweepPoint(Document):
    """A method at one value of its strength."""

    series: str = Field(description="The method without its strength; points of one line share it.")
    label: str
    param: str | None = Field(description="The name of its strength, or null.")
    value: FreeValue = Field(description="The value of its strength, or null.")
    default: bool = Field(description="Whether this is the default value.")
    fairness: PointValue
    utility: PointValue
    front: bool = Field(description="Whether no other point beats it in both.")

    @property
    def measured(self) -> bool:
        """Return whether the point has both values."""
        return self.fairness.value is not None and self.utility.value is not None


class LeftOut(Document):
    """A point that could not be measured, and why."""

    label: str
    reason: str


class SweepResults(RunFacts, FileFacts):
    """Methods at every value of their strength, as points of fairness against utility."""

    kind: Literal["equipoise sweep"]
    counts: ImageCounts
    title: str
    note: str
    fairness: SweepAxis
    utility: SweepAxis
    points: list[SweepPoint]
    left_out: list[LeftOut]

    def __repr__(self) -> str:
        return f"SweepResults({self.title}: {len(self.points)} points)"
