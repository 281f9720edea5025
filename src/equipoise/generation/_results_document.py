"""``GenerationResults``: what results.json of a generation run holds, field by field."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, field_serializer

from equipoise._documents import Document, Number
from equipoise.evaluation._run_document import Better
from equipoise.generation._plan import DrawingPlan
from equipoise.prompts._attribute_document import AttributeFacts

KIND = "equipoise generation"
LoopVerdict = Literal["reached", "could not be moved", "not reached", "not known"]


class AnnotatorFacts(Document):
    """The model that labelled the pictures."""

    name: str
    question: str
    same: bool = Field(description="Whether it is the encoder that conditioned the pictures.")


class PeopleFacts(Document):
    """The people who labelled the pictures."""

    annotators: int
    least: int = Field(description="Answers that a picture needs.")
    settled: int
    unsettled: int = Field(description="Pictures that somebody is unsure of or disagrees on.")
    unseen: int
    of_replaced: int = Field(description="Labelled pictures that were replaced since.")


class ScorerFacts(Document):
    """The encoder of the CLIP score."""

    encoder: str
    same: bool = Field(description="Whether it is the encoder that conditioned the pictures.")


class ResampleFacts(Document):
    """How the intervals were made."""

    resamples: int
    level: float
    interval: str


class ChosenPrompts(Document):
    """The prompts that people label: chosen once, when the folder is first measured."""

    neutral: list[str] = Field(description="Those with the largest SP.")
    explicit: list[str] = Field(description="Those with the lowest CLIP score.")


class TableColumn(Document):
    """A column of the table."""

    key: str
    name: str
    better: Better
    by: str = Field(description="Who labelled or scored.")
    prompts: int


class ChangeFromFirst(Document):
    """The change from the original model, with its interval."""

    value: Number
    low: Number
    high: Number


class TableCell(Document):
    """A number of a method, with its interval."""

    value: Number
    low: Number
    high: Number
    change: ChangeFromFirst | None = Field(default=None, description="Not of the first method.")
    n: int = Field(description="Pictures that count.")
    left_out: int = Field(description="Pictures of which nothing is known.")


class DrawnMethod(Document):
    """A row of the table."""

    label: str
    pictures: int
    regenerated: int = Field(description="Pictures that were replaced.")
    attempts: int = Field(description="How often pictures were replaced.")
    cells: dict[str, TableCell] = Field(description="By the keys of the columns.")


class ShownGroups(Document):
    """How many pictures of a prompt and method show each group, and their SP."""

    counts: dict[str, int]
    sp: Number


class PromptOfMethod(Document):
    """What is known of a prompt's pictures by one method."""

    model: ShownGroups | None = Field(default=None, description="By the annotator.")
    people: ShownGroups | None = None
    clip: Number = Field(default=None, description="The mean CLIP score.")


class PromptResults(Document):
    """A prompt, and its pictures by each method, in the order of the methods."""

    prompt: str
    groups: list[str] = Field(description="Those that it names.")
    neutral: str = Field(description="The prompt that it makes explicit, or an empty text.")
    explicit_group: str
    methods: list[PromptOfMethod]


class ShownPicture(Document):
    """A picture of a figure."""

    image: str
    group: str = Field(description="The group that it shows; empty where not known.")
    mark: int | None = Field(description="Its number among those of the marked groups.")


class FigureRow(Document):
    """The pictures of one method."""

    method: str
    neutral: list[ShownPicture]
    explicit: list[ShownPicture]


class Figure(Document):
    """The pictures of a neutral prompt, and of the explicit prompt that belongs to it."""

    neutral: str
    explicit: str
    minority: str = Field(description="The rarer group under the original model.")
    rows: list[FigureRow]


class SeenGroupShare(Document):
    """The share of a group among the pictures that the annotator was sure of, with its interval."""

    value: Number
    low: Number
    high: Number


class LoopOfPrompt(Document):
    """A prompt of a closed loop: what was wanted, what its pilot found, and what the run shows."""

    prompt: str
    wanted: dict[str, float] = Field(description="Group -> the share that is aimed at.")
    first: dict[str, SeenGroupShare] = Field(
        description="What the first round of the pilot showed; empty where nobody could tell."
    )
    drawn: dict[str, float] = Field(description="Group -> the share that the run drew.")
    strength: float = Field(description="0: the wanted shares were drawn. 1: a group was left out.")
    spent: int = Field(description="Pictures of the pilot.")
    seen: dict[str, SeenGroupShare] = Field(
        description="What the run itself showed, of which no picture is the pilot's."
    )
    n: int = Field(description="Pictures of the run that count.")
    left_out: int = Field(description="Pictures of the run of which nothing is known.")
    verdict: LoopVerdict
    reason: str


class LoopOfMethod(Document):
    """A closed loop: shares that were adjusted by what an annotator saw, prompt by prompt."""

    method: str
    steered_by: str = Field(description="Who labelled the pilot.")
    by: str = Field(description="Who labelled the run; empty where nobody did.")
    budget: int = Field(description="Pictures per prompt that the pilot could draw.")
    level: float = Field(
        description="Of the intervals. They are per prompt, and hold all groups of it at once."
    )
    prompts: list[LoopOfPrompt]
    left_alone: dict[str, str] = Field(description="Prompt -> why no group was drawn for it.")


class GenerationResults(Document):
    """What ``equipoise generate`` measured of the pictures that it drew."""

    kind: Literal["equipoise generation"]
    version: str
    plan: DrawingPlan
    attribute: AttributeFacts
    annotator: AnnotatorFacts | None
    people: PeopleFacts | None
    clip: ScorerFacts | None
    settings: ResampleFacts
    subsets: ChosenPrompts
    columns: list[TableColumn]
    floors: dict[str, Number] = Field(description="The SP of a generator without any bias.")
    methods: list[DrawnMethod]
    prompts: list[PromptResults]
    gallery: list[Figure]
    loops: list[LoopOfMethod] = Field(default=[], description="Of methods that have a budget.")

    @field_serializer("plan")
    def _whole_plan(self, plan: DrawingPlan) -> dict[str, Any]:
        return plan.model_dump()

    def __repr__(self) -> str:
        methods = ", ".join(method.label for method in self.methods)
        return f"GenerationResults({self.plan.model}: {methods})"
