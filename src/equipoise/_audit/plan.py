"""``AuditPlan``: all that an audit measures with, read and checked before long work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from equipoise._audit.sources import ImageSource
from equipoise.datasets._checks import check_encoder, groups_of
from equipoise.errors import InputError
from equipoise.methods import find
from equipoise.methods._specs import BASELINE, MethodSpec
from equipoise.metrics._labels import encode, encode_groups
from equipoise.prompts._attribute import Attribute
from equipoise.prompts._book import PromptBook
from equipoise.prompts._choosing import book_for, whole
from equipoise.prompts._marks import explicit_groups

WITH_IMAGES, TEXT_ONLY = ("closed-form", "adapted"), ("closed-form", "orth-proj")


@dataclass(frozen=True)
class AuditSettings:
    """How to measure.

    m: places that skew looks at; None is a tenth of the images, from 20 to 1000. places: of "who
    comes first".
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
    """encoder: anything with ``encode_text``.

    prompts: those that name no group; explicit ones go to ``explicit``. groups: of each image, None
    where unknown; None as a whole where they are to be perceived by zero-shot. labels: of classes;
    captions: of images.
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
    # whether the user named the methods: one that cannot be fitted is an error then, and a note
    # otherwise
    asked: bool = True

    def __post_init__(self) -> None:
        if self.source is None:
            if (missing := self._in_need_of_images()) and self.asked:
                raise InputError(
                    f"{missing} is fitted on images, and there are none; pass `images`, or leave"
                    " it out"
                )
            return
        check_encoder(self.encoder, self.source.embeddings)
        modalities = getattr(self.encoder, "modalities", ("text", "image"))
        if self.source.embeddings is None and "image" not in modalities:
            raise InputError(
                f"{self.encoder.id} encodes texts only, and {self.source.name} holds pictures;"
                " leave `images` out for a text-only audit"
            )

    def _in_need_of_images(self) -> str:
        return next((spec.label for spec in self.specs if spec.takes_images()), "")

    @property
    def all_specs(self) -> list[MethodSpec]:
        """``none`` first, then the methods."""
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
    """Look everything up.

    prompts: a list, or the name of a book whose prompts they are; None: the curated ones of the
    attribute.
    """
    if isinstance(prompts, str) or prompts is None:
        found = whole(PromptBook.load(prompts or curated_prompts(attribute)), attribute)
        listed, fitted = list(found.prompts), found if book is None else None
    else:
        listed, fitted = list(dict.fromkeys(prompts)), None
    if not listed:
        raise InputError("there is no prompt to audit; pass one or more")
    if fitted is None:
        fitted = (
            whole(book, attribute)
            if isinstance(book, PromptBook)
            else book_for(listed, attribute, book)
        )
    stated = [prompt for prompt in listed if explicit_groups(prompt, attribute)]
    neutral = [prompt for prompt in listed if prompt not in set(stated)]
    if not neutral:
        raise InputError(
            f"all {len(listed)} prompts name a group themselves, first {listed[0]!r}; an audit"
            " needs prompts that leave it open, such as 'a photo of a doctor'"
        )
    asked = specs is not None
    chosen = [
        _with_kappa(spec, kappa)
        for spec in specs or [MethodSpec(name) for name in (WITH_IMAGES if source else TEXT_ONLY)]
    ]
    for spec in chosen:
        spec.check("shared", "retrieval")
        if spec.needs_labels:
            raise InputError(
                f"{spec.label} learns from labelled images, and would be measured on them; use"
                " equipoise evaluate --fit-share"
            )
    named = [BASELINE, *(spec.label for spec in chosen if spec.name != BASELINE)]
    if len(set(named)) < len(named):
        raise InputError(
            f"two methods have one name: {', '.join(named)}; leave one out, or rename a saved"
            " operator's file"
        )
    columns = tuple(group_columns)
    groups = _groups(source, attribute, columns) if source is not None and columns else None
    return AuditPlan(
        encoder,
        attribute,
        fitted,
        tuple(neutral),
        tuple(chosen),
        settings or AuditSettings(),
        explicit=tuple(stated),
        source=source,
        groups=groups,
        group_columns=columns,
        labels=None if source is None or label_column is None else _labels(source, label_column),
        captions=(
            None if source is None or caption_column is None else _captions(source, caption_column)
        ),
        asked=asked,
    )


def curated_prompts(attribute: Attribute) -> str:
    """The curated book that an audit of this attribute begins with: occupations where there are
    some, else people.
    """
    name = attribute.name.replace(" & ", "-").replace(" ", "-")
    known = PromptBook.curated_names()
    for book in (f"occupations-{name}", f"people-{name}"):
        if book in known:
            return book
    raise InputError(
        f"no curated book has prompts for {attribute.name}; pass `prompts` with a text file, one a"
        f" line, or one of {', '.join(known)}"
    )


def columns_for(attribute: Attribute, columns: Sequence[str]) -> tuple[str, ...]:
    """Of the group columns, those that an attribute's parts are named after; all of them where none
    is.
    """
    plain = {column.replace("_", " ").lower(): column for column in columns}
    named = [plain[part.name.lower()] for part in attribute.parts if part.name.lower() in plain]
    return tuple(named) if len(named) == len(attribute.parts) else tuple(columns)


def _groups(source: ImageSource, attribute: Attribute, columns: tuple[str, ...]) -> np.ndarray:
    from equipoise.datasets import Dataset

    found = {
        column: encode_groups(source.table[column].to_numpy(dtype=object)) for column in columns
    }
    for column, groups in found.items():
        if len(groups.labels) < 2:
            raise InputError(
                f"the column {column} has one value, {list(groups.labels)}, and an audit compares"
                " groups; pass another column, or leave `group_columns` out to perceive groups by"
                " zero-shot"
            )
    return groups_of(source.table, Dataset(source.name, source.table, columns), attribute)


def _labels(source: ImageSource, column: str) -> np.ndarray:
    labels = source.table["label"].to_numpy(dtype=object)
    if len(classes := encode(labels, "labels").labels) < 2:
        raise InputError(
            f"the column {column} names {list(classes) or 'no class'}, and zero-shot classification"
            " needs two classes; pass another `label_column`, or leave it out"
        )
    return labels


def _captions(source: ImageSource, column: str) -> np.ndarray:
    captions = source.table["caption"].to_numpy(dtype=object)
    if not len(written(captions)):
        raise InputError(
            f"the column {column} holds no caption; pass another `caption_column`, or leave it out"
        )
    return captions


def written(captions: np.ndarray) -> np.ndarray:
    """The places of captions that say something."""
    return np.array(
        [i for i, text in enumerate(captions) if isinstance(text, str) and text.strip()], int
    )


def _with_kappa(spec: MethodSpec, kappa: float | None) -> MethodSpec:
    from dataclasses import fields

    if kappa is None or spec.is_file or "kappa" in spec.params:
        return spec
    names = {f.name for f in fields(find(spec.name))}  # pyright: ignore[reportArgumentType]
    return replace(spec, params={**spec.params, "kappa": kappa}) if "kappa" in names else spec
