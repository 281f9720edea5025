"""The leakage probe in a run: what an adversary with labels reads from the images."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from equipoise._rows import unit_blocks
from equipoise.evaluation._estimates import Measured
from equipoise.evaluation._run_document import MetricRow
from equipoise.evaluation._small_cells import small_groups
from equipoise.metrics import Bootstrap, leakage_probe
from equipoise.metrics._labels import encode_groups
from equipoise.metrics._probe import METRIC

FOLDS = 5


class Probe:
    """A probe on the same images, folds and resamples for every operator.

    Operators that leave images alone share one probe. most: the number of images at most, drawn by
    lot. A group of fewer than two images cannot be probed, and then there are no rows.
    """

    def __init__(self, images: Any, groups: np.ndarray, *, most: int, resamples: int, seed: int):
        known = np.flatnonzero(encode_groups(groups).known)
        if len(known) > most:
            known = np.sort(np.random.default_rng(seed).choice(known, most, replace=False))
        self.images, self.places, self.groups = images, known, groups[known]
        self.resamples, self.seed = resamples, seed
        coded = encode_groups(self.groups)
        every = len(coded.labels) == len(encode_groups(groups).labels) and len(coded.labels) > 1
        self.folds = min(FOLDS, int(coded.sizes.min())) if every else 0
        self.plain: Bootstrap | None = None

    def measure(
        self, operators: Mapping[str, Any], baseline: str, level: float, kind: str
    ) -> list[MetricRow]:
        """Return rows of a run.

        An operator whose images depend on the prompt gets none: it has no one embedding per image
        to read from.
        """
        if self.folds < 2:
            return []
        found = {}
        for name, operator in operators.items():
            if not getattr(operator, "per_prompt", False):
                found[name] = self._of(operator)
        first = next(iter(found.values()))
        keyed = {
            name: (bootstrap, next(iter(bootstrap.values))) for name, bootstrap in found.items()
        }
        together = Bootstrap(
            {(name, METRIC): bootstrap.values[key] for name, (bootstrap, key) in keyed.items()},
            {(name, METRIC): bootstrap.replicates[key] for name, (bootstrap, key) in keyed.items()},
            lambda key: keyed[key[0]][0].leave_one_out(keyed[key[0]][1]),
            first.over,
            first.n,
            first.left_out,
        )
        measured = Measured(together, {METRIC: "lower"}, small={METRIC: small_groups(self.groups)})
        return measured.rows(baseline if baseline in found else None, level, kind)

    def _of(self, operator: Any) -> Bootstrap:
        if "image" in getattr(operator, "changes", ("image",)):
            return self._probe(operator.image)
        if self.plain is None:
            self.plain = self._probe(lambda rows: rows)
        return self.plain

    def _probe(self, transform: Any) -> Bootstrap:
        """Return the probe of the chosen images, transformed block by block."""
        parts, start = [], 0
        for block in unit_blocks(self.images):
            end = start + len(block)
            here = self.places[(self.places >= start) & (self.places < end)] - start
            if len(here):
                parts.append(np.asarray(transform(block[here])))
            start = end
        return leakage_probe(
            np.concatenate(parts),
            sensitive_features=self.groups,
            folds=self.folds,
            resamples=self.resamples,
            seed=self.seed,
        )
