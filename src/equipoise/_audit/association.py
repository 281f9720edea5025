"""Text association: how far a prompt leans to each group's prototype."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from equipoise.geometry import Float64, unit


class Yardstick(NamedTuple):
    """prototypes (groups, d): those of the whole book.

    resampled (resamples, groups, d): of its prompts drawn with replacement.

    explicit: how far the book's explicit wordings lean to their own group, on average: the length
    of the yardstick.
    """

    prototypes: Float64
    resampled: Float64
    explicit: float
    n: int


def yardstick(rows: Float64, resamples: int, seed: int) -> Yardstick:
    """rows (prompts, groups, d): unit prototypes of each prompt of the book, which are resampled;
    of one alone, to NaN.
    """
    n = len(rows)
    prototypes = unit(rows.sum(0))
    times = np.random.default_rng(seed).multinomial(n, np.full(n, 1 / n), resamples)
    resampled = (
        unit(np.einsum("bk,kgd->bgd", times, rows, optimize=True))
        if n > 1
        else np.full((resamples, *rows.shape[1:]), np.nan)
    )
    own = np.einsum(
        "kgg->kg", leans(rows.reshape(-1, rows.shape[2]), prototypes).reshape(*rows.shape[:2], -1)
    )
    return Yardstick(prototypes, resampled, float(own.mean()), n)


def leans(texts: np.ndarray, prototypes: Float64) -> Float64:
    """(texts, groups): similarity to each group's prototype less the mean similarity to the
    others'. prototypes (..., groups, d).
    """
    similar = np.einsum("td,...gd->...tg", texts.astype(np.float64), prototypes, optimize=True)
    groups = similar.shape[-1]
    return (similar * groups - similar.sum(-1, keepdims=True)) / (groups - 1)
