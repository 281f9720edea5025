"""Zero-shot classes: who is put where, by group, before and after a method."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from equipoise import _rows, methods
from equipoise._explore.answers import Classified, ClassImages, FoundImage
from equipoise._explore.operators import Operators
from equipoise._explore.question import ListQuestion
from equipoise._explore.searching import Searcher
from equipoise.evaluation._classification import predict
from equipoise.prompts._english import fix_articles

KEPT = 32  # answers
SHOWN = 8  # pictures of a class
LOOKED_AT = 200  # places of a class's own ranking, among which its pictures are


class ClassView:
    """Classes that are typed, and the images that are most similar to each."""

    def __init__(self, operators: Operators, searcher: Searcher):
        self.operators, self.searcher = operators, searcher
        self.before = lru_cache(KEPT)(self._before)
        self.after = lru_cache(KEPT)(self._after)

    def _before(self, question: ListQuestion) -> Classified:
        context = self.operators.context(question.controls.attribute)
        return self._classified(question, methods.create("none").fit(context))

    def _after(self, question: ListQuestion) -> Classified:
        return self._classified(question, self.operators.method(question.controls))

    def _classified(self, question: ListQuestion, operator: Any) -> Classified:
        collection, attribute = self.operators.collection, question.controls.attribute
        groups = self.operators.attributes[attribute].groups
        prompts = [class_prompt(name) for name in question.texts]
        texts = self.operators.encoder.encode_text(prompts)
        predicted = predict(operator, collection.rows, texts, prompts)
        firsts = self._firsts(operator, texts, prompts)
        seen = self.searcher.groups(attribute, np.arange(len(collection)))
        classes = []
        for i, name in enumerate(question.texts):
            here = predicted == i
            found = ClassImages(
                name=name,
                images=int(here.sum()),
                shares=None if seen is None else _shares(here, seen, groups),
                shown=self._shown(firsts[i][here[firsts[i]]], attribute),
            )
            classes.append(found)
        return Classified(groups=list(groups), classes=classes, images=len(collection))

    def _firsts(self, operator: Any, texts: np.ndarray, prompts: list[str]) -> np.ndarray:
        """Return the images that each prompt finds first with an operator: (prompts, depth)."""
        rows = self.operators.collection.rows
        changed = (operator.image(block) for block in _rows.blocks_of(rows, _rows.BLOCK))
        deep = min(LOOKED_AT, len(rows))
        return self.searcher.search(changed, operator.text(texts, prompts), deep).indices

    def _shown(self, places: np.ndarray, attribute: str) -> list[FoundImage]:
        """Return what the page shows of the first images of a class."""
        collection = self.operators.collection
        first: list[int] = places[:SHOWN].tolist()
        groups = self.searcher.groups(attribute, places[:SHOWN])
        shown = []
        for i, place in enumerate(first):
            group = None if groups is None else groups[i]
            shown.append(FoundImage(id=place, name=collection.names[place], group=group))
        return shown


def _shares(here: np.ndarray, seen: np.ndarray, groups: Sequence[str]) -> dict[str, float]:
    """Return what part of each group is here. seen: the group of each image."""
    shares = {}
    for group in groups:
        members = seen == group
        shares[group] = int((here & members).sum()) / max(1, int(members.sum()))
    return shares


def class_prompt(name: str) -> str:
    """Return the prompt of a class: "nurse" becomes "a photo of a nurse"."""
    return fix_articles(f"a photo of a {name}")
