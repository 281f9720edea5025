"""How far the annotators agree, and which images must be made again.

Unanimity is that of the paper's appendix D; Fleiss' kappa and gold questions stand beside it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict

import numpy as np

from equipoise._annotate import catalogue, labels, people
from equipoise._annotate.catalogue import Picture
from equipoise._annotate.documents import (
    Agreement,
    AgreementEstimate,
    AnnotatorAnswers,
    GoldShare,
    ImageToMakeAgain,
    MethodOutcomes,
)
from equipoise._annotate.labels import Label
from equipoise._annotate.project import Project
from equipoise._annotate.question import UNSURE, Question
from equipoise.errors import InputError
from equipoise.metrics import Bootstrap, fleiss_kappa
from equipoise.metrics._intervals import SHARE

UNANIMOUS, DISAGREED, WAITING = "unanimous", "disagreed", "waiting"
OUTCOMES = (UNANIMOUS, DISAGREED, UNSURE, WAITING)
AGAIN = (DISAGREED, UNSURE)
RESAMPLES = 1000


def agreement(
    project: Project, *, needed: int | None = None, resamples: int = RESAMPLES, seed: int = 0
) -> Agreement:
    """Return what people said.

    needed: answers that make an image unanimous; one of each annotator by default.
    """
    annotators = people.names(project.database)
    needed = len(annotators) if needed is None else needed
    if needed < 2:
        raise InputError(
            f"{needed} answers per image cannot agree; two annotators or more are needed, and there"
            f" are {len(annotators)}"
        )
    known = catalogue.pictures(project.database)
    asked = [picture for picture in known if picture.asked]
    said = labels.said(project.database)
    answers: dict[str, list[str]] = defaultdict(list)
    for label in said:
        answers[label.image].append(label.answer)
    outcomes = {picture.image: outcome(answers[picture.image], needed) for picture in asked}
    whole = [given for given in answers.values() if len(given) >= needed]
    estimates = _estimates(project.question, whole, len(asked), resamples, seed)
    gold = {picture.image: picture.gold for picture in known if picture.gold is not None}
    checked = labels.said(project.database, gold=True)
    return Agreement(
        question=project.question.text,
        answers=list(project.question.legal),
        needed=needed,
        images=len(asked),
        **_counted(outcomes.values()),
        unanimity=estimates.get("unanimity"),
        kappa=estimates.get("kappa"),
        annotators=[_annotator(name, project.question, said, checked, gold) for name in annotators],
        methods=_methods(asked, outcomes),
        regenerate=[
            _again(picture, outcomes[picture.image])
            for picture in asked
            if outcomes[picture.image] in AGAIN
        ],
    )


def outcome(answers: Sequence[str], needed: int) -> str:
    """Return what an image's answers come to.

    Two that differ, or one that is unsure, decide it before all have answered.
    """
    if UNSURE in answers:
        return UNSURE
    if len(set(answers)) > 1:
        return DISAGREED
    return UNANIMOUS if len(answers) >= needed else WAITING


def _again(picture: Picture, why: str) -> ImageToMakeAgain:
    return ImageToMakeAgain(
        image=picture.image, why=why, prompt=picture.prompt, method=picture.method
    )


def _counted(outcomes: Iterable[str]) -> dict[str, int]:
    counts = Counter(outcomes)
    return {name: counts[name] for name in OUTCOMES}


def _methods(asked: Sequence[Picture], outcomes: Mapping[str, str]) -> list[MethodOutcomes]:
    by: dict[str, list[str]] = defaultdict(list)
    for picture in asked:
        by[picture.method].append(outcomes[picture.image])
    rows = []
    for method, found in sorted(by.items()):
        if method:
            rows.append(MethodOutcomes(method=method, images=len(found), **_counted(found)))
    return rows


def _estimates(
    question: Question, answered: list[list[str]], images: int, resamples: int, seed: int
) -> dict[str, AgreementEstimate]:
    """Return unanimity and kappa of the images that all have answered; nothing without any.

    Intervals are over those images.
    """
    if not answered:
        return {}
    counts = np.zeros((len(answered), len(question.legal)), int)
    for i, given in enumerate(answered):
        for j, answer in enumerate(question.legal):
            counts[i, j] = given.count(answer)
    patterns, often = np.unique(counts, axis=0, return_counts=True)
    sure = patterns[:, :-1].max(1) == patterns.sum(1)
    n = int(often.sum())
    drawn = np.random.default_rng(seed).multinomial(n, often / n, resamples)
    values = {"unanimity": float(often @ sure / n), "kappa": fleiss_kappa(patterns, often)}
    replicates = {"unanimity": drawn @ sure / n, "kappa": fleiss_kappa(patterns, drawn)}
    result = Bootstrap(
        {("people", name): value for name, value in values.items()},
        {("people", name): value for name, value in replicates.items()},
        leave_one_out=lambda key: [],
        over="images",
        n=n,
        left_out=images - n,
    )
    found = {}
    for name, limits in (("unanimity", SHARE), ("kappa", (-1.0, 1.0))):
        estimate = result.estimate("people", name, limits=limits)
        found[name] = AgreementEstimate(**asdict(estimate))
    return found


def _annotator(
    name: str,
    question: Question,
    said: Sequence[Label],
    checked: Sequence[Label],
    gold: Mapping[str, str],
) -> AnnotatorAnswers:
    counts = Counter(label.answer for label in said if label.annotator == name)
    asked = [label.answer == gold[label.image] for label in checked if label.annotator == name]
    return AnnotatorAnswers(
        annotator=name,
        answered=counts.total(),
        counts={answer: counts[answer] for answer in question.legal},
        gold=_share(sum(asked), len(asked)) if asked else None,
    )


def _share(right: int, asked: int) -> GoldShare:
    """Return the share of right answers with Wilson's interval."""
    from scipy.stats import binomtest

    low, high = binomtest(right, asked).proportion_ci(0.95, method="wilson")
    return GoldShare(
        right=right, asked=asked, share=right / asked, low=float(low), high=float(high)
    )
