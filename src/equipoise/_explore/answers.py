"""What the page is told: one model per answer, which becomes JSON where it is sent."""

from __future__ import annotations

from equipoise._documents import Document
from equipoise.methods._balanced_page import PageCertificate


class FoundImage(Document):
    """A picture of a row. id: its place in the collection. group: None where it is not known."""

    id: int
    name: str
    group: str | None


class RankedImage(FoundImage):
    """A picture of a search, with its similarity to the text."""

    score: float


class SearchRow(Document):
    """A row of a search. shares: of the groups among it; None where no image has a group."""

    images: list[RankedImage]
    shares: dict[str, float] | None


class PlainRow(SearchRow):
    """The row as it is.

    left_alone: why the text would not be balanced, or "". trouble: why none can be, or "".
    collection: the shares of the groups among all images.
    """

    left_alone: str
    trouble: str
    collection: dict[str, float] | None


class Said(Document):
    """The sentences that say what happened."""

    change: str
    price: str


class BalancedRow(SearchRow):
    """The second row, what moved, and the price.

    note: why the shares asked for were not reached, or "". kept: the share of the plain row's total
    score. moved_in, moved_out: pictures that are in one of the rows alone.
    """

    note: str
    certificate: PageCertificate | None
    kept: float
    left_alone: str
    moved_in: list[int]
    moved_out: list[int]
    said: Said


class Trouble(Document):
    """The answer in place of a row that cannot be had: why."""

    trouble: str


class ClassImages(Document):
    """A class. shares: what part of each group is put into it. shown: its first pictures."""

    name: str
    images: int
    shares: dict[str, float] | None
    shown: list[FoundImage]


class Classified(Document):
    """Who is put into which class. images: how many there are in all."""

    groups: list[str]
    classes: list[ClassImages]
    images: int


class LeaningText(Document):
    """A text, and how far it leans to each group before and after."""

    text: str
    left_alone: str
    before: dict[str, float]
    after: dict[str, float]


class Leanings(Document):
    """Where texts lie. wordings: the leans of each group's own wordings to it."""

    groups: list[str]
    texts: list[LeaningText]
    wordings: dict[str, list[float]]


class OfferedAttribute(Document):
    """An attribute of the page. by: who says which group an image shows."""

    name: str
    groups: list[str]
    by: str


class AboutPage(Document):
    """What the page must know before anything is asked."""

    name: str
    images: int
    left_out: int
    missing: int
    pictures: bool
    generated: bool
    model: str
    version: str
    attributes: list[OfferedAttribute]
    methods: list[str]
    class_methods: list[str]
    examples: list[str]
    places: int
    most_places: int
    most_texts: int
    longest: int
    prompts_file: str | None = None
