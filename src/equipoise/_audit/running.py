"""Running an audit: every part measured, one document of plain numbers."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from equipoise._audit import cost, dial, intervals
from equipoise._audit import metrics as parts
from equipoise._audit.documents import FORMAT, KIND, Pictures
from equipoise._audit.fitted_methods import Subject, prepare
from equipoise._audit.gallery import gallery
from equipoise._audit.plan import AuditPlan
from equipoise._audit.verdict import verdict
from equipoise._space import AttributeSpace, EncoderRef
from equipoise._stores import Store
from equipoise.evaluation._document import plain, versions
from equipoise.methods._spaces import SpaceOperator
from equipoise.prompts._writing import today


class Audit(NamedTuple):
    """results: the document, in JSON's own types.

    pictures: what the page needs beside it. space: the fitted attribute space.
    """

    results: dict[str, Any]
    pictures: Pictures
    space: AttributeSpace


def run(plan: AuditPlan, *, pictures: bool = True) -> Audit:
    """Measure. pictures: whether the page gets small pictures of what is found."""
    subject = prepare(plan)
    index = subject.index
    prompts: list[dict[str, Any]] = [{"prompt": prompt} for prompt in plan.prompts]
    summary, chance, lists = parts.text_association(subject, prompts), None, {}
    if index is not None:
        lists = subject.ranked(index)
        rows, chance = parts.retrieval_skew(subject, index, lists, prompts)
        summary += (
            rows
            + parts.classification(subject, index)
            + parts.recall(subject, index)
            + parts.probe(subject, index)
        )
    summary += parts.utility(subject) + parts.explicit_prompts(subject)
    inputs = dial.Inputs(subject.texts, subject.prompts, subject.yardstick.prototypes)
    if index is not None:
        inputs = inputs._replace(images=index.rows, groups=index.groups, m=index.m)
    turning = {i: op for i, op in enumerate(subject.operators.values()) if dial.turnable(op)}
    dials, tops = _dials(subject, turning, inputs, lists)
    shown, small = None, {}
    if index is not None and pictures:
        shown, small = gallery(index, prompts, lists, tops, plan.settings)
    results = {
        "kind": KIND,
        "format": FORMAT,
        "created": today(),
        "versions": versions(),
        "subject": _subject(subject),
        "settings": _settings(subject, inputs),
        "methods": [_method(subject, label) for label in subject.labels],
        "yardstick": {"explicit_lean": subject.yardstick.explicit, "n": subject.yardstick.n},
        "summary": summary,
        "chance": chance,
        "prompts": prompts,
        "certificates": [
            cost.certificate(
                op, None if index is None else index.rows, subject.texts, subject.prompts
            )
            for op in subject.operators.values()
        ],
        "dials": dials,
        "gallery": shown,
        "notes": subject.notes,
    }
    results = plain(results)
    results["verdict"] = verdict(results)
    return Audit(results, Pictures(dial.arrays(turning, inputs), small), subject.space)


def _dials(
    subject: Subject,
    turning: dict[int, SpaceOperator],
    inputs: dial.Inputs,
    lists: dict[str, np.ndarray],
) -> tuple[list[Any], list[np.ndarray]]:
    found: list[Any] = [None] * len(subject.labels)
    tops: list[np.ndarray] = []
    for place, operator in turning.items():
        searched = (
            {0.0: lists[subject.labels[0]], dial.kappa(operator): lists[subject.labels[place]]}
            if lists
            else {}
        )
        found[place], first = dial.grid(operator, inputs, subject.plan.settings.gallery, searched)
        tops += first
    return found, tops


def _subject(subject: Subject) -> dict[str, Any]:
    plan, index = subject.plan, subject.index
    stored = None if plan.source is None else plan.source.embeddings
    named = EncoderRef.of(plan.encoder)
    encoder = EncoderRef.of(stored) if isinstance(stored, Store) and not any(named) else named
    images = None
    if index is not None:
        sizes = [
            {"group": group, "n": int(n)}
            for group, n in zip(index.groups.labels, index.groups.sizes, strict=True)
        ]
        images = {
            "name": index.source.name,
            "given": len(index.source.table),
            "n": len(index.rows),
            "known": index.known,
            "groups": sizes,
        }
        images |= {
            "unknown": len(index.rows) - index.known,
            "dropped": index.source.dropped,
            "generated": index.source.generated,
        }
    return {
        "model": encoder._asdict() | {"dim": subject.space.dim},
        "attribute": {"name": plan.attribute.name, "groups": list(plan.attribute.groups)},
        "groups_from": _groups_from(plan),
        "group_columns": list(plan.group_columns),
        "images": images,
        "prompts": len(plan.prompts),
        "explicit": len(subject.explicit),
        "book": {
            "hash": plan.book.hash,
            "prompts": len(plan.book),
            "writers": sorted({source.writer for source in plan.book.sources}),
        },
        "space": {
            "rank": subject.space.rank,
            "dim": subject.space.dim,
            "fingerprint": subject.space.fingerprint,
        },
    }


def _groups_from(plan: AuditPlan) -> str:
    if plan.source is None:
        return "text"
    if plan.groups is None:
        return "zero-shot"
    return "classifier" if set(plan.group_columns) <= set(plan.source.generated or ()) else "labels"


def _settings(subject: Subject, inputs: dial.Inputs) -> dict[str, Any]:
    s = subject.plan.settings
    places = s.places if subject.index is None else subject.index.places
    measured = {
        "m": inputs.m or None,
        "places": places,
        "resamples": s.resamples,
        "permutations": s.permutations,
        "level": s.level,
    }
    measured |= {"interval": intervals.KIND, "seed": s.seed}
    return measured | {"pairs": inputs.pairs, "most_pairs": dial.PAIRS, "exact_dial": inputs.exact}


def _method(subject: Subject, label: str) -> dict[str, Any]:
    operator = subject.operators[label]
    spec = next(spec for spec in subject.plan.all_specs if spec.label == label)
    kappa = dial.kappa(operator) if dial.turnable(operator) else None
    about = {
        "label": label,
        "method": operator.name,
        "params": operator.params,
        "changes": list(operator.changes),
        "kappa": kappa,
    }
    return about | {"fingerprint": operator.fingerprint, "fitted_on_images": spec.takes_images()}
