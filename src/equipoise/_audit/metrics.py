"""The parts of an audit: each measures the subject and gives rows of the summary.

A row of the summary is a metric, its n, and a value per method.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from equipoise import evaluation as tasks
from equipoise import metrics
from equipoise._audit import association, cost, intervals, skew
from equipoise._audit.fitted_methods import Index, Subject
from equipoise._audit.plan import written
from equipoise._rows import unit
from equipoise.errors import InputError
from equipoise.evaluation._retrieval import rank
from equipoise.evaluation._small_cells import small_groups
from equipoise.metrics._intervals import ANY, POSITIVE, SHARE
from equipoise.metrics._labels import encode
from equipoise.metrics._probe import METRIC

FOLDS = 5

SummaryRow = dict[str, Any]


def text_association(subject: Subject, prompts: list[SummaryRow]) -> list[SummaryRow]:
    """Return the mean lean of the prompts, and add each prompt's own lean to its entry."""
    level = subject.plan.settings.level
    points, drawn = [], []
    for label in subject.labels:
        changed = subject.text(label, subject.texts, subject.prompts)
        points.append(association.leans(changed, subject.yardstick.prototypes))
        drawn.append(association.leans(changed, subject.yardstick.resampled))
    towards = points[0].argmax(1)
    for i, (entry, group) in enumerate(zip(prompts, towards, strict=True)):
        own = np.array([point[i, group] for point in points])
        own_drawn = np.array([resamples[:, i, group] for resamples in drawn])
        entry["towards"] = subject.plan.attribute.groups[group]
        entry["lean"] = intervals.values(own, own_drawn, level)
    means = np.array([point.max(1).mean() for point in points])
    means_drawn = np.array([resamples.max(2).mean(1) for resamples in drawn])
    about = _about(
        "lean",
        "lean of a prompt, mean over prompts",
        "association",
        "lower",
        subject.yardstick.n,
        "the book's prompts",
    )
    return [about | {"values": intervals.values(means, means_drawn, level, POSITIVE)}]


def retrieval_skew(
    subject: Subject, index: Index, lists: dict[str, np.ndarray], prompts: list[SummaryRow]
) -> tuple[list[SummaryRow], SummaryRow, list[SummaryRow]]:
    """Return the mean skews of the prompts, what chance would give, and the methods' gaps.

    Add to each prompt's entry its own skews, and how the groups share its first places.
    """
    s = subject.plan.settings
    found = skew.measure(lists, index.groups, index.m, index.places, s)
    fair = np.array([one["share"] for one in found.chance["top"]])
    for i, entry in enumerate(prompts):
        entry["max_skew"] = intervals.values(
            found.max_skew[:, i], found.max_skews[:, :, i], s.level, POSITIVE, found.alone
        )
        entry["ndkl"] = intervals.values(found.ndkl[:, i], found.ndkls[:, :, i], s.level, POSITIVE)
        shares = []
        for group in range(len(fair)):
            drawn = found.tops[:, :, i, group].astype(np.float64)
            shares.append(intervals.values(found.top[:, i, group], drawn, s.level, SHARE))
        entry["top"] = [list(by_group) for by_group in zip(*shares, strict=True)]
        entry["most"] = int((found.top[0, i] / fair).argmax())
        entry["changed"] = _changed(lists, i, index.places)
    rows = []
    for key, name, points, drawn, chance in (
        ("max_skew", f"MaxSkew@{index.m}", found.max_skew, found.max_skews, found.together),
        ("ndkl", f"NDKL@{index.m}", found.ndkl, found.ndkls, None),
    ):
        about = _about(
            key, f"{name}, mean over prompts", "retrieval", "lower", index.known, "images"
        )
        values = intervals.values(points.mean(1), drawn.mean(2), s.level, POSITIVE, chance)
        rows.append(about | {"values": values, "small": list(small_groups(index.names))})
    return rows, found.chance, _gaps(found.max_skew.mean(1), found.max_skews.mean(2), s.level)


def _gaps(means: np.ndarray, drawn: np.ndarray, level: float) -> list[SummaryRow]:
    """Return the paired differences of the methods' means, ``none`` left out."""
    found = []
    for method in range(1, len(means)):
        for other in range(method + 1, len(means)):
            pair = [other, method]
            difference = intervals.values(means[pair], drawn[pair], level)[1]["change"]
            found.append({"method": method, "other": other, "difference": difference})
    return found


