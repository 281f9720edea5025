"""``Subject``: what an audit measures, encoded and fitted once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from equipoise._audit import association, explicit, skew
from equipoise._audit.plan import AuditPlan
from equipoise._audit.sources import ImageSource, rows
from equipoise._rows import unit
from equipoise._space import AttributeSpace
from equipoise._spaceset import SpaceSet
from equipoise.datasets._checks import check_members
from equipoise.errors import InputError
from equipoise.evaluation._estimates import gated
from equipoise.evaluation._retrieval import rank_deep
from equipoise.methods import FitContext, Operator
from equipoise.methods._balanced_operator import BalancedOperator
from equipoise.methods._specs import MethodSpec, serve
from equipoise.metrics._labels import Coded
from equipoise.prompts._prototypes import encode, prompt_prototypes


@dataclass(frozen=True)
class Index:
    """The images that can be read.

    rows (n, d): unit rows. lines: the row of the source's table that each image has. m: the places
    that skew looks at. places: the places of "who comes first".
    """

    source: ImageSource
    rows: np.ndarray
    lines: np.ndarray
    groups: Coded
    m: int
    places: int

    @property
    def names(self) -> np.ndarray:
        """Return the name of each image's group; None where it is unknown."""
        return np.array([*self.groups.labels, None], dtype=object)[self.groups.codes]

    @property
    def known(self) -> int:
        """Return the number of images of a known group."""
        return int(self.groups.known.sum())


@dataclass(frozen=True)
class Subject:
    """What an audit measures.

    operators: label -> operator, ``none`` first. space: that of the book's prompts, in which the
    leakage of every method is measured.
    """

    plan: AuditPlan
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
        """Return what a method makes of texts."""
        operator = self.operators[label]
        return np.asarray(operator.text(given, prompts, **gated(operator, gate)))

    def image(self, label: str, given: np.ndarray) -> np.ndarray:
        """Return what a method makes of images."""
        return np.asarray(self.operators[label].image(given))

    def ranked(self, index: Index) -> dict[str, np.ndarray]:
        """Return the best images of each prompt by each method, deep enough for resamples."""
        known, depth = index.groups.known, max(index.m, index.places)
        return {
            label: rank_deep(operator, index.rows, self.texts, self.prompts, known, depth)
            for label, operator in self.operators.items()
        }


def prepare(plan: AuditPlan) -> Subject:
    """Return what a plan measures: encode the texts and images, and fit the methods."""
    notes: list[str] = []
    _, book_rows = prompt_prototypes(plan.encoder, plan.book, plan.attribute)
    space = AttributeSpace.from_prototypes(
        {group: book_rows[:, i] for i, group in enumerate(plan.attribute.groups)},
        attribute=plan.attribute.name,
        encoder=plan.encoder,
        book_hash=plan.book.hash,
    )
    yardstick = association.yardstick(book_rows, plan.settings.resamples, plan.settings.seed)
    named = explicit.explicit_texts(plan.prompts, plan.explicit, plan.book, plan.attribute)
    texts = _encoded(plan.encoder, [*plan.prompts, *(text for text, _ in named)])
    index = None
    if plan.source is not None:
        index = _index(plan, plan.source, yardstick, notes)
    return Subject(
        plan=plan,
        space=space,
        yardstick=yardstick,
        texts=texts[: len(plan.prompts)],
        explicit=named,
        explicit_texts=texts[len(plan.prompts) :],
        index=index,
        operators=_fitted(plan, index, notes),
        notes=notes,
    )


def _encoded(encoder: Any, texts: list[str]) -> np.ndarray:
    """Return the unit row of each text; a text that occurs twice is encoded once."""
    unique = list(dict.fromkeys(texts))
    place = {text: i for i, text in enumerate(unique)}
    encoded = unit(encode(encoder, unique)).astype(np.float32)
    return encoded[[place[text] for text in texts]]


def _index(
    plan: AuditPlan, source: ImageSource, yardstick: association.Yardstick, notes: list[str]
) -> Index:
    """Return the images that can be read, with the group of each."""
    images, there = rows(source, plan.encoder)
    dim = yardstick.prototypes.shape[1]
    if images.shape[1] != dim:
        raise InputError(
            f"images are {images.shape[1]} wide and texts {dim}; embed both with one encoder"
        )
    if plan.groups is None:
        codes = _perceived(plan, source, images, yardstick)
    else:
        codes = _recorded(plan, plan.groups[there])
    lost = int((~there).sum())
    if lost:
        notes.append(f"{lost} of {len(there)} images could not be read, and are left out.")
    groups = Coded(codes, plan.attribute.groups)
    known = int(groups.known.sum())
    m = skew.choose_m(plan.settings.m, known)
    places = plan.settings.places if plan.settings.places < known else m
    return Index(source, images, np.flatnonzero(there), groups, m, places)


def _perceived(
    plan: AuditPlan, source: ImageSource, images: np.ndarray, yardstick: association.Yardstick
) -> np.ndarray:
    """Return the group whose prototype is nearest to each image."""
    codes = (images @ yardstick.prototypes.T.astype(images.dtype)).argmax(1)
    found = np.array(plan.attribute.groups, dtype=object)[codes]
    check_members(found, plan.attribute, f"as {source.name} is perceived by zero-shot")
    return codes


def _recorded(plan: AuditPlan, groups: np.ndarray) -> np.ndarray:
    """Return the place of each image's group among the attribute's groups; -1 where unknown."""
    check_members(groups, plan.attribute, "whose pictures can be read")
    place = {name: i for i, name in enumerate(plan.attribute.groups)}
    return np.array([place.get(group, -1) for group in groups])


def _fitted(plan: AuditPlan, index: Index | None, notes: list[str]) -> dict[str, Operator]:
    """Return the fitted methods by their labels; note those that are left out."""
    context = FitContext(
        plan.attribute,
        encoder=plan.encoder,
        book=plan.book,
        images=None if index is None else index.rows,
        seed=plan.settings.seed,
    )
    labels = None
    if index is not None and plan.groups is not None:
        labels = index.names
    found = {}
    for spec in plan.all_specs:
        try:
            found[spec.label] = _fit(spec, context, index, labels)
        except InputError as error:
            if plan.asked:
                raise
            notes.append(f"{spec.label} was left out: {error}")
    return found


def _fit(
    spec: MethodSpec, context: FitContext, index: Index | None, labels: np.ndarray | None
) -> Operator:
    """Return the fitted method; raise where an audit cannot measure it.

    labels: the group of each image, where somebody recorded it. No method is fitted on them, but
    one that balances what the prompts see must see more of them than chance does.
    """
    operator = spec.fit(context, "shared", page=None if index is None else index.m)
    if index is not None:
        serve(operator, index.rows)
    if isinstance(operator, BalancedOperator):
        operator.keep_pages()  # an audit asks for the same prompts five times
        if labels is not None:
            operator.check_labels(labels)
    operator.require_encoder(context.encoder)
    if isinstance(getattr(operator, "space", None), SpaceSet):
        raise InputError(
            f"{spec.label} has one space per prompt, and an audit compares texts in one space;"
            " pass scope=shared"
        )
    if operator.out_dim != operator.in_dim:
        raise InputError(
            f"{spec.label} gives rows {operator.out_dim} wide, which cannot be compared with the"
            f" model's rows, {operator.in_dim} wide; measure it with equipoise evaluate"
        )
    return operator
