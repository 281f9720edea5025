"""results.json as models: one frozen model per part of what an audit found.

A number is named by its place, such as ``verdict.methods.0.leaning``, in sentences and pages.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
)

from equipoise._documents import Document, Number, plain

KIND, FORMAT = "equipoise audit", 2

Outcome = Literal["lowered", "raised", "no change seen", "too few images to say"]
State = Literal["leans", "no lean seen", "too few images to say"]
Sight = Literal["yes", "hardly", "no", "not measured"]
Measure = Literal["max_skew", "lean"]
GroupsFrom = Literal["text", "zero-shot", "classifier", "labels"]
Kappa = Annotated[float | Literal["inf"], BeforeValidator(plain)]  # JSON has no infinity


class ResultsPart(Document):
    """A part of the results. It cannot be changed, and holds no field that is not named here."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    def to_plain(self) -> dict[str, Any]:
        """Return all fields in JSON's own types, as results.json holds them."""
        return self.model_dump(mode="json")


# --- Numbers ----------------------------------------------------------------------------


class Ranged(ResultsPart):
    """A value inside its interval. ``low`` and ``high`` are None where there is no interval."""

    value: Number
    low: Number
    high: Number


class MethodValue(Ranged):
    """The value of one method, and its paired change from the first, which has none."""

    change: Ranged | None = None

    @model_serializer(mode="wrap")
    def _without_empty(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return _drop_none(write(self), "change")


class SummaryMetric(ResultsPart):
    """A metric of the whole audit, with a value per method.

    small: the groups or cells of fewer than 20 images that the metric depends on, in words.
    """

    key: str
    name: str
    section: str
    better: Literal["lower", "higher"]
    n: int
    over: str
    values: list[MethodValue]
    small: list[str] = Field(default=[])


class PromptFindings(ResultsPart):
    """One prompt.

    towards: the group that its wording leans to. top: the share of each group in its first results,
    by method and group. most: the place of the group that is furthest above its share there.
    changed: how many of its first results were not among them before, by method.
    """

    prompt: str
    towards: str
    lean: list[MethodValue]
    max_skew: list[MethodValue] | None = None
    ndkl: list[MethodValue] | None = None
    top: list[list[MethodValue]] | None = None
    most: int | None = None
    changed: list[int] | None = None

    def measured(self, measure: Measure) -> list[MethodValue]:
        """Return its skew or its lean by each method, whichever a verdict goes by."""
        return self.lean if measure == "lean" else self.max_skew or []


class GroupShare(ResultsPart):
    group: str
    share: float


class MethodGap(ResultsPart):
    """The paired difference of two methods' mean skews: ``method`` less ``other``."""

    method: int
    other: int
    difference: Ranged


class ChanceFindings(ResultsPart):
    """What shuffled labels would give.

    max_skew, ndkl: of one ranking, with the range that holds a ``level`` share of them. top: each
    group's share of the collection. mean_max_skew: of the prompts' own rankings, on average.
    leaning: how many prompts lie above ``max_skew.high`` although the labels are shuffled.
    """

    max_skew: Ranged
    ndkl: Ranged
    top: list[GroupShare]
    mean_max_skew: Ranged
    leaning: Ranged


# --- What was measured, and how ---------------------------------------------------------


class ModelFacts(ResultsPart):
    id: str
    revision: str
    fingerprint: str
    note: str
    dim: int


class AuditedAttribute(ResultsPart):
    name: str
    groups: list[str]


class GroupSize(ResultsPart):
    group: str
    n: int


class ClassifierFigure(ResultsPart):
    accuracy: float
    n: int


class AuditedImages(ResultsPart):
    name: str
    given: int
    n: int
    known: int
    groups: list[GroupSize]
    unknown: int
    dropped: dict[str, int]
    generated: dict[str, ClassifierFigure] | None


class AuditBook(ResultsPart):
    hash: str
    prompts: int
    writers: list[str]


class SpaceFacts(ResultsPart):
    rank: int
    dim: int
    fingerprint: str


class SubjectFacts(ResultsPart):
    """What was measured: the model, the attribute, the images, the prompts, the space."""

    model: ModelFacts
    attribute: AuditedAttribute
    groups_from: GroupsFrom
    group_columns: list[str]
    images: AuditedImages | None
    prompts: int
    explicit: int
    book: AuditBook
    space: SpaceFacts


class SettingsUsed(ResultsPart):
    m: int | None
    places: int
    resamples: int
    permutations: int
    level: float
    interval: str
    seed: int
    pairs: int
    most_pairs: int
    exact_dial: bool


class AuditedMethod(ResultsPart):
    """A fitted method. file: its operator, relative to the folder; None where none was written."""

    label: str
    method: str
    params: dict[str, Any]
    changes: list[str]
    kappa: Kappa | None
    fingerprint: str
    fitted_on_images: bool
    file: str | None = None


class YardstickFacts(ResultsPart):
    explicit_lean: float
    n: int


class PerceivedFacts(ResultsPart):
    """How often the group that the prompts see is the one recorded, as a mean over groups."""

    agreement: Ranged
    chance: float
    n: int


# --- Certificates, dials, galleries -----------------------------------------------------


class CrossFindings(ResultsPart):
    """How far similarities moved. spread: their standard deviation within a prompt, before."""

    images: int
    prompts: int
    mean: float
    largest: float
    spread: float
    bound: float | None = None
    within: bool | None = None

    @model_serializer(mode="wrap")
    def _without_empty(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return _drop_none(write(self), "bound", "within")


class MethodCertificate(ResultsPart):
    """What was measured and what is guaranteed; None where there is no guarantee."""

    space: str | None
    images: dict[str, Any] | None
    texts: dict[str, Any] | None
    cross: CrossFindings | None
    search: dict[str, Any] | None
    pages: list[dict[str, Any]] | None


class DialFindings(ResultsPart):
    kappas: list[Kappa]
    changes: list[str]
    leakage_texts: list[float] | None
    leakage_images: list[float] | None
    self_loss_texts: list[float] | None
    self_loss_images: list[float] | None
    lean: list[float]
    max_skew: list[float] | None


class GalleryEntry(ResultsPart):
    prompt: int
    found: list[list[int]]


class GalleryImage(ResultsPart):
    name: str
    group: int


class GalleryFindings(ResultsPart):
    shown: int
    prompts: list[GalleryEntry]
    images: dict[str, GalleryImage]


# --- The verdict ------------------------------------------------------------------------


class Power(ResultsPart):
    """What this many images can show.

    smallest: the smallest mean skew (or lean) that they would show four times in five. wanted: a
    smaller one, worth seeing. images, places: about how many images, and first places of them,
    would show it; None where ``smallest`` is below ``wanted`` already, or there are no images.
    """

    smallest: float | None
    wanted: float
    images: int | None
    places: int | None


class ModelSight(ResultsPart):
    """Whether the model can tell the groups in these images.

    tells: by the probe; "not measured" where nobody but the model named the groups. probe: the row
    of the summary that holds its AUC. What the prompts see is in the document's ``perceived``.
    """

    tells: Sight
    probe: int | None


class Disagreement(ResultsPart):
    """A prompt whose wording leans to one group while its results hold more of another.

    towards, most: places of those groups. ``prompts.{prompt}.top.0.{most}`` is the share.
    """

    prompt: int
    towards: int
    most: int


class MethodCost(ResultsPart):
    """What a method cost, in the reader's units.

    changed: how many of a prompt's first ``places`` results are new, on average over prompts.
    changed_most: of the prompt where most are new; changed_prompt: that prompt. recall, accuracy:
    rows of the summary, where there is something to recall. moved: how far a similarity moved, on
    average, in standard deviations of the similarities within a prompt; None without images.
    """

    places: int
    changed: float | None
    changed_most: int | None
    changed_prompt: int | None
    recall: list[int]
    accuracy: list[int]
    moved: float | None


class MethodVerdict(ResultsPart):
    """What one method did.

    method: its place in ``methods``. outcome: from the paired interval of the mean, ``change``.
    leaning: prompts that lean beyond chance with it. better, raised: prompts whose own change is
    below or above zero beyond its interval. worse: those raised that lean beyond chance now.
    All are places in ``prompts``, furthest first.
    """

    method: int
    label: str
    outcome: Outcome
    change: Ranged
    leaning: list[int]
    better: list[int]
    raised: list[int]
    worse: list[int]
    cost: MethodCost


class AuditVerdict(ResultsPart):
    """What an audit comes to.

    measure: what it goes by, "max_skew" with images and "lean" without. row: its place in the
    summary. state: whether the model leans as it is. leaning: prompts that lean beyond chance,
    furthest first. worst: the three furthest prompts. said: the lean of the furthest as a share of
    what naming the group gives. methods: one verdict per method, ``none`` not among them. harmful:
    places in ``methods`` of the verdict whose method raised the mean or made a prompt worse. best:
    place in the document's ``methods`` of the one recommended, else of the lowest mean; 0 where
    there is no method. disagree: before debiasing.
    """

    measure: Measure
    row: int
    state: State
    leaning: list[int]
    worst: list[int]
    said: float
    power: Power
    sight: ModelSight
    methods: list[MethodVerdict]
    harmful: list[int]
    best: int
    disagree: list[Disagreement]


class PassedOver(ResultsPart):
    """A method that is not recommended, and why. method: its place in ``methods``."""

    method: int
    why: str


class Recommendation(ResultsPart):
    """What to do next.

    method: the place in ``methods`` of the one recommended; None where none helps. rule: how it was
    chosen. why: in a sentence. passed_over: the others. file: its operator, as the user would type
    it from where the audit ran; None until the audit is saved. python: lines that run as they
    stand. shell: commands that run as they stand, in order; none where the method changes no
    index. back: how to undo it, in a sentence.
    """

    method: int | None
    rule: str
    why: str
    passed_over: list[PassedOver]
    file: str | None
    python: list[str]
    shell: list[str]
    back: str


class AuditRecord(ResultsPart):
    """For the record: who measured what, for whom, and the hashes of all of it.

    command: what was typed, or the call. images_file: the list of images beside results.json, one
    path per line with its SHA-256 where the picture is a file. images, prompts: the SHA-256 of that
    list and of the prompts. model: the encoder's own fingerprint.
    """

    command: str | None
    organisation: str | None
    auditor: str | None
    purpose: str | None
    model: str
    images: str | None
    images_file: str | None
    prompts: str


# --- The document -----------------------------------------------------------------------


class AuditFindings(ResultsPart):
    """All that an audit measured, before anybody judges it."""

    kind: Literal["equipoise audit"] = KIND
    format: Literal[2] = FORMAT
    created: str
    versions: dict[str, str]
    subject: SubjectFacts
    settings: SettingsUsed
    methods: list[AuditedMethod]
    yardstick: YardstickFacts
    perceived: PerceivedFacts | None = None
    summary: list[SummaryMetric]
    chance: ChanceFindings | None
    gaps: list[MethodGap] = Field(default=[])
    prompts: list[PromptFindings]
    certificates: list[MethodCertificate]
    dials: list[DialFindings | None]
    gallery: GalleryFindings | None
    notes: list[str] = Field(default=[])


class AuditDocument(AuditFindings):
    """results.json: what was measured, the verdict on it, what to do next, and the record."""

    verdict: AuditVerdict
    recommendation: Recommendation
    record: AuditRecord


def _drop_none(document: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {k: v for k, v in document.items() if k not in keys or v is not None}
