"""The run of an audit: it measures every part and gives one document of plain numbers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from equipoise._audit import cost, dial, intervals
from equipoise._audit import metrics as parts
from equipoise._audit.documents import Pictures
from equipoise._audit.fitted_methods import Index, Subject, prepare
from equipoise._audit.gallery import gallery
from equipoise._audit.plan import AuditPlan
from equipoise._audit.recommendation import recommend
from equipoise._audit.record import AuditOrder, image_list, record
from equipoise._audit.results import (
    AuditBook,
    AuditDocument,
    AuditedAttribute,
    AuditedImages,
    AuditedMethod,
    AuditFindings,
    AuditRecord,
    DialFindings,
    GroupsFrom,
    GroupSize,
    ModelFacts,
    SettingsUsed,
    SpaceFacts,
    SubjectFacts,
    SummaryMetric,
    YardstickFacts,
)
from equipoise._audit.verdict import verdict
from equipoise._documents import plain
from equipoise._space import AttributeSpace, EncoderRef
from equipoise._stores import Store
from equipoise.evaluation._run_file import versions
from equipoise.methods import Operator
from equipoise.methods._spaces import SpaceOperator
from equipoise.prompts._book_writers import today


class Audit(NamedTuple):
    """What an audit gives.

    pictures: what the page needs beside the document. space: the fitted attribute space.
    operators: label -> the fitted method, ``none`` first. rows: of the images. images: the list of
    them as csv.
    """

    document: AuditDocument
    pictures: Pictures
    space: AttributeSpace
    operators: dict[str, Operator]
    rows: np.ndarray | None
    images: str | None


def run(plan: AuditPlan, *, pictures: bool = True, order: AuditOrder | None = None) -> Audit:
    """Return what a plan measures. pictures: whether the page shows the images that are found."""
    subject = prepare(plan)
    index = subject.index
    lists = {}
    if index is not None:
        lists = subject.ranked(index)
    lean, prompts = parts.text_association(subject)
    skews = parts.SkewFindings(prompts)
    if index is not None:
        skews = parts.retrieval_skew(subject, index, lists, prompts)
    summary = [lean, *skews.rows, *_rows(subject)]
    inputs = _dial_inputs(subject)
    turning = {i: op for i, op in enumerate(subject.operators.values()) if dial.turnable(op)}
    dials, tops = _dials(subject, turning, inputs, lists)
    shown, small = None, {}
    if index is not None and pictures:
        shown, small = gallery(index, skews.before, lists, tops, plan.settings)
    certificates = []
    for operator in subject.operators.values():
        told = cost.certificate(operator, inputs.images, subject.texts, subject.prompts)
        certificates.append(told)
    stick = subject.yardstick
    measured = AuditFindings(
        created=today(),
        versions=versions(),
        subject=_subject(subject),
        settings=_settings(subject, inputs),
        methods=[_method(subject, label) for label in subject.labels],
        yardstick=YardstickFacts(explicit_lean=stick.explicit, n=stick.n),
        perceived=parts.perceived(subject),
        summary=summary,
        chance=skews.chance,
        gaps=skews.gaps,
        prompts=skews.prompts,
        certificates=certificates,
        dials=dials,
        gallery=shown,
        notes=subject.notes,
    )
    images = None if index is None else image_list(index)
    about = record(subject, _encoder(plan), order or AuditOrder(), images)
    return Audit(
        document=_judged(measured, about),
        pictures=Pictures(dial.arrays(turning, inputs), small),
        space=subject.space,
        operators=subject.operators,
        rows=inputs.images,
        images=images,
    )


def _judged(found: AuditFindings, about: AuditRecord) -> AuditDocument:
    """Return what was measured with the verdict, the recommendation and the record."""
    judged = verdict(found)
    recommendation = recommend(found, judged)
    if recommendation.method is not None:
        judged = judged.model_copy(update={"best": recommendation.method})
    return AuditDocument(
        **dict(found),
        verdict=judged,
        recommendation=recommendation,
        record=about,
    )


def _rows(subject: Subject) -> list[SummaryMetric]:
    """Return the rows of the summary that are about neither lean nor skew."""
    index = subject.index
    found = []
    if index is not None:
        found += parts.classification(subject, index)
        found += parts.recall(subject, index)
        found += parts.probe(subject, index)
    found += parts.utility(subject)
    found += parts.explicit_prompts(subject)
    return found


def _dial_inputs(subject: Subject) -> dial.Inputs:
    inputs = dial.Inputs(subject.texts, subject.prompts, subject.yardstick.prototypes)
    index = subject.index
    if index is None:
        return inputs
    return inputs._replace(images=index.rows, groups=index.groups, m=index.m)


def _dials(
    subject: Subject,
    turning: dict[int, SpaceOperator],
    inputs: dial.Inputs,
    lists: dict[str, np.ndarray],
) -> tuple[list[DialFindings | None], list[np.ndarray]]:
    """Return the dial of each method, None where it has none, and the first images they find.

    turning: the operators that have a dial, by their place among the methods.
    """
    labels, shown = subject.labels, subject.plan.settings.gallery
    found: list[DialFindings | None] = [None] * len(labels)
    tops: list[np.ndarray] = []
    for place, operator in turning.items():
        searched = {}
        if lists:
            searched[0.0] = lists[labels[0]]
            searched[dial.kappa(operator)] = lists[labels[place]]
        found[place], first = dial.grid(operator, inputs, shown, searched)
        tops += first
    return found, tops


def _subject(subject: Subject) -> SubjectFacts:
    """Return what was measured: the model, the attribute, the images, the prompts, the space."""
    plan, space = subject.plan, subject.space
    attribute = plan.attribute
    return SubjectFacts(
        model=ModelFacts(**_encoder(plan)._asdict(), dim=space.dim),
        attribute=AuditedAttribute(name=attribute.name, groups=list(attribute.groups)),
        groups_from=_groups_from(plan),
        group_columns=list(plan.group_columns),
        images=None if subject.index is None else _images(subject.index),
        prompts=len(plan.prompts),
        explicit=len(subject.explicit),
        book=AuditBook(
            hash=plan.book.hash,
            prompts=len(plan.book),
            writers=sorted({source.writer for source in plan.book.sources}),
        ),
        space=SpaceFacts(rank=space.rank, dim=space.dim, fingerprint=space.fingerprint),
    )


def _encoder(plan: AuditPlan) -> EncoderRef:
    """Return the encoder of the texts, or that of the stored images where it has no name."""
    named = EncoderRef.of(plan.encoder)
    stored = None if plan.source is None else plan.source.embeddings
    if isinstance(stored, Store) and not any(named):
        return EncoderRef.of(stored)
    return named


def _images(index: Index) -> AuditedImages:
    """Return where the images come from, and how many there are of each group."""
    sizes = []
    for group, n in zip(index.groups.labels, index.groups.sizes.tolist(), strict=True):
        sizes.append(GroupSize(group=group, n=n))
    return AuditedImages(
        name=index.source.name,
        given=len(index.source.table),
        n=len(index.rows),
        known=index.known,
        groups=sizes,
        unknown=len(index.rows) - index.known,
        dropped=index.source.dropped,
        generated=index.source.generated,
    )


def _groups_from(plan: AuditPlan) -> GroupsFrom:
    """Return who named the groups of the images."""
    if plan.source is None:
        return "text"
    if plan.groups is None:
        return "zero-shot"
    if set(plan.group_columns) <= set(plan.source.generated or ()):
        return "classifier"
    return "labels"


def _settings(subject: Subject, inputs: dial.Inputs) -> SettingsUsed:
    """Return the settings as they were used."""
    settings = subject.plan.settings
    places = settings.places if subject.index is None else subject.index.places
    return SettingsUsed(
        m=inputs.m or None,
        places=places,
        resamples=settings.resamples,
        permutations=settings.permutations,
        level=settings.level,
        interval=intervals.KIND,
        seed=settings.seed,
        pairs=inputs.pairs,
        most_pairs=dial.PAIRS,
        exact_dial=inputs.exact,
    )


def _method(subject: Subject, label: str) -> AuditedMethod:
    """Return what there is to know of a fitted method."""
    operator = subject.operators[label]
    spec = next(spec for spec in subject.plan.all_specs if spec.label == label)
    kappa = dial.kappa(operator) if dial.turnable(operator) else None
    return AuditedMethod(
        label=label,
        method=operator.name,
        params=plain(operator.params),
        changes=list(operator.changes),
        kappa=kappa,
        fingerprint=operator.fingerprint,
        fitted_on_images=spec.takes_images(),
    )
