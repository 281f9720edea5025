"""The documents of annotation: how far people agree, settings, and what page and server say."""

from __future__ import annotations

from pydantic import Field

from equipoise._documents import Document, FreeValue, Number


class AgreementEstimate(Document):
    """A share or a kappa with its interval, over the images that all have answered."""

    value: Number
    low: Number
    high: Number
    level: float
    kind: str = Field(description="The kind of interval.")
    over: str
    n: int
    left_out: int
    resamples: int
    undefined: int = Field(description="Resamples in which it had no value.")
    mean: Number
    std: Number


class OutcomeCounts(Document):
    """How many images came to what."""

    images: int
    unanimous: int
    disagreed: int
    unsure: int
    waiting: int


class OfMethod(Document):
    """The method that drew images."""

    method: str


class MethodOutcomes(OutcomeCounts, OfMethod):
    """The outcomes of the images that one method drew."""


class GoldShare(Document):
    """The share of gold questions that were answered right, with Wilson's interval."""

    right: int
    asked: int
    share: float
    low: float
    high: float


class AnnotatorAnswers(Document):
    """What one annotator answered."""

    annotator: str
    answered: int
    counts: dict[str, int] = Field(description="By answer.")
    gold: GoldShare | None


class ImageToMakeAgain(Document):
    """An image that people disagree on or are unsure of."""

    image: str
    why: str
    prompt: str
    method: str


class AskedFacts(Document):
    """What people were asked."""

    question: str
    answers: list[str]
    needed: int = Field(description="Answers that make an image unanimous.")


class Agreement(OutcomeCounts, AskedFacts):
    """How far annotators agree, and which images must be made again."""

    unanimity: AgreementEstimate | None
    kappa: AgreementEstimate | None = Field(description="Fleiss' kappa.")
    annotators: list[AnnotatorAnswers]
    methods: list[MethodOutcomes]
    regenerate: list[ImageToMakeAgain]


class ProjectSettings(Document):
    """What a project asks, as its database keeps it."""

    id: str
    prompts: list[str] = Field(description="Only pictures of these; all, where there are none.")
    gold: dict[str, str] = Field(description="Known answers by path.")
    show_prompt: bool
    question: str
    answers: list[str]


class PageRequest(Document):
    """What the page sends; each address reads its own fields, and checks them."""

    token: FreeValue = None
    answer: FreeValue = None
    picture: FreeValue = None
    request: FreeValue = None


class AnswerKeys(Document):
    """An answer, and the keys that give it."""

    answer: str
    keys: list[str]


class TurnMessage(Document):
    """What the page shows next."""

    annotator: str
    question: str
    answers: list[AnswerKeys]
    picture: str | None
    following: str | None
    answered: int
    left: int
    prompt: str | None = Field(default=None, description="Where annotators may see it.")
