"""What is asked of the images: a prompt per class, or queries and the images that answer them."""

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
    """The classes, with the prompt of each.

    positive: the one class of interest, or None.
    """

    by_label: Mapping[Any, str]
    positive: Any

    @property
    def prompts(self) -> list[str]:
        """Return the prompts of the classes."""
        return list(self.by_label.values())

    @property
    def facts(self) -> list[Any]:
        """Return which label has which prompt, to tell these classes from others."""
        return list(self.by_label.items())


@dataclass(frozen=True)
class Queries:
    """Queries, and the images that answer them.

    targets (queries,): the place of the image that each query describes; None where it is unknown.
    blank: the number of captions without a word, which are left out.
    """

    prompts: list[str]
    targets: np.ndarray | None
    blank: int = 0

    @property
    def facts(self) -> list[Any]:
        """Return which query is about which image, to tell these queries from others."""
        return [self.prompts, None if self.targets is None else self.targets.tolist()]

    def answerable(self, there: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the queries whose right image is there, and its place among those that are."""
        if self.targets is None:
            return np.arange(len(self.prompts)), None
        kept = np.flatnonzero(there[self.targets])
        if not kept.size:
            raise InputError(
                "no query's right image has an embedding, so there is nothing to measure"
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
    """Return the classes of the images' labels; those of CelebA and FACET as the protocol says."""
    if labels is None:
        raise InputError(
            f"{dataset} has no labels, which classification needs; name their column with"
            " `label_column`"
        )
    known = encode(labels, "labels").labels
    celeba = set(known) <= set(CELEBA)
    if positive is None and celeba and protocol.one_class:
        positive = "blond"
    positive = _label(positive, known)
    if isinstance(prompts, Mapping):
        by_label = {_label(label, known): prompt for label, prompt in prompts.items()}
    elif prompts is not None:
        by_label = prompts
    elif celeba and template is None:
        by_label = CELEBA
    else:
        _check_spelling(known)
        facet = dataset == "FACET"
        if not template:
            template = protocol.template if facet else TEMPLATE
        by_label = class_prompts(known, template, as_spelt=facet and protocol.to_the_letter)
    check_classes(labels, by_label, positive)
    return Classes(by_label, positive)


def _label(given: Any, known: Sequence[Any]) -> Any:
    """Return the label that a text means: "1", as typed or as a key of JSON, may be the label 1."""
    if not isinstance(given, str):
        return given
    named = {str(label): label for label in known}
    return named.get(given, given)


def _check_spelling(labels: Sequence[Any]) -> None:
    """Raise where two labels are one word, written differently.

    Each would be a class, and take images from the other.
    """
    seen: dict[str, object] = {}
    for label in labels:
        other = seen.setdefault(str(label).strip().lower(), label)
        if other != label:
            raise InputError(
                f"the labels {other!r} and {label!r} differ in case or space only; write them"
                " alike, or pass a prompt for each"
            )


def queries(dataset: Dataset, paths: Sequence[str], prompts: Sequence[str] | None) -> Queries:
    """Return the queries that are given, or the captions of these images."""
    if isinstance(prompts, str):
        raise InputError(f"prompts={prompts!r} is a string; pass a list of queries, [{prompts!r}]")
    found = _captions(dataset, paths) if prompts is None else Queries(list(prompts), None)
    if not found.prompts:
        raise InputError("there is no query; pass one or more")
    return found


def _captions(dataset: Dataset, paths: Sequence[str]) -> Queries:
    """Return the captions of these images as queries."""
    column = next((name for name in ("query", "caption") if name in dataset.table), None)
    if column is None:
        raise InputError(
            f"{dataset.name} has no captions to search with; name their column with"
            " `caption_column`, or pass `prompts`"
        )
    place = {path: i for i, path in enumerate(paths)}
    worded, targets, blank = [], [], 0
    for path, text in zip(dataset.table["path"].astype(str), dataset.table[column], strict=True):
        if path not in place:
            continue
        if isinstance(text, str) and text.strip():
            worded.append(text)
            targets.append(place[path])
        else:
            blank += 1
    return Queries(worded, np.array(targets, dtype=np.int64), blank)
