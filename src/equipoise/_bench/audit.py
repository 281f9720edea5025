"""``equipoise bench audit``: a whole audit of stored embeddings, intervals and page included.

It is given in seconds of wall time and of the processor.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from equipoise._audit import AuditSettings, run
from equipoise._audit.plan import AuditPlan, make_plan
from equipoise._audit.sources import ImageSource
from equipoise.errors import InputError
from equipoise.prompts._attribute import Attribute
from equipoise.prompts._prompt_book import PromptBook
from equipoise.prompts._text_vectors import TextVectors
from equipoise.report import page


@dataclass(frozen=True)
class AuditTiming:
    """One audit: closed-form and adapted beside the model as it is."""

    images: int
    prompts: int
    dim: int
    resamples: int
    seconds: float
    processor_seconds: float  # of all threads
    page_megabytes: float


def measure(images: int, prompts: int, dim: int, resamples: int, seed: int = 0) -> AuditTiming:
    """Audit vectors that are made here, in which one axis is gender and prompts lean along it."""
    if min(images, prompts, dim) < 2 or images < 200:
        raise InputError(
            f"{images} images, {prompts} prompts, width {dim} are not legal; pass 200 images or"
            " more, and 2 or more of the others"
        )
    plan = made(images, prompts, dim, AuditSettings(resamples=resamples, seed=seed))
    wall, processor = time.perf_counter(), time.process_time()
    audit = run(plan)
    made_page = page(audit.document, audit.pictures)
    seconds = time.perf_counter() - wall, time.process_time() - processor
    return AuditTiming(
        images, prompts, dim, resamples, *seconds, page_megabytes=len(made_page.encode()) / 1e6
    )


def made(images: int, prompts: int, dim: int, settings: AuditSettings) -> AuditPlan:
    """Return the plan of an audit of made vectors."""
    import pandas as pd

    rng = np.random.default_rng(settings.seed)
    male = rng.random(images) < 0.5
    rows = rng.standard_normal((images, dim), dtype=np.float32)
    rows[:, 0] += np.where(male, 3, -3)
    names = [f"a photo of thing {i}" for i in range(prompts)]
    texts = rng.standard_normal((prompts, dim))
    texts[:, 0] += 3 * rng.standard_normal(prompts)
    book = PromptBook.of(
        {
            f"person {i}": {
                "male": [f"a man {i}", f"a guy {i}"],
                "female": [f"a woman {i}", f"a lady {i}"],
            }
            for i in range(20)
        }
    )
    wordings = [(text, group) for _, group, entry in book.entries() for text in entry.texts]
    said = 0.3 * rng.standard_normal((len(wordings), dim))
    said[:, 0] += [6 if group == "male" else -6 for _, group in wordings]
    vectors = TextVectors(
        [*names, *(text for text, _ in wordings)], np.concatenate([texts, said]), id="made vectors"
    )
    table = pd.DataFrame(
        {"path": [str(i) for i in range(images)], "gender": np.where(male, "male", "female")}
    )
    source = ImageSource("made vectors", table, None, rows)
    options = {
        "prompts": names,
        "book": book,
        "source": source,
        "group_columns": ["gender"],
        "settings": settings,
    }
    return make_plan(vectors, Attribute.load("gender"), **options)
