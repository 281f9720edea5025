"""How far people who label the same images agree, beyond what chance gives."""

from __future__ import annotations

from typing import Any

import numpy as np

from equipoise.errors import InputError


def fleiss_kappa(counts: Any, weights: Any = None) -> Any:
    """Return Fleiss' kappa (1971): 1 for full agreement, 0 for what chance gives.

    It is NaN where every answer is the same.

    counts: (images, answers), how many people gave each answer; two or more people per image, and
    their number may differ. weights: (..., images), how often each image counts, for resamples; the
    result has the leading axes.
    """
    try:
        counts = np.asarray(counts, float)
    except (TypeError, ValueError):
        raise InputError(
            "fleiss_kappa takes counts, and not answers; pass (images, answers), how many people"
            " gave each"
        ) from None
    if counts.ndim != 2 or not (counts >= 0).all() or (counts.sum(1) < 2).any():
        raise InputError(
            f"counts of shape {counts.shape} are not legal; pass (images, answers), with two"
            " answers or more for each image"
        )
    weights = np.ones(len(counts)) if weights is None else np.asarray(weights, float)
    people = counts.sum(1)
    agreeing = (counts * (counts - 1)).sum(1) / (people * (people - 1))
    total = weights.sum(-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        observed = weights @ agreeing / total
        shares = weights @ (counts / people[:, None]) / total[..., None]
        by_chance = (shares**2).sum(-1)
        alike = ((shares > 0).sum(-1) < 2) | (total == 0)
        kappa = np.where(alike, np.nan, (observed - by_chance) / (1 - by_chance))
    return kappa if kappa.ndim else float(kappa)
