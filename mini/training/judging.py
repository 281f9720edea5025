"""The judge of drawn pictures: perceived groups and occupations, features, how near they lie to
photographs.

A small residual net that learns from photographs alone (perceive.py). It shares no weight with the
model, which conditions the generator.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional as F

from training.labels import SLOTS

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
QUESTIONS = ("gender", "age", "race", "occupation")
WIDTHS, DEPTHS = (48, 96, 176, 288), (1, 2, 3, 2)
FEATURES = WIDTHS[-1]
BLOCK = 512


class Perceiver(nn.Module):
    """Logits of each question for pictures in [-1, 1]."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        before = 3
        for width, depth in zip(WIDTHS, DEPTHS, strict=True):
            layers += convolution(before, width, 2)
            layers += [Residual(width) for _ in range(depth)]
            before = width
        self.stages = nn.Sequential(*layers)
        self.drop = nn.Dropout(0.1)
        self.heads = nn.ModuleDict(
            {name: nn.Linear(FEATURES, len(SLOTS[name])) for name in QUESTIONS}
        )

    def features(self, pixels: torch.Tensor) -> torch.Tensor:
        """Return what is left of the pictures before the questions (n, 288)."""
        return self.stages(pixels).mean((2, 3))

    def answers(self, features: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return the logits of each question."""
        kept = self.drop(features)
        return {name: head(kept).float() for name, head in self.heads.items()}

    def forward(self, pixels: torch.Tensor) -> dict[str, torch.Tensor]:
        return self.answers(self.features(pixels))


class Residual(nn.Module):
    """Two convolutions beside the identity."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.change = nn.Sequential(
            *convolution(width, width, 1),
            nn.Conv2d(width, width, 3, 1, 1, bias=False),
            nn.BatchNorm2d(width),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(x + self.change(x))


def convolution(before: int, after: int, stride: int) -> list[nn.Module]:
    """Return a 3 x 3 convolution, its norm and its nonlinearity."""
    conv = nn.Conv2d(before, after, 3, stride, 1, bias=False)
    return [conv, nn.BatchNorm2d(after), nn.ReLU()]


class Judge:
    """The classifier, frozen."""

    def __init__(self, folder: Path, name: str = "perceive"):
        self.model = Perceiver()
        self.model.load_state_dict(load_file(folder / f"{name}.safetensors"))
        self.model = self.model.to(DEVICE).eval()

    def __call__(self, pictures: np.ndarray) -> dict[str, np.ndarray]:
        """For bytes (n, 64, 64, 3): probabilities (n, values) by question, and features (n, 288)
        under the name "features".
        """
        return judged(self.model, pictures)


@torch.inference_mode()
def judged(model: Perceiver, pictures: np.ndarray) -> dict[str, np.ndarray]:
    """What a net in its evaluating state sees in bytes (n, 64, 64, 3): the mean of each picture and
    its mirror image.
    """
    found: dict[str, list[torch.Tensor]] = {name: [] for name in (*QUESTIONS, "features")}
    for start in range(0, len(pictures), BLOCK):
        part = np.ascontiguousarray(pictures[start : start + BLOCK])
        pixels = torch.from_numpy(part).to(DEVICE).permute(0, 3, 1, 2).float() / 127.5 - 1
        sides = [model.features(side) for side in (pixels, pixels.flip(3))]
        here, mirrored = (model.answers(side) for side in sides)
        for name in QUESTIONS:
            found[name].append((here[name].softmax(1) + mirrored[name].softmax(1)) / 2)
        found["features"].append((sides[0] + sides[1]) / 2)
    return {name: torch.cat(parts).cpu().numpy() for name, parts in found.items()}


def save(model: Perceiver, path: Path) -> None:
    """Write the weights of a judge."""
    weights = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
    partial = path.with_suffix(".partial")
    save_file(weights, partial)
    partial.replace(path)


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
