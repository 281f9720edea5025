"""Text association: how far a prompt leans to each group's prototype."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from equipoise.geometry import Float64, unit


class Yardstick(NamedTuple):
    """What the leans of prompts are measured with.

    prototypes (groups, d): those of the whole book. resampled (resamples, groups, d): those of its
    prompts drawn with replacement. explicit: how far the book's explicit wordings lean to their own
    group, on average; this is the length of the yardstick. n: the number of the book's prompts.
    """

    prototypes: Float64
    resampled: Float64
    explicit: float
    n: int


def yardstick(rows: Float64, resamples: int, seed: int) -> Yardstick:
    """Return the yardstick of a book, with its prompts resampled.

    rows (prompts, groups, d): the unit prototypes of each prompt. One prompt alone cannot be
    resampled; its resampled prototypes are NaN.
    """
    n = len(rows)
    prototypes = unit(rows.sum(0))
    times = np.random.default_rng(seed).multinomial(n, np.full(n, 1 / n), resamples)
    if n > 1:
        resampled = unit(np.einsum("bk,kgd->bgd", times, rows, optimize=True))
    else:
        resampled = np.full((resamples, *rows.shape[1:]), np.nan)
    flat = rows.reshape(-1, rows.shape[2])
    by_prompt = leans(flat, prototypes).reshape(*rows.shape[:2], -1)
    own = np.einsum("kgg->kg", by_prompt)
    return Yardstick(prototypes, resampled, float(own.mean()), n)


def leans(texts: np.ndarray, prototypes: Float64) -> Float64:
    """Return how far each text leans to each group: (..., texts, groups).

    That is its similarity to the group's prototype less its mean similarity to the others'.
    prototypes: (..., groups, d).
    """
    similar = np.einsum("td,...gd->...tg", texts.astype(np.float64), prototypes, optimize=True)
    groups = similar.shape[-1]
    return (similar * groups - similar.sum(-1, keepdims=True)) / (groups - 1)