def _changed(lists: dict[str, np.ndarray], prompt: int, places: int) -> list[int]:
    """Return how many of a prompt's first results are new with each method."""
    firsts = [set(top[prompt, :places].tolist()) for top in lists.values()]
    return [len(first - firsts[0]) for first in firsts]


def perceived(subject: Subject) -> SummaryRow | None:
    """Return how often the prompts see the group that was recorded, as a mean over groups.

    None where nobody recorded one.
    """
    index, s = subject.index, subject.plan.settings
    if index is None or subject.plan.groups is None:
        return None
    known = index.groups.known
    codes = index.groups.codes[known]
    prototypes = subject.yardstick.prototypes.astype(index.rows.dtype)
    right = (index.rows[known] @ prototypes.T).argmax(1) == codes
    present = np.flatnonzero(index.groups.sizes)
    # each group counts alike, so that guessing the commoner one gains nothing
    weights = 1 / (len(present) * index.groups.sizes[codes])
    [agreement] = intervals.of_means(
        (right * weights * len(codes))[None], s.resamples, s.level, s.seed, SHARE
    )
    return {"agreement": agreement, "chance": 1 / len(present), "n": len(codes)}


def classification(subject: Subject, index: Index) -> list[SummaryRow]:
    """Return the metrics of zero-shot classification, where the source has labels."""
    plan = subject.plan
    if plan.labels is None:
        return []
    labels = plan.labels[index.lines]
    classes = tasks.class_prompts(encode(labels, "labels").labels)
    found = tasks.classify(
        subject.operators,
        index.rows,
        classes,
        labels=labels,
        sensitive_features=index.names,
        encoder=plan.encoder,
        resamples=plan.settings.resamples,
        seed=plan.settings.seed,
    )
    return _measured(subject, found, "classification", found.bootstrap.metrics)


def recall(subject: Subject, index: Index) -> list[SummaryRow]:
    """Return how often captions still find their image, where the source has captions."""
    plan, s = subject.plan, subject.plan.settings
    if plan.captions is None:
        return []
    captions = plan.captions[index.lines]
    places = written(captions)
    if not places.size:
        raise InputError("no image that has a caption can be read; leave `caption_column` out")
    chosen = _some(places, s.captions, s.seed)
    found = tasks.retrieve(
        subject.operators,
        index.rows,
        [str(captions[i]) for i in chosen],
        sensitive_features=index.names,
        targets=chosen,
        encoder=plan.encoder,
        m=index.m,
        resamples=s.resamples,
        permutations=1,
        seed=s.seed,
    )
    recalls = [name for name in found.bootstrap.metrics if name.startswith("R@")]
    rows = _measured(subject, found, "cost", recalls)
    # a caption is drawn with its image, whatever the image's group
    return [row | {"n": len(chosen), "over": "captions"} for row in rows]


def utility(subject: Subject) -> list[SummaryRow]:
    """Return the leakage left in the prompts' space, and the self-utility loss, of all rows."""
    texts = [subject.text(label, subject.texts, subject.prompts) for label in subject.labels]
    found = _utility(subject, "texts", subject.texts, texts, over="prompts")
    if subject.index is not None:
        rows = subject.index.rows
        images = [subject.image(label, rows) for label in subject.labels]
        found += _utility(subject, "images", rows, images, over="images")
    return found


def _utility(
    subject: Subject, what: str, given: np.ndarray, changed: list[np.ndarray], over: str
) -> list[SummaryRow]:
    """Return the leakage and the self-utility loss of what each method made of the given rows."""
    lost, left = [], []
    for operator, rows in zip(subject.operators.values(), changed, strict=True):
        units = rows if operator.unit else unit(rows)
        lost.append(cost.self_loss(given, units))
        left.append(cost.leakage(units, subject.space))
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


