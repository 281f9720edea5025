"""The parts of an audit: each measures the subject and gives rows of the summary.

A row of the summary is a metric, its n, and a value per method.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from equipoise import evaluation as tasks
from equipoise import metrics
from equipoise._audit import association, cost, intervals, skew
from equipoise._audit.fitted_methods import Index, Subject
from equipoise._audit.plan import written
from equipoise._audit.results import (
    ChanceFindings,
    MethodGap,
    MethodValue,
    PerceivedFacts,
    PromptFindings,
    Ranged,
    SummaryMetric,
)
from equipoise._rows import unit
from equipoise.errors import InputError
from equipoise.evaluation._retrieval import rank
from equipoise.evaluation._run_document import Better
from equipoise.evaluation._small_cells import small_groups
from equipoise.metrics._intervals import ANY, POSITIVE, SHARE, Limits
from equipoise.metrics._labels import encode
from equipoise.metrics._probe import METRIC

FOLDS = 5


@dataclass(frozen=True)
class SkewFindings:
    """What retrieval skew adds to an audit; by default nothing, for an audit of texts.

    prompts: those given, with their own skews. before: the skew of each as the model is.
    """

    prompts: list[PromptFindings]
    rows: list[SummaryMetric] = field(default_factory=list)
    chance: ChanceFindings | None = None
    gaps: list[MethodGap] = field(default_factory=list)
    before: np.ndarray = field(default_factory=lambda: np.zeros(0))


def text_association(subject: Subject) -> tuple[SummaryMetric, list[PromptFindings]]:
    """Return the mean lean of the prompts, and each prompt with its own."""
    level = subject.plan.settings.level
    points, drawn = [], []
    for label in subject.labels:
        changed = subject.text(label, subject.texts, subject.prompts)
        points.append(association.leans(changed, subject.yardstick.prototypes))
        drawn.append(association.leans(changed, subject.yardstick.resampled))
    prompts = []
    for i, (prompt, group) in enumerate(zip(subject.prompts, points[0].argmax(1), strict=True)):
        own = np.array([point[i, group] for point in points])
        own_drawn = np.array([resamples[:, i, group] for resamples in drawn])
        towards = subject.plan.attribute.groups[group]
        lean = intervals.values(own, own_drawn, level)
        prompts.append(PromptFindings(prompt=prompt, towards=towards, lean=lean))
    means = np.array([point.max(1).mean() for point in points])
    means_drawn = np.array([resamples.max(2).mean(1) for resamples in drawn])
    row = SummaryMetric(
        key="lean",
        name="lean of a prompt, mean over prompts",
        section="association",
        better="lower",
        n=subject.yardstick.n,
        over="the book's prompts",
        values=intervals.values(means, means_drawn, level, POSITIVE),
    )
    return row, prompts


def retrieval_skew(
    subject: Subject, index: Index, lists: dict[str, np.ndarray], prompts: list[PromptFindings]
) -> SkewFindings:
    """Return the skews of the prompts, what chance would give, and the methods' gaps."""
    s = subject.plan.settings
    found = skew.measure(lists, index.groups, index.m, index.places, s)
    fair = np.array([one.share for one in found.chance.top])
    skewed = []
    for i, prompt in enumerate(prompts):
        own = {
            "max_skew": intervals.values(
                found.max_skew[:, i], found.max_skews[:, :, i], s.level, POSITIVE, found.alone
            ),
            "ndkl": intervals.values(found.ndkl[:, i], found.ndkls[:, :, i], s.level, POSITIVE),
            "top": _shares(found, i, s.level),
            "most": int((found.top[0, i] / fair).argmax()),
            "changed": _changed(lists, i, index.places),
        }
        skewed.append(prompt.model_copy(update=own))
    small = list(small_groups(index.names))
    rows = []
    for key, name, points, drawn, chance in (
        ("max_skew", f"MaxSkew@{index.m}", found.max_skew, found.max_skews, found.together),
        ("ndkl", f"NDKL@{index.m}", found.ndkl, found.ndkls, None),
    ):
        row = SummaryMetric(
            key=key,
            name=f"{name}, mean over prompts",
            section="retrieval",
            better="lower",
            n=index.known,
            over="images",
            values=intervals.values(points.mean(1), drawn.mean(2), s.level, POSITIVE, chance),
            small=small,
        )
        rows.append(row)
    gaps = _gaps(found.max_skew.mean(1), found.max_skews.mean(2), s.level)
    return SkewFindings(skewed, rows, found.chance, gaps, before=found.max_skew[0])


