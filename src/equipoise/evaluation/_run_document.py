"""``EvaluationRun``: what the file of a run holds, field by field."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import Field

from equipoise._documents import Document, FreeValue, Number
from equipoise._space_document import EncoderFacts
from equipoise.errors import InputError
from equipoise.prompts._attribute_document import AttributeFacts

if TYPE_CHECKING:
    import pandas as pd

KIND, FORMAT = "equipoise evaluation", 1
COLUMNS = ("metric", "method", "value", "low", "high")  # of ``to_frame``, before the others
Better = Literal["higher", "lower"]
Task = Literal["classification", "retrieval"]


class ProtocolFacts(Document):
    """The protocol that was followed: the paper's text, or its released code."""

    name: str
    equal_opportunity: str = Field(description="The form of equal opportunity.")
    scope: str = Field(description="Of the attribute space: shared, or per prompt.")
    template: str = Field(description="Of FACET's class prompts.")
    one_class: bool = Field(description="Whether CelebA is measured by its class blond alone.")
    to_the_letter: bool = Field(
        default=False, description="Whether what the released code does by accident is done too."
    )


class ImageFacts(Document):
    """Images with labels."""

    name: str
    images: int
    groups: dict[str, int] = Field(description="Group -> its images.")
    sha256: str = Field(description="Of the table of images and their groups.")
    embeddings: str = Field(description="Hash of the stored embeddings; empty without any.")


class DatasetFacts(ImageFacts):
    """The images that were measured, and what their dataset dropped."""

    rows: int = Field(description="Rows that the reader kept.")
    dropped: dict[str, int] = Field(description="Reason -> rows that were dropped for it.")
    prompts: int = Field(description="Class prompts, or queries.")


class SettingFacts(Document):
    """How it was measured."""

    protocol: str
    m: int | None = Field(description="Places that skew looks at; null for classification.")
    ks: list[int] = Field(description="Places that recall looks at.")
    gate: bool = Field(description="Whether prompts that name a group were left alone.")
    over: str = Field(description="What was resampled.")
    resamples: int
    permutations: int = Field(description="Shuffles of the labels, for the floor of a skew.")
    level: float = Field(description="Of the intervals.")
    interval: str = Field(description="The kind of interval.")
    seed: int
    probe: int = Field(default=0, description="Images that the leakage probe takes at most.")
    positive: FreeValue = Field(description="The one class of interest, or null.")


class FileFacts(Document):
    """What every file of results begins with."""

    kind: str
    format: int = Field(ge=1, description="Version of this schema.")
    versions: dict[str, str] = Field(description="Of the packages that computed it.")


class RunFacts(Document):
    """What is evaluated and how, without results."""

    task: Task
    protocol: ProtocolFacts
    dataset: DatasetFacts
    fitting: ImageFacts | None = Field(
        default=None, description="The images to fit on, where they are not measured."
    )
    attribute: AttributeFacts
    encoder: EncoderFacts
    model: str = Field(description="The paper's name of the encoder, or an empty text.")
    prompts: str = Field(description="Hash of what was asked of the images.")
    settings: SettingFacts


class ImageCounts(Document):
    """How many images were measured, and which were not."""

    images: int
    without_embedding: int
    groups: dict[str, int]
    repeated: int = Field(default=0, description="Rows that repeat an image.")
    first_without: list[str] = Field(description="The first images without an embedding.")
    queries: int | None = Field(default=None, description="Of retrieval only.")
    blank_captions: int | None = Field(default=None, description="Of retrieval only.")


class FittedOn(Document):
    """The images that a method was fitted on."""

    name: str
    images: int
    measured: bool = Field(description="Whether they are those that were measured.")
    labels: bool = Field(description="Whether the method knew their labels.")


class BookFacts(Document):
    """The prompt book that a method was fitted with."""

    hash: str
    prompts: int
    unworded: int = Field(description="Prompts that speak of no person, and have no anchors.")


