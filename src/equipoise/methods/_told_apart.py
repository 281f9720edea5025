"""Whether prompts tell the groups of images apart. If not, balancing would follow noise."""

from __future__ import annotations

from typing import Any

import numpy as np

from equipoise import geometry
from equipoise.errors import InputError
from equipoise.geometry import Float64
from equipoise.methods._fitting_rows import group_codes
from equipoise.prompts._attribute import Attribute

MOST = 0.95
"""The agreement that is needed at most."""


def agreement(first: Float64, second: Float64, covariance: Float64) -> float:
    """Return how far two sets of prototypes (groups, d) see the same groups in images of this
    covariance: the correlation of their scores.
    """
    first = first - first.mean(axis=0)
    second = second - second.mean(axis=0)
    together = float((first @ covariance * second).sum())
    alone = float((first @ covariance * first).sum() * (second @ covariance * second).sum())
    return together / np.sqrt(max(alone, geometry.TINY2))


def chance_agreement(covariance: Float64, groups: int) -> float:
    """Return the agreement that directions drawn at random stay below in 39 of 40 cases: two
    standard deviations of it.

    The scores of two random directions correlate with a variance of ``tr C^2 / (tr C)^2``, one
    over the number of directions in which the images vary; so many groups average over as many
    directions, less one. Where images vary in hardly more than one direction, any two agree, and
    ``MOST`` is asked for.
    """
    spread = np.sqrt((covariance * covariance).sum()) / max(np.trace(covariance), geometry.TINY2)
    return float(min(2 * spread / np.sqrt(groups - 1), MOST))


def check_prompts(
    texts: Float64, covariance: Float64, least: float | None, attribute: Attribute
) -> float | None:
    """Raise where two halves of the matched prompts (m, groups, d) do not see the same groups in
    images of this covariance.

    least: the agreement that is needed; None: more than chance gives. Returns their agreement; None
    where there is one prompt for each group.
    """
    if len(texts) < 2:
        return None
    first, second = (geometry.unit(half.sum(axis=0)) for half in (texts[::2], texts[1::2]))
    agreed = agreement(first, second, covariance)
    if least is None:
        least = chance_agreement(covariance, texts.shape[1])
    if agreed < least:
        raise InputError(
            f"the prompts do not tell the groups of {attribute.name} apart in these images: two"
            f" halves of them agree with a correlation of {agreed:.2f}, and {least:.2f} is needed;"
            " balancing would follow noise. Pass other prompts, or a lower agreement="
        )
    return agreed


def why_in_doubt(agreed: float | None, covariance: Float64, attribute: Attribute) -> str:
    """Return why the groups cannot be told apart, though a lower agreement was asked for; "" where
    they can.
    """
    chance = chance_agreement(covariance, len(attribute.groups))
    if agreed is None or agreed >= chance:
        return ""
    return (
        f"the groups of {attribute.name} cannot be told apart in these images: two halves of the"
        f" prompts agree with a correlation of {agreed:.2f}, and random directions may reach"
        f" {chance:.2f}"
    )


def check_labels(seen: np.ndarray, sensitive_features: Any, attribute: Attribute) -> None:
    """Raise where the groups (n,) that prompts see in images, -1 for none, are no closer to the
    labels than chance.
    """
    labels = group_codes(sensitive_features, attribute)
    if len(labels) != len(seen):
        raise InputError(
            f"there are {len(seen)} images and {len(labels)} labels of sensitive_features; pass one"
            " for each"
        )
    known = (labels >= 0) & (seen >= 0)
    right = seen[known] == labels[known]
    counts = np.bincount(labels[known])
    there = counts > 0
    rates = np.bincount(labels[known], right)[there] / counts[there]
    chance = 1 / len(attribute.groups)
    error = np.sqrt((rates * (1 - rates) / counts[there]).sum()) / len(rates)
    if len(rates) > 1 and rates.mean() <= chance + 2 * error:
        raise InputError(
            f"the prompts do not tell the groups of {attribute.name} apart in these images: they"
            f" name the labelled group {rates.mean():.0%} of the time, and chance does"
            f" {chance:.0%}; balancing would follow noise. Pass other prompts"
        )
