"""How far the annotators agree: unanimity as in the paper's appendix D, Fleiss' kappa, gold
questions, and what is to be made again.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from equipoise._annotate import catalogue, labels, people
from equipoise._annotate.catalogue import Picture
from equipoise._annotate.labels import Label
from equipoise._annotate.project import Project
from equipoise._annotate.question import UNSURE, Question
from equipoise.errors import InputError
from equipoise.metrics import Bootstrap, fleiss_kappa

UNANIMOUS, DISAGREED, WAITING = "unanimous", "disagreed", "waiting"
OUTCOMES = (UNANIMOUS, DISAGREED, UNSURE, WAITING)
AGAIN = (DISAGREED, UNSURE)
RESAMPLES = 1000


def agreement(
    project: Project, *, needed: int | None = None, resamples: int = RESAMPLES, seed: int = 0
) -> dict[str, Any]:
    """What people said, as a document of plain values.

    needed: answers that make an image unanimous; one of each annotator by default.
    """
    annotators = people.names(project.database)
    needed = len(annotators) if needed is None else needed
    if needed < 2:
        raise InputError(
            f"{needed} answers an image cannot agree; two annotators or more are needed, and there"
            f" are {len(annotators)}"
        )
    known = catalogue.pictures(project.database)
    asked = [picture for picture in known if picture.asked]
    said = labels.said(project.database)
    answers: dict[str, list[str]] = defaultdict(list)
    for label in said:
        answers[label.image].append(label.answer)
    outcomes = {picture.image: outcome(answers[picture.image], needed) for picture in asked}
    estimates = _estimates(
        project.question,
        [given for given in answers.values() if len(given) >= needed],
        len(asked),
        resamples,
        seed,
    )
    gold = {picture.image: picture.gold for picture in known if picture.gold is not None}
    checked = labels.said(project.database, gold=True)
    return {
        "question": project.question.text,
        "answers": list(project.question.legal),
        "needed": needed,
        "images": len(asked),
        **_counted(outcomes.values()),
        **estimates,
        "annotators": [
            _annotator(name, project.question, said, checked, gold) for name in annotators
        ],
        "methods": _methods(asked, outcomes),
        "regenerate": [
            _again(picture, outcomes[picture.image])
            for picture in asked
            if outcomes[picture.image] in AGAIN
        ],
    }


def outcome(answers: Sequence[str], needed: int) -> str:
    """What an image's answers come to.

    Two that differ, or one that is unsure, decide it before all have answered.
    """
    if UNSURE in answers:
        return UNSURE
    if len(set(answers)) > 1:
        return DISAGREED
    return UNANIMOUS if len(answers) >= needed else WAITING


def _again(picture: Picture, why: str) -> dict[str, str]:
    return {"image": picture.image, "why": why, "prompt": picture.prompt, "method": picture.method}


def _counted(outcomes: Iterable[str]) -> dict[str, int]:
    counts = Counter(outcomes)
    return {name: counts[name] for name in OUTCOMES}


def _methods(asked: Sequence[Picture], outcomes: Mapping[str, str]) -> list[dict[str, Any]]:
    by: dict[str, list[str]] = defaultdict(list)
    for picture in asked:
        by[picture.method].append(outcomes[picture.image])
    return [
        {"method": method, "images": len(of), **_counted(of)}
        for method, of in sorted(by.items())
        if method
    ]


def _estimates(
    question: Question, answered: list[list[str]], images: int, resamples: int, seed: int
) -> dict[str, Any]:
    """Unanimity and kappa of the images that all have answered, with intervals over those images;
    None where there are none.
    """
    if not answered:
        return {"unanimity": None, "kappa": None}
    counts = np.array([[given.count(answer) for answer in question.legal] for given in answered])
    patterns, often = np.unique(counts, axis=0, return_counts=True)
    sure = patterns[:, :-1].max(1) == patterns.sum(1)
    n = int(often.sum())
    drawn = np.random.default_rng(seed).multinomial(n, often / n, resamples)
    values = {"unanimity": float(often @ sure / n), "kappa": fleiss_kappa(patterns, often)}
    replicates = {"unanimity": drawn @ sure / n, "kappa": fleiss_kappa(patterns, drawn)}
    keyed = ({("people", name): value for name, value in of.items()} for of in (values, replicates))
    result = Bootstrap(
        *keyed, leave_one_out=lambda key: [], over="images", n=n, left_out=images - n
    )
    return {name: _plain(asdict(result.estimate("people", name))) for name in values}


def _plain(estimate: dict[str, Any]) -> dict[str, Any]:
    """Without what JSON cannot say."""
    return {
        name: None if isinstance(value, float) and np.isnan(value) else value
        for name, value in estimate.items()
    }


def _annotator(
    name: str,
    question: Question,
    said: Sequence[Label],
    checked: Sequence[Label],
    gold: Mapping[str, str],
) -> dict[str, Any]:
    counts = Counter(label.answer for label in said if label.annotator == name)
    asked = [label.answer == gold[label.image] for label in checked if label.annotator == name]
    row = {
        "annotator": name,
        "answered": counts.total(),
        "counts": {answer: counts[answer] for answer in question.legal},
    }
    return row | {"gold": _share(sum(asked), len(asked)) if asked else None}


def _share(right: int, asked: int) -> dict[str, float]:
    """With Wilson's interval."""
    from scipy.stats import binomtest

    low, high = binomtest(right, asked).proportion_ci(0.95, method="wilson")
    return {
        "right": right,
        "asked": asked,
        "share": right / asked,
        "low": float(low),
        "high": float(high),
    }
