"""``Preprocess``: resize, crop, normalise.

Every adapter states the preprocessing of its model in these few numbers, and the same code runs
them all. Pixels stay bytes until they reach the device: workers send a quarter of what floats
would weigh.
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
    """The resizing, cropping and normalising of one model.

    size: (height, width) that the model takes. resize: the length that the shorter edge gets; None
    squashes the image to ``size``. half_up: where an odd margin goes when cropping (torchvision
    rounds, transformers floors).
    """

    size: tuple[int, int]
    resize: int | None = None
    resample: int = int(Image.Resampling.BICUBIC)
    half_up: bool = False
    scale: float = 1 / 255
    mean: tuple[float, ...] = (0.0, 0.0, 0.0)
    std: tuple[float, ...] = (1.0, 1.0, 1.0)

    def __call__(self, image: Image.Image) -> np.ndarray:
        """Return the image as bytes (height, width, 3)."""
        if self.resize is None:
            height, width = self.size
            return np.asarray(image.resize((width, height), self.resample))
        long, short = max(image.size), min(image.size)
        longer = int(self.resize * long / short)
        if longer * self.resize > MAX_RESIZED:
            raise UnreadableImageError(f"too elongated ({image.width} x {image.height} pixels)")
        width, height = longer, self.resize
        if image.width <= image.height:
            width, height = self.resize, longer
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
        """Return (factor, offset) per channel, so that normalised = bytes * factor + offset."""
        mean, std = np.asarray(self.mean), np.asarray(self.std)
        return (self.scale / std).astype(np.float32), (-mean / std).astype(np.float32)

    def normalise(self, pixels: np.ndarray) -> np.ndarray:
        """Return bytes (n, height, width, 3) as float32 (n, 3, height, width)."""
        factor, offset = self.affine
        return np.ascontiguousarray((pixels * factor + offset).transpose(0, 3, 1, 2))

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Preprocess:
        """Return what ``to_json`` gave; lists become tuples."""
        settings = dict(document)
        for key, value in document.items():
            if isinstance(value, list):
                settings[key] = tuple(value)
        return cls(**settings)
