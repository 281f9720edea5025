"""Small pictures of people who do not exist, drawn from text rows of the model: what every sampler
keeps to, and the one on onnxruntime.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from equipoise_mini import FOLDER, PIXELS
from equipoise_mini.files import checksums, require
from equipoise_mini.sampling import integrate, noise, to_bytes

GRAPH, WEIGHTS = "generator.onnx", "generator.safetensors"
STEPS, GUIDANCE = 16, 3.0  # two passes a step, with the text and without: 32 a picture


class Sampler(ABC):
    """Text rows and seeds in, pictures of 64 x 64 out.

    ``nothing``: the row of no text; ``fingerprint``: the checksum of the weights.

    ``precision``: of the arithmetic, and where; pictures of two differ by rounding.
    """

    nothing: np.ndarray
    precision: str = "float32 on cpu"
    block: int  # pictures drawn at once

    def __init__(self, folder: Path = FOLDER):
        from safetensors import safe_open

        require(folder, GRAPH, WEIGHTS)
        self.fingerprint = checksums(folder)[WEIGHTS]
        with safe_open(folder / WEIGHTS, "numpy") as weights:
            self.nothing = weights.get_tensor("nothing").astype(np.float32)

    def sample(
        self,
        text_embeddings: np.ndarray,
        seeds: Sequence[int],
        guidance: float = GUIDANCE,
        steps: int = STEPS,
    ) -> np.ndarray:
        """Bytes (n, 64, 64, 3) of unit text rows (n, 256), one seed a row; guidance: how far beyond
        what an unsaid picture would be.
        """
        rows = np.asarray(text_embeddings, np.float32)
        if rows.ndim != 2 or rows.shape[1] != len(self.nothing):
            raise ValueError(
                f"text_embeddings has shape {rows.shape}; pass rows of mini's encode_text, (n,"
                f" {len(self.nothing)})"
            )
        if len(seeds) != len(rows):
            raise ValueError(f"{len(rows)} text rows with {len(seeds)} seeds; pass one seed a row")
        if (bad := np.flatnonzero(~np.isfinite(rows).all(1))).size:
            raise ValueError(
                f"{bad.size} of {len(rows)} text rows hold NaN or infinity (first: {bad[0]}); there"
                " is nothing to draw of them"
            )
        if steps < 1 or not np.isfinite(guidance):
            raise ValueError(
                f"steps={steps} and guidance={guidance} are not legal; pass steps from 1 and a"
                " finite guidance"
            )
        blocks = [slice(i, i + self.block) for i in range(0, len(rows), self.block)]
        pictures = [self.draw(rows[block], seeds[block], guidance, steps) for block in blocks]
        return np.concatenate(pictures) if pictures else np.zeros((0, PIXELS, PIXELS, 3), np.uint8)

    @abstractmethod
    def draw(
        self, rows: np.ndarray, seeds: Sequence[int], guidance: float, steps: int
    ) -> np.ndarray:
        """Draw one block of what ``sample`` was asked for."""


class Generator(Sampler):
    """On onnxruntime.

    The same row and seed give the same picture, bit for bit, whatever else is drawn beside it.

    A pass is one row on one thread, and threads take rows: none waits for another inside a pass,
    which a busy machine would make long.
    """

    block = 8

    def __init__(self, folder: Path = FOLDER, threads: int | None = None):
        import onnxruntime

        super().__init__(folder)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(
            str(folder / GRAPH), options, providers=["CPUExecutionProvider"]
        )
        self.threads = threads or os.cpu_count() or 1

    def velocity(self, pictures: np.ndarray, times: np.ndarray, texts: np.ndarray) -> np.ndarray:
        """Run the network once for each row."""

        def one(i: int) -> np.ndarray:
            row = slice(i, i + 1)
            return np.asarray(
                self.session.run(
                    None, {"pictures": pictures[row], "times": times[row], "texts": texts[row]}
                )[0]
            )

        with ThreadPoolExecutor(self.threads) as pool:
            return np.concatenate(list(pool.map(one, range(len(texts)))))

    def draw(
        self, rows: np.ndarray, seeds: Sequence[int], guidance: float, steps: int
    ) -> np.ndarray:
        texts = np.concatenate([rows, np.broadcast_to(self.nothing, rows.shape)])

        def guided(pictures: Any, time: float) -> Any:
            times = np.full(len(texts), time, np.float32)
            said, unsaid = np.split(
                self.velocity(np.concatenate([pictures, pictures]), times, texts), 2
            )
            return (unsaid + guidance * (said - unsaid)).astype(np.float32)

        return to_bytes(integrate(guided, noise(seeds), steps))
