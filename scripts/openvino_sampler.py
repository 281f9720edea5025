"""The embedded generator on OpenVINO: the same network and noise, twice as fast.

It needs ``pip install openvino``, which is no part of equipoise. It computes in bfloat16, and
rounds what matrices are multiplied with to 8 bits, as their weights are.
``scripts/generation_table.py`` measures how far its pictures are from the shipped sampler's.
"""

from __future__ import annotations

import hashlib
import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import equipoise_mini
from equipoise._artefact import write_atomically
from equipoise_mini.drawing import GRAPH, Generator

STREAMS = 2  # requests at once, each on one core
ROWS = 4  # of a request, at most
GROUP = 32  # numbers that are rounded to 8 bits together


class OpenVinoGenerator(Generator):
    """Draws as ``Generator`` does; pictures are kept in a folder, and none is drawn twice."""

    def __init__(self, kept: Path):
        import openvino  # pyright: ignore[reportMissingImports]

        super().__init__(threads=STREAMS)
        self._core: Any = openvino.Core()
        self._queues: dict[int, Any] = {}
        self._kept = kept
        version = openvino.__version__.split("-")[0]
        self.precision = f"bfloat16 and 8-bit integers on cpu (openvino {version})"

    def velocity(self, pictures: np.ndarray, times: np.ndarray, texts: np.ndarray) -> np.ndarray:
        count = len(texts)
        rows = min(ROWS, math.ceil(count / STREAMS))
        queue = self._queue(rows)
        answers = np.empty_like(pictures)

        def note(request: Any, first: int) -> None:
            some = answers[first : first + rows]
            some[:] = request.get_output_tensor().data[: len(some)]

        queue.set_callback(note)
        for first in range(0, count, rows):
            places = np.arange(first, first + rows).clip(max=count - 1)  # the last fills the rest
            asked = {"pictures": pictures[places], "times": times[places], "texts": texts[places]}
            queue.start_async(asked, first)
        queue.wait_all()
        return answers

    def draw(
        self, rows: np.ndarray, seeds: Sequence[int], guidance: float, steps: int
    ) -> np.ndarray:
        if "velocity" in vars(self):  # fair-diffusion guides the network: these are other pictures
            return super().draw(rows, seeds, guidance, steps)
        paths = [
            self._place(row, seed, guidance, steps) for row, seed in zip(rows, seeds, strict=True)
        ]
        missing = [i for i, path in enumerate(paths) if not path.is_file()]
        if missing:
            drawn = super().draw(rows[missing], [seeds[i] for i in missing], guidance, steps)
            for i, picture in zip(missing, drawn, strict=True):
                write_atomically(paths[i], _saved(picture))
        return np.stack([np.load(path, allow_pickle=False) for path in paths])

    def _queue(self, rows: int) -> Any:
        """Return the network for so many rows at once, a request on each core."""
        if rows not in self._queues:
            import openvino  # pyright: ignore[reportMissingImports]

            model = self._core.read_model(equipoise_mini.FOLDER / GRAPH)
            model.reshape({port: [rows, *port.partial_shape[1:]] for port in model.inputs})
            options = {
                "NUM_STREAMS": STREAMS,
                "INFERENCE_NUM_THREADS": STREAMS,
                "INFERENCE_PRECISION_HINT": "bf16",
                "DYNAMIC_QUANTIZATION_GROUP_SIZE": GROUP,
            }
            compiled = self._core.compile_model(model, "CPU", options)
            self._queues[rows] = openvino.AsyncInferQueue(compiled, STREAMS)
        return self._queues[rows]

    def _place(self, row: np.ndarray, seed: int, guidance: float, steps: int) -> Path:
        what = f"{self.fingerprint} bf16 {seed} {guidance} {steps} {row.tobytes().hex()}"
        name = hashlib.sha256(what.encode()).hexdigest()
        return self._kept / name[:2] / f"{name}.npy"


def _saved(picture: np.ndarray) -> bytes:
    out = io.BytesIO()
    np.save(out, picture, allow_pickle=False)
    return out.getvalue()
