"""The parts of an audit: each takes the subject, and gives rows of the summary: a metric, its n,
and a value for every method.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from equipoise import evaluation as tasks
from equipoise import metrics
from equipoise._audit import association, cost, intervals, skew
from equipoise._audit.fitted_methods import Index, Subject
from equipoise._audit.intervals import ANY, POSITIVE, SHARE
from equipoise._audit.plan import written
from equipoise._rows import unit
from equipoise.errors import InputError
from equipoise.evaluation._retrieval import rank
from equipoise.metrics._labels import encode
from equipoise.metrics._probe import METRIC

FOLDS = 5

Row = dict[str, Any]


def text_association(subject: Subject, prompts: list[Row]) -> list[Row]:
    """How far each prompt leans; the entries of the prompts get theirs."""
    level, points, drawn = subject.plan.settings.level, [], []
    for label in subject.labels:
        changed = subject.text(label, subject.texts, subject.prompts)
        points.append(association.leans(changed, subject.yardstick.prototypes))
        drawn.append(association.leans(changed, subject.yardstick.resampled))
    towards = points[0].argmax(1)
    for i, (entry, group) in enumerate(zip(prompts, towards, strict=True)):
        own = (
            np.array([point[i, group] for point in points]),
            np.array([d[:, i, group] for d in drawn]),
        )
        entry |= {
            "towards": subject.plan.attribute.groups[group],
            "lean": intervals.values(*own, level),
        }
    means = (
        np.array([point.max(1).mean() for point in points]),
        np.array([d.max(2).mean(1) for d in drawn]),
    )
    about = _about(
        "lean",
        "lean of a prompt, mean over prompts",
        "association",
        "lower",
        subject.yardstick.n,
        "the book's prompts",
    )
    return [about | {"values": intervals.values(*means, level, POSITIVE)}]


def retrieval_skew(
    subject: Subject, index: Index, lists: dict[str, np.ndarray], prompts: list[Row]
) -> tuple[list[Row], Row]:
    """How the groups share the best places of each prompt; the entries of the prompts get theirs.

    And what chance would give.
    """
    s = subject.plan.settings
    found = skew.measure(lists, index.groups, index.m, index.places, s)
    fair = np.array([one["share"] for one in found.chance["top"]])
    for i, entry in enumerate(prompts):
        entry["max_skew"] = intervals.values(
            found.max_skew[:, i], found.max_skews[:, :, i], s.level, POSITIVE
        )
        entry["ndkl"] = intervals.values(found.ndkl[:, i], found.ndkls[:, :, i], s.level, POSITIVE)
        shares = [
            intervals.values(
                found.top[:, i, g], found.tops[:, :, i, g].astype(np.float64), s.level, SHARE
            )
            for g in range(len(fair))
        ]
        entry["top"] = [list(by_group) for by_group in zip(*shares, strict=True)]
        entry["most"] = int((found.top[0, i] / fair).argmax())
    rows = []
    for key, name, points, drawn in (
        ("max_skew", f"MaxSkew@{index.m}", found.max_skew, found.max_skews),
        ("ndkl", f"NDKL@{index.m}", found.ndkl, found.ndkls),
    ):
        about = _about(
            key, f"{name}, mean over prompts", "retrieval", "lower", index.known, "images"
        )
        rows.append(
            about | {"values": intervals.values(points.mean(1), drawn.mean(2), s.level, POSITIVE)}
        )
    return rows, found.chance


def classification(subject: Subject, index: Index) -> list[Row]:
    """Zero-shot classification, where the source has labels."""
    plan = subject.plan
    if plan.labels is None:
        return []
    labels = plan.labels[index.lines]
    classes = tasks.class_prompts(encode(labels, "labels").labels)
    options = {
        "encoder": plan.encoder,
        "resamples": plan.settings.resamples,
        "seed": plan.settings.seed,
    }
    found = tasks.classify(
        subject.operators,
        index.rows,
        classes,
        labels=labels,
        sensitive_features=index.names,
        **options,
    )
    return _measured(subject, found, "classification", found.bootstrap.metrics)


def recall(subject: Subject, index: Index) -> list[Row]:
    """Whether captions still find their image, where the source has captions."""
    plan, s = subject.plan, subject.plan.settings
    if plan.captions is None:
        return []
    captions = plan.captions[index.lines]
    places = written(captions)
    if not places.size:
        raise InputError("no image that has a caption can be read; leave `caption_column` out")
    chosen = _some(places, s.captions, s.seed)
    options = {
        "m": index.m,
        "resamples": s.resamples,
        "permutations": 1,
        "seed": s.seed,
        "encoder": plan.encoder,
        "targets": chosen,
    }
    found = tasks.retrieve(
        subject.operators,
        index.rows,
        [str(captions[i]) for i in chosen],
        sensitive_features=index.names,
        **options,
    )
    rows = _measured(
        subject, found, "cost", [name for name in found.bootstrap.metrics if name.startswith("R@")]
    )
    return [
        row | {"n": len(chosen), "over": "captions"} for row in rows
    ]  # each drawn with its image, whatever that one's group


def utility(subject: Subject) -> list[Row]:
    """Leakage that is left in the space of the prompts, and self-utility loss, of texts and of
    images.
    """
    found = _utility(subject, "texts", subject.texts)
    return found + (
        _utility(subject, "images", subject.index.rows) if subject.index is not None else []
    )


def _utility(subject: Subject, what: str, given: np.ndarray) -> list[Row]:
    lost, left = [], []
    for label in subject.labels:
        changed = (
            subject.text(label, given, subject.prompts)
            if what == "texts"
            else subject.image(label, given)
        )
        changed = changed if subject.operators[label].unit else unit(changed)
        lost.append(cost.self_loss(given, changed))
        left.append(cost.leakage(changed, subject.space))
    over = "prompts" if what == "texts" else "images"
    return [
        _mean(
            subject,
            f"leakage_{what}",
            f"leakage of {what}",
            "association",
            "lower",
            left,
            over,
            SHARE,
        ),
        _mean(
            subject,
            f"self_loss_{what}",
            f"self-utility loss of {what}",
            "cost",
            "lower",
            lost,
            over,
            POSITIVE,
        ),
    ]


def probe(subject: Subject, index: Index) -> list[Row]:
    """What a classifier trained on labels still reads from the images."""
    s = subject.plan.settings
    chosen = _some(np.flatnonzero(index.groups.known), s.probe_rows, s.seed)
    codes = index.groups.codes[chosen]
    if (fewest := int(np.bincount(codes, minlength=len(index.groups.labels)).min())) < FOLDS:
        subject.notes.append(
            f"No probe was trained: a group has {fewest} images, and {FOLDS} are needed."
        )
        return []
    first, *others = subject.labels
    changing = [label for label in others if "image" in subject.operators[label].changes]
    probed = {label: subject.image(label, index.rows[chosen]) for label in [first, *changing]}
    found = metrics.leakage_probe(
        probed, sensitive_features=codes, folds=FOLDS, resamples=s.resamples, seed=s.seed
    )
    same = {
        label: label if label in probed else first for label in subject.labels
    }  # images as they were: the same probe
    estimates = [found.estimate(same[label], METRIC, level=s.level) for label in subject.labels]
    changes = [found.difference(same[label], first, METRIC, level=s.level) for label in others]
    about = _about("probe", "AUC of a probe trained on images", "probe", "lower", found.n, "images")
    return [about | {"values": intervals.of_estimates(estimates, changes)}]


def explicit_prompts(subject: Subject) -> list[Row]:
    """Whether prompts that name a group are still nearest to it and still find it, without and with
    the gate.
    """
    own, texts = (
        np.array([group for _, group in subject.explicit]),
        [text for text, _ in subject.explicit],
    )
    index, found = subject.index, []
    for gate, suffix, section in ((None, "", "explicit"), (True, "_gated", "explicit, gated")):
        changed = [
            subject.text(label, subject.explicit_texts, texts, gate) for label in subject.labels
        ]
        leans = [association.leans(rows, subject.yardstick.prototypes) for rows in changed]
        nearest, stated = (
            [lean.argmax(1) == own for lean in leans],
            [lean[np.arange(len(own)), own] for lean in leans],
        )
        rows = [
            ("explicit_nearest", "explicit prompts nearest to the group they name", nearest, SHARE)
        ]
        rows += [("explicit_lean", "lean of explicit prompts to the group they name", stated, ANY)]
        if index is not None:
            held = [_held(subject, index, label, own, texts, gate) for label in subject.labels]
            rows += [
                (
                    "explicit_top",
                    f"share of the first {index.places} results that are of the group named",
                    held,
                    SHARE,
                )
            ]
        found += [
            _mean(subject, key + suffix, name, section, "higher", v, "explicit prompts", limits)
            for key, name, v, limits in rows
        ]
    return found


def _held(
    subject: Subject, index: Index, label: str, own: np.ndarray, texts: list[str], gate: Any
) -> np.ndarray:
    """Of each explicit prompt's first results, the share that is of its own group; images of an
    unknown group take no place.
    """
    known = index.groups.known
    images, codes = (
        (index.rows, index.groups.codes)
        if known.all()
        else (index.rows[known], index.groups.codes[known])
    )
    top = rank(
        subject.operators[label], images, subject.explicit_texts, texts, index.places, gate=gate
    )
    return (codes[top] == own[:, None]).mean(1)


def _about(key: str, name: str, section: str, better: str, n: int, over: str) -> Row:
    return {"key": key, "name": name, "section": section, "better": better, "n": n, "over": over}


def _mean(
    subject: Subject,
    key: str,
    name: str,
    section: str,
    better: str,
    values: Sequence[Any],
    over: str,
    limits: Any,
) -> Row:
    s, rows = subject.plan.settings, np.array(values, float)
    means = intervals.of_means(rows, s.resamples, s.level, s.seed, limits)
    return _about(key, name, section, better, rows.shape[1], over) | {"values": means}


def _measured(
    subject: Subject, found: tasks.Measured, section: str, wanted: Sequence[str]
) -> list[Row]:
    rows, level, first = [], subject.plan.settings.level, subject.labels[0]
    for metric in wanted:
        estimates = [
            found.bootstrap.estimate(label, metric, level=level) for label in subject.labels
        ]
        changes = [
            found.bootstrap.difference(label, first, metric, level=level)
            for label in subject.labels[1:]
        ]
        about = _about(
            metric, metric, section, found.better[metric], found.bootstrap.n, found.bootstrap.over
        )
        rows.append(about | {"values": intervals.of_estimates(estimates, changes)})
    return rows


def _some(places: np.ndarray, most: int, seed: int) -> np.ndarray:
    """At most ``most`` of the places, drawn at random, in order."""
    return np.sort(
        np.random.default_rng(seed).choice(places, min(most, len(places)), replace=False)
    )
