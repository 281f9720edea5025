"""``Settings``: how to measure, checked before anything is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from equipoise.errors import InputError
from equipoise.metrics._intervals import KINDS

LARGE = 2000  # images from which on the paper's M = 1000 says something; below, a tenth of them
OVER = ("images", "queries", "both")


@dataclass(frozen=True)
class Settings:
    """m: None is 1000, or a tenth of the images where there are fewer than 2,000.

    probe: images that the leakage probe takes at most.
    """

    protocol: str = "released"
    m: int | None = None
    ks: tuple[int, ...] = (5, 10)
    gate: bool = False
    over: str = "images"
    resamples: int = 1000
    permutations: int = 200
    level: float = 0.95
    interval: str = "percentile"
    seed: int = 0
    probe: int = 2000

    def __post_init__(self) -> None:
        given = [
            ("resamples", self.resamples, 1),
            ("permutations", self.permutations, 1),
            ("probe", self.probe, 0),
        ]
        given += [("m", self.m, 1)] if self.m is not None else []
        for name, value, smallest in (*given, *(("k", k, 1) for k in self.ks)):
            if (
                isinstance(value, bool)
                or not isinstance(value, int | np.integer)
                or value < smallest
            ):
                raise InputError(
                    f"{name}={value} is not legal; pass a whole number from {smallest}"
                )
        if not 0 < self.level < 1:
            raise InputError(
                f"level={self.level} is not legal; pass a number between 0 and 1, such as 0.95"
            )
        for name, value, legal in (("over", self.over, OVER), ("interval", self.interval, KINDS)):
            if value not in legal:
                raise InputError(f"{name}={value!r} is not legal; pass one of {', '.join(legal)}")

    def places(self, images: int) -> int:
        """M for so many images of a known group."""
        return self.m or (1000 if images >= LARGE else max(1, images // 10))