def _shares(found: skew.Skew, prompt: int, level: float) -> list[list[MethodValue]]:
    """Return each group's share of a prompt's first places, by method and group."""
    by_group = []
    for group in range(found.top.shape[2]):
        drawn = found.tops[:, :, prompt, group].astype(np.float64)
        by_group.append(intervals.values(found.top[:, prompt, group], drawn, level, SHARE))
    return [list(of_groups) for of_groups in zip(*by_group, strict=True)]


def _gaps(means: np.ndarray, drawn: np.ndarray, level: float) -> list[MethodGap]:
    """Return the paired differences of the methods' means, ``none`` left out."""
    found = []
    for method in range(1, len(means)):
        for other in range(method + 1, len(means)):
            pair = [other, method]
            difference = intervals.values(means[pair], drawn[pair], level)[1].change
            if difference is not None:
                found.append(MethodGap(method=method, other=other, difference=difference))
    return found


def _changed(lists: dict[str, np.ndarray], prompt: int, places: int) -> list[int]:
    """Return how many of a prompt's first results are new with each method."""
    firsts = [set(top[prompt, :places].tolist()) for top in lists.values()]
    return [len(first - firsts[0]) for first in firsts]


def perceived(subject: Subject) -> PerceivedFacts | None:
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
    [mean] = intervals.of_means(
        (right * weights * len(codes))[None], s.resamples, s.level, s.seed, SHARE
    )
    agreement = Ranged(value=mean.value, low=mean.low, high=mean.high)
    return PerceivedFacts(agreement=agreement, chance=1 / len(present), n=len(codes))


def classification(subject: Subject, index: Index) -> list[SummaryMetric]:
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


def recall(subject: Subject, index: Index) -> list[SummaryMetric]:
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
    about = {"n": len(chosen), "over": "captions"}
    return [row.model_copy(update=about) for row in rows]


def utility(subject: Subject) -> list[SummaryMetric]:
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
) -> list[SummaryMetric]:
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


def probe(subject: Subject, index: Index) -> list[SummaryMetric]:
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
    row = SummaryMetric(
        key="probe",
        name="AUC of a probe trained on images",
        section="probe",
        better="lower",
        n=found.n,
        over="images",
        values=intervals.of_estimates(estimates, changes),
        small=list(small_groups(index.names[chosen])),
    )
    return [row]


def explicit_prompts(subject: Subject) -> list[SummaryMetric]:
    """Return how far prompts that name a group still mean it, without and with the gate."""
    found = _explicit(subject, None, "", "explicit")
    return found + _explicit(subject, True, "_gated", "explicit, gated")


def _explicit(subject: Subject, gate: Any, suffix: str, section: str) -> list[SummaryMetric]:
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


def _mean(
    subject: Subject,
    key: str,
    name: str,
    section: str,
    better: Better,
    values: Sequence[np.ndarray],
    over: str,
    limits: Limits,
) -> SummaryMetric:
    """Return a row of means. values: (methods, n)."""
    s = subject.plan.settings
    rows = np.array(values, float)
    return SummaryMetric(
        key=key,
        name=name,
        section=section,
        better=better,
        n=rows.shape[1],
        over=over,
        values=intervals.of_means(rows, s.resamples, s.level, s.seed, limits),
    )


def _measured(
    subject: Subject, found: tasks.Measured, section: str, wanted: Sequence[str]
) -> list[SummaryMetric]:
    """Return a row for each wanted metric of a task."""
    bootstrap, level = found.bootstrap, subject.plan.settings.level
    first, *others = subject.labels
    rows = []
    for metric in wanted:
        estimates = [
            bootstrap.estimate(label, metric, level=level, limits=SHARE) for label in subject.labels
        ]
        changes = [bootstrap.difference(label, first, metric, level=level) for label in others]
        row = SummaryMetric(
            key=metric,
            name=metric,
            section=section,
            better=found.better[metric],
            n=bootstrap.n,
            over=bootstrap.over,
            values=intervals.of_estimates(estimates, changes),
            small=list(found.small.get(metric, ())),
        )
        rows.append(row)
    return rows


def _some(places: np.ndarray, most: int, seed: int) -> np.ndarray:
    """Return at most ``most`` of the places, drawn at random, in order."""
    rng = np.random.default_rng(seed)
    return np.sort(rng.choice(places, min(most, len(places)), replace=False))
