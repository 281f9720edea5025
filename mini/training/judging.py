"""What the independent classifier (perceive.py) makes of pictures: perceived groups, features, how
near they lie to photographs.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file

from training.labels import SLOTS
from training.perceive import HEADS, Perceiver
from training.teacher import DEVICE

BLOCK = 512


class Judge:
    """The classifier, frozen."""

    def __init__(self, work: Path, name: str = "perceive"):
        self.model = Perceiver().to(DEVICE).eval()
        self.model.load_state_dict(
            {
                name: tensor.float()
                for name, tensor in load_file(work / f"{name}.safetensors", device=DEVICE).items()
            }
        )

    @torch.inference_mode()
    def __call__(self, pictures: np.ndarray) -> dict[str, np.ndarray]:
        """For bytes (n, 64, 64, 3): probabilities (n, values) by question, and features (n, 336)
        under the name "features".
        """
        found: dict[str, list[torch.Tensor]] = {name: [] for name in (*HEADS, "features")}
        for start in range(0, len(pictures), BLOCK):
            pixels = (
                torch.from_numpy(pictures[start : start + BLOCK])
                .to(DEVICE)
                .permute(0, 3, 1, 2)
                .float()
                / 127.5
                - 1
            )
            for name, logits in self.model(pixels).items():
                found[name].append(logits.softmax(1))
            found["features"].append(self.model.trunk.stages(pixels).mean((2, 3)))
        return {name: torch.cat(parts).cpu().numpy() for name, parts in found.items()}


def says(found: dict[str, np.ndarray], question: str) -> np.ndarray:
    """The likeliest answer to one question for each picture, as its name."""
    return np.array(SLOTS[question])[found[question].argmax(1)]


def nearest(rows: np.ndarray, others: np.ndarray, *, leave_out: bool = False) -> np.ndarray:
    """Distance of each row to the nearest of ``others``; of its own set, when told to leave out the
    row itself.
    """
    there = torch.from_numpy(others).to(DEVICE).float()
    out = []
    for start in range(0, len(rows), BLOCK):
        distances = torch.cdist(
            torch.from_numpy(rows[start : start + BLOCK]).to(DEVICE).float(), there
        )
        if leave_out:
            i = torch.arange(len(distances), device=DEVICE)
            distances[i, start + i] = torch.inf
        out.append(distances.amin(1).cpu().numpy())
    return np.concatenate(out)


def kernel_distance(a: np.ndarray, b: np.ndarray) -> float:
    """KID: the unbiased squared maximum mean discrepancy of two sets of features under the kernel
    (x . y / d + 1) ** 3.
    """
    d = a.shape[1]
    within_a, within_b, between = (
        (x.astype(np.float64) @ y.T / d + 1) ** 3 for x, y in ((a, a), (b, b), (a, b))
    )
    n, m = len(a), len(b)
    return float(
        (within_a.sum() - np.trace(within_a)) / (n * (n - 1))
        + (within_b.sum() - np.trace(within_b)) / (m * (m - 1))
        - 2 * between.mean()
    )
