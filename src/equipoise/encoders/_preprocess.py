"""``Preprocess``: resize, crop, normalise.

Every adapter states its model's in these few numbers, and one code runs them all.

Pixels stay bytes until they reach the device: workers send a quarter of what floats would weigh.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from PIL import Image

from equipoise.encoders._images import UnreadableImageError

MAX_RESIZED = 50_000_000


@dataclass(frozen=True)
class Preprocess:
    """size: (height, width) that the model takes.

    resize: the shorter edge to that length, or None to squash to ``size``.

    ``half_up`` says where an odd margin goes when cropping: torchvision rounds, transformers
    floors.
    """

    size: tuple[int, int]
    resize: int | None = None
    resample: int = int(Image.Resampling.BICUBIC)
    half_up: bool = False
    scale: float = 1 / 255
    mean: tuple[float, ...] = (0.0, 0.0, 0.0)
    std: tuple[float, ...] = (1.0, 1.0, 1.0)

    def __call__(self, image: Image.Image) -> np.ndarray:
        """(height, width, 3) bytes."""
        if self.resize is None:
            height, width = self.size
            return np.asarray(image.resize((width, height), self.resample))
        long, short = max(image.size), min(image.size)
        longer = int(self.resize * long / short)
        if longer * self.resize > MAX_RESIZED:
            raise UnreadableImageError(f"too elongated ({image.width} x {image.height} pixels)")
        width, height = (
            (self.resize, longer) if image.width <= image.height else (longer, self.resize)
        )
        return self._crop(np.asarray(image.resize((width, height), self.resample)))

    def _crop(self, pixels: np.ndarray) -> np.ndarray:
        out = np.zeros((*self.size, 3), np.uint8)
        source, target = [], []
        for have, want in zip(pixels.shape[:2], self.size, strict=True):
            margin = have - want
            start = round(margin / 2) if self.half_up else margin // 2
            source.append(slice(max(start, 0), max(start, 0) + min(have, want)))
            target.append(slice(max(-start, 0), max(-start, 0) + min(have, want)))
        out[tuple(target)] = pixels[tuple(source)]
        return out

    @property
    def affine(self) -> tuple[np.ndarray, np.ndarray]:
        """(factor, offset) a channel, so that normalised = bytes * factor + offset."""
        mean, std = np.asarray(self.mean), np.asarray(self.std)
        return (self.scale / std).astype(np.float32), (-mean / std).astype(np.float32)

    def normalise(self, pixels: np.ndarray) -> np.ndarray:
        """Bytes (n, height, width, 3) to float32 (n, 3, height, width)."""
        factor, offset = self.affine
        return np.ascontiguousarray((pixels * factor + offset).transpose(0, 3, 1, 2))

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Preprocess:
        """What ``to_json`` gave; lists become tuples."""
        settings: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value
            for key, value in document.items()
        }
        return cls(**settings)
