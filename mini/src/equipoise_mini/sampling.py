"""From noise to pictures along the velocities, the same for torch tensors and numpy arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from equipoise_mini import PIXELS


def noise(seeds: Sequence[int]) -> np.ndarray:
    """Return noise (n, 3, 64, 64); a picture's noise depends on its seed alone."""
    return np.stack(
        [
            np.random.default_rng(seed).standard_normal((3, PIXELS, PIXELS), np.float32)
            for seed in seeds
        ]
    )


def integrate(velocity: Callable[[Any, float], Any], start: Any, steps: int) -> Any:
    """Follow ``velocity(pictures, time)`` from time 0 to 1 in equal steps of second order
    (Adams-Bashforth).
    """
    x, last = start, None
    for i in range(steps):
        now = velocity(x, i / steps)
        x = x + (now if last is None else 1.5 * now - 0.5 * last) / steps
        last = now
    return x


def to_bytes(pictures: np.ndarray) -> np.ndarray:
    """Return (n, 64, 64, 3) bytes of (n, 3, 64, 64) floats in [-1, 1]."""
    return np.round((pictures.clip(-1, 1) + 1) * 127.5).astype(np.uint8).transpose(0, 2, 3, 1)
