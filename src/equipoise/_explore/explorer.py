"""``Explorer``: a collection, an encoder, and the three views of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from equipoise._explore.answers import AboutPage, OfferedAttribute
from equipoise._explore.classes import ClassView
from equipoise._explore.collection import Collection
from equipoise._explore.operators import FitBalanced, MakeContext, Operators
from equipoise._explore.question import (
    CLASS_METHODS,
    LONGEST,
    MOST_PLACES,
    MOST_TEXTS,
    SEARCH_METHODS,
    ListQuestion,
    SearchQuestion,
    read_list,
    read_question,
)
from equipoise._explore.searching import Search, Searcher
from equipoise._explore.texts import TextView
from equipoise._explore.thumbnails import Thumbnails
from equipoise._version import __version__
from equipoise.errors import InputError
from equipoise.prompts._attribute import Attribute

EXAMPLES = (
    "a photo of a doctor",
    "a photo of a nurse",
    "a smiling engineer",
    "a chef in a kitchen",
    "somebody with glasses",
    "a female doctor",
)


class Explorer:
    """What the page asks, and where each answer comes from."""

    def __init__(
        self,
        collection: Collection,
        encoder: Any,
        attributes: Sequence[Attribute],
        *,
        search: Search,
        fit_balanced: FitBalanced,
        make_context: MakeContext,
        thumbnails: Thumbnails | None = None,
    ):
        if not attributes:
            raise InputError("no attribute was given; pass `attribute`, for example gender")
        self.collection, self.encoder = collection, encoder
        self.attributes = {attribute.name: attribute for attribute in attributes}
        self.operators = Operators(collection, encoder, self.attributes, fit_balanced, make_context)
        self.searcher = Searcher(self.operators, search)
        self.texts = TextView(self.operators)
        self.classes = ClassView(self.operators, self.searcher)
        self.thumbnails = thumbnails or Thumbnails()

    def prepare(self) -> None:
        """Make the first search, so that those that are typed are as quick as they get."""
        first = self.question({"text": EXAMPLES[0]})
        self.searcher.before(first)
        self.searcher.after(first)

    def about(self) -> AboutPage:
        """Return what the page must know before anything is asked."""
        collection = self.collection
        attributes = []
        for name, attribute in self.attributes.items():
            labelled = collection.labels(attribute) is not None
            by = "model"
            if labelled:
                by = "classifier" if collection.generated else "labels"
            offered = OfferedAttribute(name=name, groups=list(attribute.groups), by=by)
            attributes.append(offered)
        return AboutPage(
            name=collection.name,
            images=len(collection),
            left_out=collection.left_out,
            missing=collection.missing,
            pictures=collection.pictures is not None,
            generated=collection.generated,
            model=str(getattr(self.encoder, "id", type(self.encoder).__name__)),
            version=__version__,
            attributes=attributes,
            methods=list(SEARCH_METHODS),
            class_methods=list(CLASS_METHODS),
            examples=list(EXAMPLES),
            places=min(20, len(collection)),
            most_places=min(MOST_PLACES, len(collection)),
            most_texts=MOST_TEXTS,
            longest=LONGEST,
        )

    def question(self, fields: Mapping[str, Any]) -> SearchQuestion:
        """Return the search that a JSON object asks for."""
        return read_question(fields, self.attributes, len(self.collection))

    def text_question(self, fields: Mapping[str, Any]) -> ListQuestion:
        """Return the texts that a JSON object asks for."""
        return read_list(fields, self.attributes, len(self.collection), SEARCH_METHODS)

    def class_question(self, fields: Mapping[str, Any]) -> ListQuestion:
        """Return the classes that a JSON object asks for: two or more."""
        return read_list(fields, self.attributes, len(self.collection), CLASS_METHODS, least=2)
