"""What is asked of the images: a prompt for each class, or queries and the images that answer
them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from equipoise.datasets import Dataset
from equipoise.errors import InputError
from equipoise.evaluation._classification import check_classes
from equipoise.evaluation._protocol import CELEBA, TEMPLATE, Protocol, class_prompts
from equipoise.metrics._labels import encode


@dataclass(frozen=True)
class Classes:
    """label -> prompt; positive: the one class of interest, or None."""

    by_label: Mapping[Any, str]
    positive: Any

    @property
    def prompts(self) -> list[str]:
        return list(self.by_label.values())

    @property
    def facts(self) -> list[Any]:
        """What tells them from others: which label has which prompt."""
        return list(self.by_label.items())


@dataclass(frozen=True)
class Queries:
    """targets (queries,): the place of the image that each query describes; None where nobody
    says.
    """

    prompts: list[str]
    targets: np.ndarray | None
    blank: int = 0  # captions without a word, left out

    @property
    def facts(self) -> list[Any]:
        """What tells them from others: which query is about which image."""
        return [self.prompts, None if self.targets is None else self.targets.tolist()]

    def answerable(self, there: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """The queries whose right image is there, and its place among those that are."""
        if self.targets is None:
            return np.arange(len(self.prompts)), None
        kept = np.flatnonzero(there[self.targets])
        if not kept.size:
            raise InputError(
                "no query has its right image among those with an embedding; there is nothing to"
                " measure"
            )
        return kept, (np.cumsum(there) - 1)[self.targets[kept]]


def classes(
    labels: np.ndarray | None,
    dataset: str,
    protocol: Protocol,
    prompts: Any,
    template: str | None,
    positive: Any,
) -> Classes:
    """Those of the images' labels; CelebA's and FACET's as the protocol has them."""
    if labels is None:
        raise InputError(
            f"{dataset} has no labels, which classification needs; pass the label column"
        )
    known = encode(labels, "labels").labels
    named = {
        str(label): label for label in known
    }  # what was typed, or is a key of JSON, is text: "1" is the label 1
    positive = named.get(positive, positive) if isinstance(positive, str) else positive
    celeba = set(known) <= set(CELEBA)
    if celeba and positive is None and protocol.one_class:
        positive = "blond"
    if prompts is not None:
        by_label = prompts
        if isinstance(prompts, Mapping):
            by_label = {
                named.get(label, label) if isinstance(label, str) else label: prompt
                for label, prompt in prompts.items()
            }
    elif celeba and template is None:
        by_label = CELEBA
    else:
        _check_spelling(known)
        by_label = class_prompts(
            known, template or (protocol.template if dataset == "FACET" else TEMPLATE)
        )
    check_classes(labels, by_label, positive)
    return Classes(by_label, positive)


def _check_spelling(labels: Sequence[Any]) -> None:
    """Raise where two labels are one word, written differently: each would be a class, and take
    images from the other.
    """
    seen: dict[str, Any] = {}
    for label in labels:
        if (other := seen.setdefault(str(label).strip().lower(), label)) != label:
            raise InputError(
                f"the labels {other!r} and {label!r} differ in case or space only; write them"
                " alike, or pass a prompt for each"
            )


def queries(dataset: Dataset, paths: Sequence[str], prompts: Sequence[str] | None) -> Queries:
    """Those that are given, or the captions of these images."""
    if prompts is not None:
        given, targets, blank = list(prompts), None, 0
    else:
        column = next((name for name in ("query", "caption") if name in dataset.table), None)
        if column is None:
            raise InputError(
                f"{dataset.name} has no captions to search with; pass the caption column, or"
                " queries of your own"
            )
        place = {path: i for i, path in enumerate(paths)}
        table = dataset.table[dataset.table["path"].astype(str).isin(place)]
        captions, paths_of = table[column].tolist(), table["path"].astype(str).tolist()
        worded = [i for i, text in enumerate(captions) if isinstance(text, str) and text.strip()]
        given, blank = [captions[i] for i in worded], len(captions) - len(worded)
        targets = np.array([place[paths_of[i]] for i in worded], dtype=np.int64)
    if not given:
        raise InputError("there is no query; pass one or more")
    return Queries(given, targets, blank)
