"""What prepare.py leaves in WORK, read back: photographs as bytes, labels, captions, tokens."""

from __future__ import annotations

import io
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from safetensors.numpy import load_file

from training.framing import framed
from training.labels import BITS, SLOTS

SOURCES = ("fairface", "celeba", "idenprof", "flickr8k", "idenprof_close", "flickr8k_close")
TRAIN, VALIDATION, TEST = 0, 1, 2
TOKENS = 32
BLOCK = 4096


def photographs(work: Path) -> np.ndarray:
    """Bytes (n, 72, 72, 3)."""
    pictures: list[bytes] = []
    for i in range(len(list(work.glob("photographs_*.safetensors")))):
        shard = load_file(work / f"photographs_{i}.safetensors")
        jpeg, ends = shard["jpeg"].tobytes(), shard["ends"].tolist()
        pictures += [jpeg[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    with ThreadPoolExecutor() as pool:
        return np.stack(list(pool.map(decode, pictures, chunksize=256)))


def decode(picture: bytes) -> np.ndarray:
    """One JPEG."""
    return np.asarray(Image.open(io.BytesIO(picture)).convert("RGB"))


def middle(pictures: np.ndarray, side: int = 64) -> np.ndarray:
    """The middle of bytes (n, height, width, 3): what a model of 64 x 64 sees."""
    top, left = (pictures.shape[1] - side) // 2, (pictures.shape[2] - side) // 2
    return pictures[:, top : top + side, left : left + side]


def with_bits(path: Path) -> dict[str, np.ndarray]:
    """labels.safetensors or captions.safetensors, the bits unpacked."""
    arrays = load_file(path)
    return arrays | {"bits": np.unpackbits(arrays["bits"], axis=1, count=len(BITS))}


def tokenize(tokenizer, texts: list[str]) -> np.ndarray:
    """Word pieces, padded with 0 to 32."""
    out = np.zeros((len(texts), TOKENS), np.int16)
    for row, encoding in zip(out, tokenizer.encode_batch(texts), strict=True):
        row[: min(len(encoding.ids), TOKENS)] = encoding.ids[:TOKENS]
    return out


class Sights:
    """What WORK holds of photographs, as numpy: pictures (n, 72, 72, 3), and rows that each are a
    crop of one of them, with a source, a part and what is known.
    """

    def __init__(self, work: Path) -> None:
        self.pictures = photographs(work)
        labels = with_bits(work / "labels.safetensors")
        self.photograph, self.frame = labels["photograph"], labels["frame"]
        self.source, self.part, self.bits = labels["source"], labels["part"], labels["bits"]

    def of(self, source: str, part: int) -> np.ndarray:
        """Return the rows of a source and a part."""
        return np.flatnonzero((self.source == SOURCES.index(source)) & (self.part == part))

    def known(self, slot: str) -> np.ndarray:
        """Return the place of the known value of each row, -1 where none is."""
        columns = self.bits[:, [BITS[slot, value] for value in SLOTS[slot]]]
        return np.where(columns.any(1), columns.argmax(1), -1)

    def crops(self, rows: np.ndarray) -> np.ndarray:
        """Return the crops of rows, as bytes (n, 64, 64, 3)."""
        parts = []
        for start in range(0, len(rows), BLOCK):
            some = rows[start : start + BLOCK]
            pictures = torch.from_numpy(self.pictures[self.photograph[some]])
            crops = framed(pictures, torch.from_numpy(self.frame[some]))
            parts.append(((crops + 1) * 127.5).round().to(torch.uint8).permute(0, 2, 3, 1).numpy())
        return np.concatenate(parts)
