"""``AuditPlan``: all that an audit measures with, read and checked before the long work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from equipoise._audit.sources import ImageSource
from equipoise.datasets import Dataset
from equipoise.datasets._checks import check_encoder, groups_of
from equipoise.errors import InputError
from equipoise.methods import find
from equipoise.methods._specs import BASELINE, MethodSpec
from equipoise.metrics._labels import encode, encode_groups
from equipoise.prompts._attribute import Attribute
from equipoise.prompts._book_choice import book_for, curated_prompts, whole
from equipoise.prompts._prompt_book import PromptBook
from equipoise.prompts._stated_groups import explicit_groups

# the methods that an audit measures where the user names none
WITH_IMAGES = ("closed-form", "balanced")
TEXT_ONLY = ("closed-form", "orth-proj")


@dataclass(frozen=True)
class AuditSettings:
    """How to measure.

    m: the number of places that skew looks at; None is a tenth of the images, from 20 to 1000.
    places: the number of places in "who comes first".
    """

    m: int | None = None
    places: int = 20
    resamples: int = 1000
    permutations: int = 200
    level: float = 0.95
    seed: int = 0
    probe_rows: int = 2000
    captions: int = 1000
    gallery: int = 12
    gallery_prompts: int = 12


@dataclass(frozen=True)
class AuditPlan:
    """What to measure, with which encoder, methods and settings.

    encoder: anything with ``encode_text``. prompts: those that name no group; those that do are in
    ``explicit``. groups: the group of each image, None where it is unknown; None as a whole where
    the encoder is to perceive the groups by zero-shot. labels: the class of each image. captions:
    the caption of each image. asked: whether the user named the methods. A method that cannot be
    fitted is then an error; otherwise it is left out with a note.
    """

    encoder: Any
    attribute: Attribute
    book: PromptBook
    prompts: tuple[str, ...]
    specs: tuple[MethodSpec, ...]
    settings: AuditSettings = AuditSettings()
    explicit: tuple[str, ...] = ()
    source: ImageSource | None = None
    groups: np.ndarray | None = None
    group_columns: tuple[str, ...] = ()
    labels: np.ndarray | None = None
    captions: np.ndarray | None = None
    asked: bool = True

    def __post_init__(self) -> None:
        if self.source is None:
            self._require_no_images_needed()
            return
        check_encoder(self.encoder, self.source.embeddings)
        modalities = getattr(self.encoder, "modalities", ("text", "image"))
        if self.source.embeddings is None and "image" not in modalities:
            raise InputError(
                f"{self.encoder.id} encodes texts only, and {self.source.name} holds pictures;"
                " leave `images` out for a text-only audit"
            )

    def _require_no_images_needed(self) -> None:
        if not self.asked:
            return
        for spec in self.specs:
            if spec.takes_images():
                raise InputError(
                    f"{spec.label} is fitted on images, and there are none; pass `images`, or leave"
                    " it out"
                )

    @property
    def all_specs(self) -> list[MethodSpec]:
        """Return ``none``, then the methods."""
        return [MethodSpec(BASELINE), *(spec for spec in self.specs if spec.name != BASELINE)]


def make_plan(
    encoder: Any,
    attribute: Attribute,
    *,
    prompts: Sequence[str] | str | None = None,
    book: str | PromptBook | None = None,
    specs: Sequence[MethodSpec] | None = None,
    kappa: float | None = None,
    source: ImageSource | None = None,
    group_columns: Sequence[str] = (),
    label_column: str | None = None,
    caption_column: str | None = None,
    settings: AuditSettings | None = None,
) -> AuditPlan:
    """Return the plan of an audit, with everything that it names looked up and checked.

    prompts: a list, or the name of a book whose prompts are meant; None: the curated prompts of the
    attribute.
    """
    listed, fitting_book = _read_prompts(prompts, book, attribute)
    neutral, explicit = _split_prompts(listed, attribute)
    chosen = _choose_methods(specs, kappa, with_images=source is not None)
    groups, labels, captions = None, None, None
    if source is not None:
        if group_columns:
            groups = _read_groups(source, attribute, tuple(group_columns))
        if label_column is not None:
            labels = _read_labels(source, label_column)
        if caption_column is not None:
            captions = _read_captions(source, caption_column)
    return AuditPlan(
        encoder,
        attribute,
        fitting_book,
        prompts=tuple(neutral),
        specs=tuple(chosen),
        settings=settings or AuditSettings(),
        explicit=tuple(explicit),
        source=source,
        groups=groups,
        group_columns=tuple(group_columns),
        labels=labels,
        captions=captions,
        asked=specs is not None,
    )


# --- Prompts ----------------------------------------------------------------------------


def _read_prompts(
    prompts: Sequence[str] | str | None, book: str | PromptBook | None, attribute: Attribute
) -> tuple[list[str], PromptBook]:
    """Return the prompts to audit and the book to fit with.

    Prompts that come from a book are fitted with that book, unless another one is given.
    """
    named = None
    if isinstance(prompts, str) or prompts is None:
        named = whole(PromptBook.load(prompts or curated_prompts(attribute)), attribute)
        listed = list(named.prompts)
    else:
        listed = list(dict.fromkeys(prompts))
    if not listed:
        raise InputError("there is no prompt to audit; pass one or more")
    if named is not None and book is None:
        return listed, named
    if isinstance(book, PromptBook):
        return listed, whole(book, attribute)
    return listed, book_for(listed, attribute, book)


def _split_prompts(prompts: list[str], attribute: Attribute) -> tuple[list[str], list[str]]:
    """Return the prompts that name no group, and those that name one."""
    neutral, explicit = [], []
    for prompt in prompts:
        if explicit_groups(prompt, attribute):
            explicit.append(prompt)
        else:
            neutral.append(prompt)
    if not neutral:
        raise InputError(
            f"all {len(prompts)} prompts name a group themselves, first {prompts[0]!r}; an audit"
            " needs prompts that leave it open, such as 'a photo of a doctor'"
        )
    return neutral, explicit


# --- Methods ----------------------------------------------------------------------------


def _choose_methods(
    specs: Sequence[MethodSpec] | None, kappa: float | None, *, with_images: bool
) -> list[MethodSpec]:
    """Return the methods that are named, or the default ones, each checked and at kappa."""
    if not specs:
        names = WITH_IMAGES if with_images else TEXT_ONLY
        specs = [MethodSpec(name) for name in names]
    chosen = [_with_kappa(spec, kappa) for spec in specs]
    for spec in chosen:
        spec.check("shared", "retrieval")
        if spec.needs_labels:
            raise InputError(
                f"{spec.label} learns from labelled images, and would be measured on them; use"
                " equipoise evaluate --fit-share"
            )
    labels = [BASELINE, *(spec.label for spec in chosen if spec.name != BASELINE)]
    if len(set(labels)) < len(labels):
        raise InputError(
            f"two methods have one name: {', '.join(labels)}; leave one out, or rename a saved"
            " operator's file"
        )
    return chosen


def _with_kappa(spec: MethodSpec, kappa: float | None) -> MethodSpec:
    """Return the method at this kappa, unless it has no kappa or was given one of its own."""
    if kappa is None or spec.is_file or "kappa" in spec.params:
        return spec
    method: Any = find(spec.name)
    if "kappa" not in {field.name for field in fields(method)}:
        return spec
    return replace(spec, params={**spec.params, "kappa": kappa})


# --- Columns ----------------------------------------------------------------------------


def columns_for(attribute: Attribute, columns: Sequence[str]) -> tuple[str, ...]:
    """Return the columns named after the attribute's parts; all columns where a part has none."""
    by_name = {column.replace("_", " ").lower(): column for column in columns}
    found = []
    for part in attribute.parts:
        if part.name.lower() not in by_name:
            return tuple(columns)
        found.append(by_name[part.name.lower()])
    return tuple(found)


