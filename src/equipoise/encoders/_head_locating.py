"""Which attention heads to edit: those that decide a prediction most often (Yeo et al. 2025)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from equipoise.errors import InputError

WORST = 10  # classes with the largest gaps between groups


class Decisions(NamedTuple):
    """What was predicted of each image, and the head that spoke loudest for it."""

    predicted: np.ndarray
    truth: np.ndarray
    heads: np.ndarray

    @property
    def right(self) -> np.ndarray:
        return self.predicted == self.truth

    def of(self, images: np.ndarray) -> Decisions:
        """Return the decisions about some of the images."""
        return Decisions(*(values[images] for values in self))


def decide(row: np.ndarray, parts: np.ndarray, texts: np.ndarray, truth: int) -> tuple[int, int]:
    """Return the text that is nearest to a row, and the head that speaks most for it.

    A head speaks for a text against one other: the true one where the prediction is wrong, and the
    next best where it is right.
    """
    best, second = np.argsort(-(texts @ row), kind="stable")[:2].tolist()
    other = second if best == truth else truth
    return best, int((parts @ (texts[best] - texts[other])).argmax())


def behind_errors(decisions: Decisions, groups: np.ndarray, heads: int) -> list[int]:
    """Return the heads that decide what is wrong more often than what is right, loudest first.

    The images are those of each class's worst group, in the classes with the largest gaps.
    """
    worst = decisions.of(_of_worst_groups(decisions, groups))
    right, wrong = worst.heads[worst.right], worst.heads[~worst.right]
    if not len(right) or not len(wrong):
        missing = "wrong" if len(right) else "right"
        raise InputError(
            f"of the {len(worst.heads)} images of classes' worst groups none is classified"
            f" {missing}, and heads are found by comparing these with the others; pass more images,"
            " or name heads="
        )
    for_right, for_wrong = _shares(right, heads), _shares(wrong, heads)
    return _beyond_chance(for_wrong - for_right, (for_right > 0) | (for_wrong > 0))


def carrying(decisions: Decisions, heads: int) -> list[int]:
    """Return the heads that decide which group is seen, where it is seen rightly."""
    right = decisions.heads[decisions.right]
    if not len(right):
        raise InputError(
            f"of {len(decisions.heads)} images none is closest to the prompt of its own group, so"
            " no head can be said to show it; pass other group_prompts, or name heads="
        )
    shares = _shares(right, heads)
    return _beyond_chance(shares, shares > 0)


def _of_worst_groups(decisions: Decisions, groups: np.ndarray) -> np.ndarray:
    found: list[tuple[float, Any]] = []
    for truth in np.unique(decisions.truth):
        members = decisions.truth == truth
        rates = {}
        for group in np.unique(groups[members]):
            rates[group] = decisions.right[members & (groups == group)].mean()
        worst = min(rates, key=lambda group: rates[group])
        gap = max(rates.values()) - rates[worst]
        if gap > 0:
            found.append((gap, members & (groups == worst)))
    if not found:
        raise InputError(
            "every class is classified equally well for all of its groups, so there are no errors"
            " of one group to look behind; pass other images, or name heads="
        )
    largest = sorted(found, key=lambda pair: -pair[0])[:WORST]
    return np.flatnonzero(np.any([members for _, members in largest], axis=0))


def _shares(heads: np.ndarray, count: int) -> np.ndarray:
    return np.bincount(heads, minlength=count) / len(heads)


def _beyond_chance(shares: np.ndarray, seen: np.ndarray) -> list[int]:
    """Return the heads with more than an equal share among those that were seen at all."""
    order = np.argsort(-shares, kind="stable")
    return order[shares[order] > 1 / seen.sum()].tolist()
