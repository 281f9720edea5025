"""``Subject``: what an audit measures, encoded once: texts, images with their groups, and every
method fitted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from equipoise._audit import association, explicit, skew
from equipoise._audit.plan import Plan
from equipoise._audit.sources import Source, rows
from equipoise._rows import unit
from equipoise._space import AttributeSpace
from equipoise._spaceset import SpaceSet
from equipoise.datasets._checks import check_members
from equipoise.errors import InputError
from equipoise.evaluation._retrieval import rank_deep
from equipoise.methods import FitContext, Operator
from equipoise.methods._specs import serve
from equipoise.metrics._labels import Coded
from equipoise.prompts._prototypes import encode, prompt_prototypes


@dataclass(frozen=True)
class Index:
    """The images: unit rows (n, d), which lines of the source they are, and the group of each.

    m: places that skew looks at; places: of "who comes first".
    """

    source: Source
    rows: np.ndarray
    lines: np.ndarray
    groups: Coded
    m: int
    places: int

    @property
    def names(self) -> np.ndarray:
        """The group of each image by name; None where unknown."""
        return np.array([*self.groups.labels, None], dtype=object)[self.groups.codes]

    @property
    def known(self) -> int:
        return int(self.groups.known.sum())


@dataclass(frozen=True)
class Subject:
    """operators: label -> operator, ``none`` first.

    space: that of the book's prompts, the yardstick of leakage for all methods.
    """

    plan: Plan
    space: AttributeSpace
    yardstick: association.Yardstick
    texts: np.ndarray
    explicit: list[explicit.Explicit]
    explicit_texts: np.ndarray
    index: Index | None
    operators: dict[str, Operator]
    notes: list[str]

    @property
    def prompts(self) -> list[str]:
        return list(self.plan.prompts)

    @property
    def labels(self) -> list[str]:
        return list(self.operators)

    def text(
        self, label: str, given: np.ndarray, prompts: list[str], gate: Any = None
    ) -> np.ndarray:
        """What a method makes of texts."""
        return np.asarray(
            self.operators[label].text(given, prompts, **({} if gate is None else {"gate": gate}))
        )

    def image(self, label: str, given: np.ndarray) -> np.ndarray:
        """What a method makes of images."""
        return np.asarray(self.operators[label].image(given))

    def ranked(self, index: Index) -> dict[str, np.ndarray]:
        """The best images of each prompt by each method, deep enough for resamples."""
        given = index.rows, self.texts, self.prompts, index.groups.known, max(index.m, index.places)
        return {label: rank_deep(operator, *given) for label, operator in self.operators.items()}


def prepare(plan: Plan) -> Subject:
    """Encode and fit."""
    notes: list[str] = []
    _, book_rows = prompt_prototypes(plan.encoder, plan.book, plan.attribute)
    given = {group: book_rows[:, i] for i, group in enumerate(plan.attribute.groups)}
    about = {"attribute": plan.attribute.name, "encoder": plan.encoder, "book_hash": plan.book.hash}
    space = AttributeSpace.from_prototypes(given, **about)
    yardstick = association.yardstick(book_rows, plan.settings.resamples, plan.settings.seed)
    named = explicit.explicit_texts(plan.prompts, plan.explicit, plan.book, plan.attribute)
    texts = _encoded(plan.encoder, [*plan.prompts, *(text for text, _ in named)])
    index = None if plan.source is None else _index(plan, plan.source, yardstick, notes)
    operators = _fitted(plan, index, notes)
    split = len(plan.prompts)
    return Subject(
        plan, space, yardstick, texts[:split], named, texts[split:], index, operators, notes
    )


def _encoded(encoder: Any, texts: list[str]) -> np.ndarray:
    unique = list(dict.fromkeys(texts))
    place = {text: i for i, text in enumerate(unique)}
    return unit(encode(encoder, unique)).astype(np.float32)[[place[text] for text in texts]]


def _index(plan: Plan, source: Source, yardstick: association.Yardstick, notes: list[str]) -> Index:
    images, there = rows(source, plan.encoder)
    names, dim = plan.attribute.groups, yardstick.prototypes.shape[1]
    if images.shape[1] != dim:
        raise InputError(
            f"images are {images.shape[1]} wide and texts {dim}; embed both with one encoder"
        )
    if plan.groups is None:
        codes = (images @ yardstick.prototypes.T.astype(images.dtype)).argmax(1)
        check_members(
            np.array(names, dtype=object)[codes],
            plan.attribute,
            f"as {source.name} is perceived by zero-shot",
        )
    else:
        found = plan.groups[there]
        check_members(found, plan.attribute, "whose pictures can be read")
        place = {name: i for i, name in enumerate(names)}
        codes = np.array([place.get(group, -1) for group in found])
    if lost := int((~there).sum()):
        notes.append(f"{lost} of {len(there)} images could not be read, and are left out.")
    groups = Coded(codes, names)
    known = int(groups.known.sum())
    m, first = skew.choose_m(plan.settings.m, known), plan.settings.places
    return Index(source, images, np.flatnonzero(there), groups, m, first if first < known else m)


def _fitted(plan: Plan, index: Index | None, notes: list[str]) -> dict[str, Operator]:
    found, images = {}, None if index is None else index.rows
    for spec in plan.all_specs:
        context = FitContext(
            plan.attribute,
            encoder=plan.encoder,
            book=plan.book,
            images=images,
            seed=plan.settings.seed,
        )
        try:
            operator = spec.fit(context, "shared", page=None if index is None else index.m)
            if images is not None:
                serve(operator, images)
            operator.require_encoder(plan.encoder)
            if isinstance(getattr(operator, "space", None), SpaceSet):
                raise InputError(
                    f"{spec.label} has a space a prompt, and an audit compares texts in one space;"
                    " pass scope=shared"
                )
            if operator.out_dim != operator.in_dim:
                raise InputError(
                    f"{spec.label} gives rows {operator.out_dim} wide, not to be compared with the"
                    f" model's {operator.in_dim}; measure it with equipoise evaluate"
                )
            found[spec.label] = operator
        except InputError as error:
            if plan.asked:
                raise
            notes.append(f"{spec.label} was left out: {error}")
    return found
