"""The run of an audit: it measures every part and gives one document of plain numbers."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from equipoise._audit import cost, dial, intervals
from equipoise._audit import metrics as parts
from equipoise._audit.documents import Pictures
from equipoise._audit.fitted_methods import Index, Subject, prepare
from equipoise._audit.gallery import gallery
from equipoise._audit.plan import AuditPlan
from equipoise._audit.recommendation import recommend
from equipoise._audit.record import AuditOrder, image_list, record
from equipoise._audit.results import AuditDocument, AuditFindings, AuditRecord
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

    @property
    def results(self) -> dict[str, Any]:
        """Return the document in JSON's own types."""
        return self.document.to_json()


def run(plan: AuditPlan, *, pictures: bool = True, order: AuditOrder | None = None) -> Audit:
    """Return what a plan measures. pictures: whether the page shows the images that are found."""
    subject = prepare(plan)
    index = subject.index
    prompts: list[dict[str, Any]] = [{"prompt": prompt} for prompt in plan.prompts]
    lists = {}
    if index is not None:
        lists = subject.ranked(index)
    summary, chance, gaps = _summary(subject, prompts, lists)
    inputs = _dial_inputs(subject)
    turning = {i: op for i, op in enumerate(subject.operators.values()) if dial.turnable(op)}
    dials, tops = _dials(subject, turning, inputs, lists)
    shown, small = None, {}
    if index is not None and pictures:
        shown, small = gallery(index, prompts, lists, tops, plan.settings)
    measured = {
        "created": today(),
        "versions": versions(),
        "subject": _subject(subject),
        "settings": _settings(subject, inputs),
        "methods": [_method(subject, label) for label in subject.labels],
        "yardstick": {"explicit_lean": subject.yardstick.explicit, "n": subject.yardstick.n},
        "perceived": parts.perceived(subject),
        "summary": summary,
        "chance": chance,
        "gaps": gaps,
        "prompts": prompts,
        "certificates": [
            cost.certificate(operator, inputs.images, subject.texts, subject.prompts)
            for operator in subject.operators.values()
        ],
        "dials": dials,
        "gallery": shown,
        "notes": subject.notes,
    }
    images = None if index is None else image_list(index)
    about = record(subject, _encoder(plan), order or AuditOrder(), images)
    return Audit(
        document=_judged(AuditFindings.model_validate(plain(measured)), about),
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
        **found.model_dump(),
        verdict=judged,
        recommendation=recommendation,
        record=about,
    )


def _summary(
    subject: Subject, prompts: list[dict[str, Any]], lists: dict[str, np.ndarray]
) -> tuple[list[dict[str, Any]], dict[str, Any] | None, list[dict[str, Any]]]:
    """Return the rows of the summary, what chance gives, and the gaps between methods.

    Add to the entries of the prompts.
    """
    index = subject.index
    summary = parts.text_association(subject, prompts)
    chance, gaps = None, []
    if index is not None:
        skews, chance, gaps = parts.retrieval_skew(subject, index, lists, prompts)
        summary += skews
        summary += parts.classification(subject, index)
        summary += parts.recall(subject, index)
        summary += parts.probe(subject, index)
    summary += parts.utility(subject)
    summary += parts.explicit_prompts(subject)
    return summary, chance, gaps


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
) -> tuple[list[Any], list[np.ndarray]]:
    """Return the dial of each method, None where it has none, and the first images they find.

    turning: the operators that have a dial, by their place among the methods.
    """
    labels, shown = subject.labels, subject.plan.settings.gallery
    found: list[Any] = [None] * len(labels)
    tops: list[np.ndarray] = []
    for place, operator in turning.items():
        searched = {}
        if lists:
            searched[0.0] = lists[labels[0]]
            searched[dial.kappa(operator)] = lists[labels[place]]
        found[place], first = dial.grid(operator, inputs, shown, searched)
        tops += first
    return found, tops


def _subject(subject: Subject) -> dict[str, Any]:
    """Return what was measured: the model, the attribute, the images, the prompts, the space."""
    plan, space = subject.plan, subject.space
    return {
        "model": {**_encoder(plan)._asdict(), "dim": space.dim},
        "attribute": {"name": plan.attribute.name, "groups": list(plan.attribute.groups)},
        "groups_from": _groups_from(plan),
        "group_columns": list(plan.group_columns),
        "images": None if subject.index is None else _images(subject.index),
        "prompts": len(plan.prompts),
        "explicit": len(subject.explicit),
        "book": {
            "hash": plan.book.hash,
            "prompts": len(plan.book),
            "writers": sorted({source.writer for source in plan.book.sources}),
        },
        "space": {"rank": space.rank, "dim": space.dim, "fingerprint": space.fingerprint},
    }


def _encoder(plan: AuditPlan) -> EncoderRef:
    """Return the encoder of the texts, or that of the stored images where it has no name."""
    named = EncoderRef.of(plan.encoder)
    stored = None if plan.source is None else plan.source.embeddings
    if isinstance(stored, Store) and not any(named):
        return EncoderRef.of(stored)
    return named


def _images(index: Index) -> dict[str, Any]:
    """Return where the images come from, and how many there are of each group."""
    groups = index.groups
    sizes = [
        {"group": group, "n": int(n)} for group, n in zip(groups.labels, groups.sizes, strict=True)
    ]
    return {
        "name": index.source.name,
        "given": len(index.source.table),
        "n": len(index.rows),
        "known": index.known,
        "groups": sizes,
        "unknown": len(index.rows) - index.known,
        "dropped": index.source.dropped,
        "generated": index.source.generated,
    }


def _groups_from(plan: AuditPlan) -> str:
    """Return who named the groups of the images."""
    if plan.source is None:
        return "text"
    if plan.groups is None:
        return "zero-shot"
    if set(plan.group_columns) <= set(plan.source.generated or ()):
        return "classifier"
    return "labels"


def _settings(subject: Subject, inputs: dial.Inputs) -> dict[str, Any]:
    """Return the settings as they were used."""
    settings = subject.plan.settings
    places = settings.places if subject.index is None else subject.index.places
    return {
        "m": inputs.m or None,
        "places": places,
        "resamples": settings.resamples,
        "permutations": settings.permutations,
        "level": settings.level,
        "interval": intervals.KIND,
        "seed": settings.seed,
        "pairs": inputs.pairs,
        "most_pairs": dial.PAIRS,
        "exact_dial": inputs.exact,
    }


def _method(subject: Subject, label: str) -> dict[str, Any]:
    """Return what there is to know of a fitted method."""
    operator = subject.operators[label]
    spec = next(spec for spec in subject.plan.all_specs if spec.label == label)
    kappa = dial.kappa(operator) if dial.turnable(operator) else None
    return {
        "label": label,
        "method": operator.name,
        "params": operator.params,
        "changes": list(operator.changes),
        "kappa": kappa,
        "fingerprint": operator.fingerprint,
        "fitted_on_images": spec.takes_images(),
    }
