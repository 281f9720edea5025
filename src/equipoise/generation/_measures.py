"""Statistical parity, CLIP score and accuracy of a run, each method beside the original model.

Intervals resample the pictures of each prompt, the same ones for all methods: pictures of one
number share their noise. Prompts are given, and not resampled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from equipoise._annotate.question import UNSURE
from equipoise._audit.intervals import values
from equipoise.generation._manifest import Manifest
from equipoise.generation._plan import DrawingPlan
from equipoise.generation._results_document import TableCell
from equipoise.metrics._intervals import ANY, SHARE

UNKNOWN = -1


class PictureGrid:
    """The pictures of a run as an array: (methods, prompts, numbers), and what is known of each."""

    def __init__(self, plan: DrawingPlan, manifest: Manifest):
        self.methods, self.prompts = list(plan.specs()), [asked.prompt for asked in plan.prompts]
        shape = len(self.methods), len(self.prompts), plan.images
        self.images = np.full(shape, None, object)
        self.attempts = np.zeros(shape, int)
        places = (
            {method: i for i, method in enumerate(self.methods)},
            {prompt: i for i, prompt in enumerate(self.prompts)},
        )
        for picture in manifest.pictures.values():
            at = places[0][picture.method], places[1][picture.prompt], picture.number
            self.images[at], self.attempts[at] = picture.image, picture.attempt

    def codes(self, answers: Mapping[str, str], groups: Sequence[str]) -> np.ndarray:
        """Return the place of the group that each picture is said to show; -1 where not known."""
        place = {group: i for i, group in enumerate(groups)} | {UNSURE: UNKNOWN, "": UNKNOWN}
        return np.vectorize(lambda image: place[answers.get(image, "")], otypes=[int])(self.images)

    def of(self, rows: Mapping[str, float]) -> np.ndarray:
        """Return a number per picture; NaN where there is none."""
        return np.vectorize(lambda image: rows.get(image, np.nan), otypes=[float])(self.images)


def parity(codes: np.ndarray, groups: int) -> np.ndarray:
    """Return SP (methods, prompts) of codes (methods, prompts, numbers).

    It is NaN where no picture has a known group.
    """
    return _parity((codes[..., None] == np.arange(groups)).sum(2))


def _parity(counts: np.ndarray) -> np.ndarray:
    """Return the distance of the shares from equal ones, along the last axis."""
    total = counts.sum(-1, keepdims=True)
    with np.errstate(invalid="ignore"):
        shares = counts / np.where(total, total, np.nan)
    return np.sqrt(((shares - 1 / counts.shape[-1]) ** 2).sum(-1))


def parity_floor(pictures: int, groups: int, draws: int = 20_000) -> float:
    """Return the SP to be expected of a generator without any bias, which is not 0.

    It is exact for two groups, and drawn for more.
    """
    if groups == 2:
        from scipy.stats import binom

        k = np.arange(pictures + 1)
        return float((binom.pmf(k, pictures, 0.5) * np.sqrt(2) * abs(k / pictures - 0.5)).sum())
    counts = np.random.default_rng(0).multinomial(pictures, np.full(groups, 1 / groups), draws)
    return float(_parity(counts).mean())


def mean_parity_floor(codes: np.ndarray, groups: int) -> float | None:
    """Return the floor of a mean SP over prompts; None where no picture has a known group.

    codes: (prompts, numbers); the floor is for as many pictures as have a known group there.
    """
    known = (codes != UNKNOWN).sum(1)
    sizes, prompts = np.unique(known[known > 0], return_counts=True)
    if not len(sizes):
        return None
    floors = [parity_floor(int(n), groups) for n in sizes]
    return float(np.average(floors, weights=prompts))


def _mean_known(array: np.ndarray, axis: int) -> np.ndarray:
    """Return the mean of what is not NaN; NaN where all is."""
    known = ~np.isnan(array)
    with np.errstate(invalid="ignore"):
        return np.where(known, array, 0.0).sum(axis) / known.sum(axis)


class Resamples:
    """The same resamples of picture numbers for all methods, prompt by prompt."""

    def __init__(self, resamples: int = 1000, level: float = 0.95, seed: int = 0):
        self.resamples, self.level, self.seed = resamples, level, seed

    def parity(self, codes: np.ndarray, groups: int) -> list[TableCell]:
        """Return the mean SP per method, with the change from the first.

        The mean is over prompts of which any group is known.
        """
        points = _mean_known(parity(codes, groups), 1)
        shown = codes[..., None] == np.arange(groups)  # (methods, prompts, numbers, groups)
        drawn = [
            _parity(np.einsum("rn,mng->mrg", weights, shown[:, prompt]))
            for prompt, weights in self._weights(codes)
        ]
        most = max(np.sqrt(1 - 1 / groups), *points)  # a mean may round above it
        return self._entries(
            points, _mean_known(np.stack(drawn), 0), codes != UNKNOWN, (0.0, float(most))
        )

    def mean(self, numbers: np.ndarray, limits: tuple[float, float] = ANY) -> list[TableCell]:
        """Return the mean over all pictures; a picture with NaN has no number."""
        known = ~np.isnan(numbers)
        filled = np.where(known, numbers, 0.0)
        total, count = filled.sum((1, 2)), known.sum((1, 2))
        resampled = self._weights(numbers)
        drawn = np.sum([filled[:, p] @ weights.T for p, weights in resampled], axis=0)
        counted = np.sum([known[:, p] @ weights.T for p, weights in resampled], axis=0)
        with np.errstate(invalid="ignore"):
            return self._entries(total / count, drawn / counted, known, limits)

    def accuracy(self, codes: np.ndarray, stated: np.ndarray) -> list[TableCell]:
        """Return the share of pictures that show the group that their prompt states.

        Only pictures with a known group count. codes: (methods, prompts, numbers); stated:
        (prompts,).
        """
        right = np.where(codes == UNKNOWN, np.nan, codes == stated[:, None])
        return self.mean(right, SHARE)

    def _weights(self, array: np.ndarray) -> list[tuple[int, np.ndarray]]:
        """Return per prompt how often each picture is in each resample (resamples, numbers)."""
        rng, n = np.random.default_rng(self.seed), array.shape[2]
        return [
            (prompt, rng.multinomial(n, np.full(n, 1 / n), self.resamples))
            for prompt in range(array.shape[1])
        ]

    def _entries(
        self, points: np.ndarray, drawn: np.ndarray, known: np.ndarray, limits: tuple[float, float]
    ) -> list[TableCell]:
        if known.shape[2] == 1:  # one picture per prompt: nothing to resample, so no interval
            drawn = np.full_like(drawn, np.nan)
        cells = []
        for entry, some in zip(values(points, drawn, self.level, limits), known, strict=True):
            counts = {"n": int(some.sum()), "left_out": int((~some).sum())}
            cells.append(TableCell.model_validate(entry.to_plain() | counts))
        return cells
