"""``Settings``: how to measure, checked before anything is measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from equipoise.errors import InputError
from equipoise.metrics._intervals import CENTRED, KINDS

# From so many images on, the paper's M = 1000 says something; below, M is a tenth of them.
LARGE = 2000
OVER = ("images", "queries", "both")


@dataclass(frozen=True)
class Settings:
    """How to measure.

    m: the places that skew looks at; None is 1000, or a tenth of the images where there are fewer
    than 2,000. probe: the images that the leakage probe takes at most.
    """

    protocol: str = "mended"
    m: int | None = None
    ks: tuple[int, ...] = (5, 10)
    gate: bool = False
    over: str = "images"
    resamples: int = 1000
    permutations: int = 200
    level: float = 0.95
    interval: str = CENTRED
    seed: int = 0
    probe: int = 2000

    def __post_init__(self) -> None:
        _require_whole("resamples", self.resamples, 1)
        _require_whole("permutations", self.permutations, 1)
        _require_whole("probe", self.probe, 0)
        if self.m is not None:
            _require_whole("m", self.m, 1)
        for k in self.ks:
            _require_whole("k", k, 1)
        if not 0 < self.level < 1:
            raise InputError(
                f"level={self.level} is not legal; pass a number between 0 and 1, such as 0.95"
            )
        for name, value, legal in (("over", self.over, OVER), ("interval", self.interval, KINDS)):
            if value not in legal:
                raise InputError(f"{name}={value!r} is not legal; pass one of {', '.join(legal)}")

    def places(self, images: int) -> int:
        """Return M for so many images of a known group."""
        if self.m is not None:
            return self.m
        if images >= LARGE:
            return 1000
        return max(1, images // 10)


def _require_whole(name: str, value: Any, smallest: int) -> None:
    """Raise unless a value is a whole number of at least the smallest."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or value < smallest:
        raise InputError(f"{name}={value} is not legal; pass a whole number from {smallest}")
