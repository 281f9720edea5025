"""``equipoise bench encode``: an encoder on picture files, beside the model alone.

The model alone gets pixels that are already decoded.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from equipoise._bench.timing import interleaved
from equipoise.encoders import Encoder
from equipoise.encoders._images import open_image
from equipoise.encoders._preprocess import Preprocess
from equipoise.errors import InputError

SIZES = (72, 500)
QUALITY = 90


@dataclass(frozen=True)
class EncodeTiming:
    """Pictures and texts per second; the pictures are JPEG files of ``pixels`` x ``pixels``."""

    encoder: str
    runs: str
    pixels: int
    images: int
    batch: int
    workers: int
    model_alone: float
    from_files: float
    texts: float

    @property
    def share(self) -> float:
        """Return the share of the model's own rate that is reached from files."""
        return self.from_files / self.model_alone


def run(
    encoder: Encoder, *, images: int, sizes: tuple[int, ...] = SIZES, rounds: int = 3
) -> Iterator[EncodeTiming]:
    """Return one row per picture size: medians over alternating rounds of all contenders."""
    preprocess = encoder.towers.preprocess
    if "image" not in encoder.modalities or preprocess is None:
        raise InputError(
            f"{encoder.id} has no pixels that could be decoded beforehand; pass an encoder that"
            " resizes, crops and normalises"
        )
    texts = [
        f"a photo of a {noun} number {i}"
        for i in range(250)
        for noun in ("doctor", "nurse", "farmer", "clerk")
    ]
    for size in sizes:
        with tempfile.TemporaryDirectory() as place:
            yield _measure(
                encoder, preprocess, _write(Path(place), images, size), size, texts, rounds
            )


def _measure(
    encoder: Encoder,
    preprocess: Preprocess,
    files: list[Path],
    size: int,
    texts: list[str],
    rounds: int,
) -> EncodeTiming:
    encoder.encode_images(files[:512])  # finds the batch size
    batch = min(encoder.batch_size("image"), len(files))
    pixels = np.stack([preprocess(open_image(path)) for path in files[:batch]])
    batches = -(-len(files) // batch)
    seconds = interleaved(
        {
            "alone": lambda: [encoder.towers.image_features(pixels) for _ in range(batches)],
            "whole": lambda: encoder.encode_images(files),
            "texts": lambda: encoder.encode_text(texts),
        },
        rounds,
    )
    return EncodeTiming(
        encoder=encoder.id,
        runs=type(encoder.towers).__name__,
        pixels=size,
        images=len(files),
        batch=batch,
        workers=encoder.workers,
        model_alone=batch * batches / seconds["alone"],
        from_files=len(files) / seconds["whole"],
        texts=len(texts) / seconds["texts"],
    )


def _write(folder: Path, count: int, size: int) -> list[Path]:
    """Write smooth pictures with some noise: about as many bytes as photographs of that size."""
    from PIL import Image

    rng = np.random.default_rng(0)
    paths = []
    for i in range(count):
        coarse = Image.fromarray(rng.integers(0, 256, (6, 6, 3), dtype=np.uint8)).resize(
            (size, size), Image.Resampling.BICUBIC
        )
        noisy = np.asarray(coarse, np.int16) + rng.integers(-8, 9, (size, size, 3), dtype=np.int16)
        paths.append(folder / f"{i:06d}.jpg")
        Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).save(paths[-1], quality=QUALITY)
    return paths