def probe(subject: Subject, index: Index) -> list[SummaryRow]:
    """Return how well a classifier trained on labels still tells the groups of the images apart."""
    s = subject.plan.settings
    chosen = _some(np.flatnonzero(index.groups.known), s.probe_rows, s.seed)
    codes = index.groups.codes[chosen]
    fewest = int(np.bincount(codes, minlength=len(index.groups.labels)).min())
    if fewest < FOLDS:
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
    # a method that leaves images as they were has the probe of the first
    of = dict.fromkeys(subject.labels, first) | {label: label for label in probed}
    estimates = [
        found.estimate(of[label], METRIC, level=s.level, limits=SHARE) for label in subject.labels
    ]
    changes = [found.difference(of[label], first, METRIC, level=s.level) for label in others]
    about = _about("probe", "AUC of a probe trained on images", "probe", "lower", found.n, "images")
    few = list(small_groups(index.names[chosen]))
    return [about | {"values": intervals.of_estimates(estimates, changes), "small": few}]


def explicit_prompts(subject: Subject) -> list[SummaryRow]:
    """Return how far prompts that name a group still mean it, without and with the gate."""
    found = _explicit(subject, None, "", "explicit")
    return found + _explicit(subject, True, "_gated", "explicit, gated")


def _explicit(subject: Subject, gate: Any, suffix: str, section: str) -> list[SummaryRow]:
    """Return whether prompts are nearest to the group they name, lean to it and find it."""
    texts = [text for text, _ in subject.explicit]
    own = np.array([group for _, group in subject.explicit])
    nearest, stated = [], []
    for label in subject.labels:
        changed = subject.text(label, subject.explicit_texts, texts, gate)
        leans = association.leans(changed, subject.yardstick.prototypes)
        nearest.append(leans.argmax(1) == own)
        stated.append(leans[np.arange(len(own)), own])
    rows = [
        ("explicit_nearest", "explicit prompts nearest to the group they name", nearest, SHARE),
        ("explicit_lean", "lean of explicit prompts to the group they name", stated, ANY),
    ]
    index = subject.index
    if index is not None:
        name = f"share of the first {index.places} results that are of the group named"
        held = [_held(subject, index, label, own, texts, gate) for label in subject.labels]
        rows.append(("explicit_top", name, held, SHARE))
    return [
        _mean(subject, key + suffix, name, section, "higher", values, "explicit prompts", limits)
        for key, name, values, limits in rows
    ]


def _held(
    subject: Subject, index: Index, label: str, own: np.ndarray, texts: list[str], gate: Any
) -> np.ndarray:
    """Return the share of each explicit prompt's first results that is of the group it names.

    Images of an unknown group take no place.
    """
    images, codes, known = index.rows, index.groups.codes, index.groups.known
    if not known.all():
        images, codes = images[known], codes[known]
    top = rank(
        subject.operators[label], images, subject.explicit_texts, texts, index.places, gate=gate
    )
    return (codes[top] == own[:, None]).mean(1)


def _about(key: str, name: str, section: str, better: str, n: int, over: str) -> SummaryRow:
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
) -> SummaryRow:
    """Return a row of means. values: (methods, n)."""
    s = subject.plan.settings
    rows = np.array(values, float)
    means = intervals.of_means(rows, s.resamples, s.level, s.seed, limits)
    return _about(key, name, section, better, rows.shape[1], over) | {"values": means}


def _measured(
    subject: Subject, found: tasks.Measured, section: str, wanted: Sequence[str]
) -> list[SummaryRow]:
    """Return a row for each wanted metric of a task."""
    bootstrap, level = found.bootstrap, subject.plan.settings.level
    first, *others = subject.labels
    rows = []
    for metric in wanted:
        estimates = [
            bootstrap.estimate(label, metric, level=level, limits=SHARE) for label in subject.labels
        ]
        changes = [bootstrap.difference(label, first, metric, level=level) for label in others]
        better = found.better[metric]
        about = _about(metric, metric, section, better, bootstrap.n, bootstrap.over)
        about["small"] = list(found.small.get(metric, ()))
        rows.append(about | {"values": intervals.of_estimates(estimates, changes)})
    return rows


def _some(places: np.ndarray, most: int, seed: int) -> np.ndarray:
    """Return at most ``most`` of the places, drawn at random, in order."""
    rng = np.random.default_rng(seed)
    return np.sort(rng.choice(places, min(most, len(places)), replace=False))
