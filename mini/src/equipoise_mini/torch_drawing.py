"""The same pictures in torch, in half precision on a GPU. They are onnxruntime's up to rounding."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from equipoise_mini import FOLDER
from equipoise_mini.drawing import WEIGHTS, Sampler
from equipoise_mini.module import weights
from equipoise_mini.sampling import integrate, noise, to_bytes
from equipoise_mini.velocity import Velocity


class TorchGenerator(Sampler):
    """device: as torch names it."""

    block = 256

    def __init__(self, folder: Path = FOLDER, device: str = "cuda"):
        from safetensors.torch import load_file

        super().__init__(folder)
        self.model = Velocity().eval()
        self.model.load_state_dict(weights(load_file(folder / WEIGHTS)))
        self.model.to(device)
        self.precision = (
            f"{'bfloat16' if _in_half(self.model) else 'float32'} on"
            f" {self.model.nothing.device.type}"
        )

    def draw(
        self, rows: np.ndarray, seeds: Sequence[int], guidance: float, steps: int
    ) -> np.ndarray:
        return draw(self.model, torch.from_numpy(rows), seeds, guidance, steps)


@torch.inference_mode()
def draw(
    model: Velocity, rows: torch.Tensor, seeds: Sequence[int], guidance: float, steps: int
) -> np.ndarray:
    """Bytes (n, 64, 64, 3) of text rows, one seed a row, on the model's device; on a GPU in
    bfloat16.
    """
    device = model.nothing.device
    texts = torch.cat([rows.to(device), model.nothing.expand(len(rows), -1)])

    def guided(pictures: torch.Tensor, time: float) -> torch.Tensor:
        times = torch.full((len(texts),), time, device=device)
        with torch.autocast(device.type, torch.bfloat16, enabled=_in_half(model)):
            said, unsaid = model(torch.cat([pictures, pictures]), times, texts).float().chunk(2)
        return unsaid + guidance * (said - unsaid)

    return to_bytes(
        integrate(guided, torch.from_numpy(noise(seeds)).to(device), steps).cpu().numpy()
    )


def _in_half(model: Velocity) -> bool:
    return model.nothing.device.type == "cuda"