def _read_groups(source: ImageSource, attribute: Attribute, columns: tuple[str, ...]) -> np.ndarray:
    """Return the group of each image, None where it is unknown."""
    for column in columns:
        labels = encode_groups(source.table[column].to_numpy(dtype=object)).labels
        if len(labels) < 2:
            raise InputError(
                f"the column {column} has one value, {list(labels)}, and an audit compares groups;"
                " pass another column, or leave `group_columns` out to perceive groups by"
                " zero-shot"
            )
    return groups_of(source.table, Dataset(source.name, source.table, columns), attribute)


def _read_labels(source: ImageSource, column: str) -> np.ndarray:
    """Return the class of each image."""
    labels = source.table["label"].to_numpy(dtype=object)
    classes = encode(labels, "labels").labels
    if len(classes) < 2:
        raise InputError(
            f"the column {column} names {list(classes) or 'no class'}, and zero-shot classification"
            " needs two classes; pass another `label_column`, or leave it out"
        )
    return labels


def _read_captions(source: ImageSource, column: str) -> np.ndarray:
    """Return the caption of each image."""
    captions = source.table["caption"].to_numpy(dtype=object)
    if not len(written(captions)):
        raise InputError(
            f"the column {column} holds no caption; pass another `caption_column`, or leave it out"
        )
    return captions


def written(captions: np.ndarray) -> np.ndarray:
    """Return the places of the captions that are not empty."""
    places = [i for i, text in enumerate(captions) if isinstance(text, str) and text.strip()]
    return np.array(places, int)