class MethodFacts(Document):
    """A fitted method."""

    method: str
    params: dict[str, FreeValue] = Field(description="Its parameters; each method has its own.")
    changes: list[str]
    fingerprint: str
    fitted_on: FittedOn | None = None
    file: str | None = Field(default=None, description="Where it was loaded from a file.")
    book: BookFacts | None = None


class Difference(Document):
    """A paired difference from another method."""

    baseline: str = Field(validation_alias="from", serialization_alias="from")
    value: Number
    low: Number
    high: Number


class PermutedFloor(Document):
    """The skew of shuffled labels: its mean, and the range that holds ``level`` of them."""

    value: Number
    low: Number
    high: Number
    level: float
    permutations: int


class PublishedCell(Document):
    """What the paper printed for this."""

    table: str
    value: float
    spread: Number
    marker: str
    problem: str = Field(description="Why it cannot be right, or an empty text.")


class MetricRow(Document):
    """One metric of one method, with its interval."""

    method: str
    metric: str
    better: Better
    value: Number
    low: Number
    high: Number
    level: float
    kind: str = Field(description="The kind of interval.")
    over: str = Field(description="What was resampled.")
    n: int = Field(description="How many were resampled.")
    left_out: int = Field(description="How many were not, because they have no label.")
    resamples: int
    undefined: int = Field(description="Resamples in which the metric had no value.")
    mean: Number = Field(description="Of the replicates.")
    std: Number = Field(description="Of the replicates.")
    difference: Difference | None = Field(default=None, description="Not for the baseline.")
    floor: Number = Field(default=None, description="What a random ranking has; of skews only.")
    small: list[str] | None = Field(
        default=None, description="Groups and classes of fewer than twenty images behind it."
    )
    permuted: PermutedFloor | None = Field(default=None, description="Of skews only.")
    published: PublishedCell | None = Field(default=None, description="Where the paper has it.")


class EvaluationRun(RunFacts, FileFacts):
    """A run of ``equipoise evaluate``: what was measured, how, and every number."""

    kind: Literal["equipoise evaluation"]
    counts: ImageCounts
    methods: dict[str, MethodFacts] = Field(description="By their labels.")
    rows: list[MetricRow] = Field(min_length=1)
    key: str | None = Field(
        default=None, description="Of compare: hash of all that the result depends on."
    )
    fit_seconds: float | None = Field(default=None, description="Of compare: how long it took.")

    def to_frame(self) -> pd.DataFrame:
        """Return one row per metric and method: value, interval, difference from ``none``."""
        import pandas as pd

        lines = []
        for row in self.rows:
            line = {name: getattr(row, name) for name in COLUMNS}
            line["difference"] = row.difference.value if row.difference else None
            lines.append(line | {"better": row.better, "n": row.n})
        return pd.DataFrame(lines)

    def plot(self, metric: str | None = None, axes: Any = None) -> Any:
        """Draw a metric of each method with its interval; return matplotlib's axes.

        metric: one of ``to_frame()``; by default the first.
        """
        from equipoise import _plots as plots

        known = list(dict.fromkeys(row.metric for row in self.rows))
        metric = known[0] if metric is None else metric
        if metric not in known:
            raise InputError(f"there is no metric {metric!r}; there are {', '.join(known)}")
        drawn = [row for row in self.rows if row.metric == metric]
        values = []
        for row in drawn:
            value, low, high = np.array([row.value, row.low, row.high], float)
            values.append((value, low, high))
        better = f"{drawn[0].better} is better"
        label = f"{metric} (n={drawn[0].n:,}, {drawn[0].level:.0%} intervals; {better})"
        return plots.draw_intervals(axes, [row.method for row in drawn], values, "", label)

    def __repr__(self) -> str:
        methods = ", ".join(self.methods)
        return f"EvaluationRun({self.task} on {self.dataset.name}: {methods})"

    def __str__(self) -> str:
        return repr(self)

    def _repr_html_(self) -> str:
        return self.to_frame().to_html(index=False, escape=True, float_format="{:.4f}".format)
