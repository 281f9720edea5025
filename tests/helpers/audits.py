"""Audits of made collections: images and texts in which one axis is gender, and prompts that lean along it as far as a test wants."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import equipoise as eq
from equipoise._audit import AuditSettings, Pictures, read
from equipoise._audit.plan import AuditPlan, make_plan
from equipoise._audit.sources import ImageSource
from equipoise.methods._specs import parse
from equipoise.prompts._text_vectors import TextVectors

GENDER = eq.Attribute.load("gender")
JOBS = ("doctor", "nurse", "pilot", "cook", "judge", "clerk", "singer", "coach", "baker", "guard")
PROMPTS = [f"a photo of a {job}" for job in JOBS]
QUICK = AuditSettings(resamples=100, permutations=20)
DIM = 24


def saved(path: Path) -> tuple[dict[str, Any], Pictures]:
    """Return the results of a saved audit in JSON's own types, and its pictures."""
    document, pictures = read(path)
    return document.to_plain(), pictures


def made_plan(
    images: int = 400,
    *,
    lean: float = 2.0,
    sees: float = 0.8,
    labels: bool = True,
    methods: Sequence[str] | None = None,
    settings: AuditSettings = QUICK,
    seed: int = 0,
    **options: Any,
) -> AuditPlan:
    """Return the plan of an audit of a made collection, half male and half female.

    lean: how far the outermost prompts lean to a group. sees: how far images lie from the middle of
    the gender axis; 0 is a model that cannot tell.
    """
    rng = np.random.default_rng(seed)
    axis = np.eye(DIM)[0]
    male = np.arange(images) % 2 == 0
    rows = rng.standard_normal((images, DIM)) + np.where(male, sees, -sees)[:, None] * axis
    texts = {}
    for prompt, its_lean in zip(PROMPTS, np.linspace(-lean, lean, len(PROMPTS)), strict=True):
        direction = rng.standard_normal(DIM)
        direction[0] = its_lean
        texts[prompt] = direction
    book = _book()
    for _, group, entry in book.entries():
        for text in entry.texts:
            side = 3 if group == "male" else -3
            texts[text] = rng.standard_normal(DIM) * 0.5 + side * axis
    vectors = TextVectors(list(texts), np.stack(list(texts.values())), id="a made model")
    table = pd.DataFrame(
        {
            "path": [f"{i}.png" for i in range(images)],
            "gender": np.where(male, "male", "female"),
        }
    )
    source = ImageSource("a made collection", table, None, rows.astype(np.float32))
    return make_plan(
        vectors,
        GENDER,
        prompts=PROMPTS,
        book=book,
        source=source,
        group_columns=["gender"] if labels else [],
        specs=None if methods is None else parse(methods),
        settings=settings,
        **options,
    )


def _book() -> eq.PromptBook:
    words = {
        "male": ["a male person", "a man", "a guy"],
        "female": ["a female person", "a woman", "a lady"],
    }
    written = {}
    for i in range(6):
        written[f"person {i}"] = {
            group: [f"{word} {i}" for word in these] for group, these in words.items()
        }
    return eq.PromptBook.of(written)
