"""The generator's network in torch, for training and export: which way each pixel moves on its
straight line from noise to a picture.

Fine detail is convolved at 32 x 32; most of the work is attention over the 16 x 16 patches. One
pass is 6.6 GFLOP.
"""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional as F

from equipoise_mini import PIXELS
from equipoise_mini.module import DIM

WIDTH, DEPTH, HEADS, FINE = 320, 8, 5, 96
WAVES = 128
COARSE = PIXELS // 4


class Velocity(nn.Module):
    """Pictures (n, 3, 64, 64) in [-1, 1] on their way, times (n,) in [0, 1], unit text rows (n,
    256); out: velocities like the pictures.
    """

    def __init__(self) -> None:
        super().__init__()
        self.nothing = nn.Parameter(torch.zeros(DIM))  # the text row of no text
        self.time = nn.Sequential(nn.Linear(WAVES, WIDTH), nn.SiLU(), nn.Linear(WIDTH, WIDTH))
        self.text = nn.Sequential(nn.Linear(DIM, WIDTH), nn.SiLU(), nn.Linear(WIDTH, WIDTH))
        self.enter = nn.Conv2d(12, FINE, 3, padding=1)
        self.before = nn.ModuleList(FineBlock() for _ in range(2))
        self.down = nn.Conv2d(FINE, WIDTH, 2, stride=2)
        self.positions = nn.Parameter(0.02 * torch.randn(COARSE * COARSE, WIDTH))
        self.blocks = nn.ModuleList(CoarseBlock() for _ in range(DEPTH))
        self.up = nn.Conv2d(WIDTH, 4 * FINE, 1)
        self.join = nn.Conv2d(2 * FINE, FINE, 1)
        self.after = nn.ModuleList(FineBlock() for _ in range(2))
        self.norm = nn.GroupNorm(8, FINE)
        self.leave = nn.Conv2d(FINE, 12, 3, padding=1)
        nn.init.zeros_(self.leave.weight)
        nn.init.zeros_(self.leave.bias)  # pyright: ignore[reportArgumentType]

    def forward(
        self, pictures: torch.Tensor, times: torch.Tensor, texts: torch.Tensor
    ) -> torch.Tensor:
        told = F.silu(self.time(waves(times)) + self.text(texts * math.sqrt(DIM)))
        fine = self.enter(F.pixel_unshuffle(pictures, 2))
        for block in self.before:
            fine = block(fine, told)
        coarse = self.down(fine).flatten(2).transpose(1, 2) + self.positions
        for block in self.blocks:
            coarse = block(coarse, told)
        coarse = coarse.transpose(1, 2).unflatten(2, (COARSE, COARSE))
        fine = self.join(torch.cat([fine, F.pixel_shuffle(self.up(coarse), 2)], 1))
        for block in self.after:
            fine = block(fine, told)
        return F.pixel_shuffle(self.leave(F.silu(self.norm(fine))), 2)


class FineBlock(nn.Module):
    """Two convolutions at 32 x 32 beside the identity, the second scaled and shifted by what is
    told.
    """

    def __init__(self) -> None:
        super().__init__()
        self.first_norm, self.second_norm = nn.GroupNorm(8, FINE), nn.GroupNorm(8, FINE)
        self.first, self.second = (nn.Conv2d(FINE, FINE, 3, padding=1) for _ in range(2))
        self.told = nn.Linear(WIDTH, 2 * FINE)
        nn.init.zeros_(self.second.weight)
        nn.init.zeros_(self.told.weight)

    def forward(self, x: torch.Tensor, told: torch.Tensor) -> torch.Tensor:
        scale, shift = self.told(told)[:, :, None, None].chunk(2, 1)
        change = self.first(F.silu(self.first_norm(x)))
        return x + self.second(F.silu(self.second_norm(change) * (1 + scale) + shift))


class CoarseBlock(nn.Module):
    """Attention and a perceptron beside the identity, each scaled, shifted and gated by what is
    told.
    """

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH, elementwise_affine=False)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.query_norm, self.key_norm = nn.LayerNorm(WIDTH // HEADS), nn.LayerNorm(WIDTH // HEADS)
        self.rise, self.fall = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.told = nn.Linear(WIDTH, 6 * WIDTH)
        nn.init.zeros_(self.told.weight)
        nn.init.zeros_(self.told.bias)

    def forward(self, x: torch.Tensor, told: torch.Tensor) -> torch.Tensor:
        scale_a, shift_a, gate_a, scale_p, shift_p, gate_p = self.told(told)[:, None, :].chunk(6, 2)
        n, length, _ = x.shape
        states = self.norm(x) * (1 + scale_a) + shift_a
        q, k, v = self.qkv(states).view(n, length, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(self.query_norm(q), self.key_norm(k), v)
        x = x + gate_a * self.out(attended.transpose(1, 2).reshape(n, length, WIDTH))
        states = self.norm(x) * (1 + scale_p) + shift_p
        return x + gate_p * self.fall(F.gelu(self.rise(states), approximate="tanh"))


def waves(times: torch.Tensor) -> torch.Tensor:
    """Return sines and cosines (n, 128) of times."""
    rates = torch.exp(torch.linspace(0, math.log(1000.0), WAVES // 2, device=times.device))
    angles = times[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], 1)
