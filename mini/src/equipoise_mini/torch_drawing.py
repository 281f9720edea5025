"""The same pictures in torch, in half precision on a GPU. They are onnxruntime's up to rounding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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

    def velocity(
        self, pictures: torch.Tensor, times: torch.Tensor, texts: torch.Tensor
    ) -> torch.Tensor:
        """Run the network once for each row."""
        return answer(self.model, pictures, times, texts)

    def draw(
        self, rows: np.ndarray, seeds: Sequence[int], guidance: float, steps: int
    ) -> np.ndarray:
        told = torch.from_numpy(rows)
        return draw(self.velocity, self.model.nothing, told, seeds, guidance, steps)


def answer(
    model: Velocity, pictures: torch.Tensor, times: torch.Tensor, texts: torch.Tensor
) -> torch.Tensor:
    """Return the velocities of a model; on a GPU in bfloat16."""
    with torch.autocast(pictures.device.type, torch.bfloat16, enabled=_in_half(model)):
        return model(pictures, times, texts).float()


@torch.inference_mode()
def draw(
    velocity: Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor],
    nothing: torch.Tensor,
    rows: torch.Tensor,
    seeds: Sequence[int],
    guidance: float,
    steps: int,
) -> np.ndarray:
    """Return bytes (n, 64, 64, 3) of text rows, one seed per row.

    nothing: the row of no text, on the device where velocities are made.
    """
    device = nothing.device
    texts = torch.cat([rows.to(device), nothing.expand(len(rows), -1)])

    def guided(pictures: torch.Tensor, time: float) -> torch.Tensor:
        times = torch.full((len(texts),), time, device=device)
        said, unsaid = velocity(torch.cat([pictures, pictures]), times, texts).chunk(2)
        return unsaid + guidance * (said - unsaid)

    start = torch.from_numpy(noise(seeds)).to(device)
    return to_bytes(integrate(guided, start, steps).cpu().numpy())


def _in_half(model: Velocity) -> bool:
    return model.nothing.device.type == "cuda"
