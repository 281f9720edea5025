"""How a person stands in a crop: a square about the face, made on the device from the photograph.

A frame is (x, y, side, angle): the middle of the square, its side in pixels of the photograph, and
how far it is turned, in radians.
"""

from __future__ import annotations

import numpy as np
import torch
from torch.nn import functional as F

from training.augment import SIDE

WHOLE = (36.0, 36.0, 64.0, 0.0)  # the middle 64 x 64 of a photograph of 72 x 72
PORTRAIT = 2.35  # side of a portrait, in distances from the eyes to the mouth: what FairFace shows
LOWER = 0.45  # of that distance, from the eyes down to the middle of a portrait
AT_WORK = 2.7  # side of a person at work, in heights of the face: it fills a good third
ABOVE = 0.42  # share of such a crop that lies above the middle of the face
OVER = 3.0  # pixels that a portrait may reach beyond its photograph, where it is mirrored
TURNED = 0.45  # radians; a face that is turned farther stays as it is
FINE = (24, 32, 40, 48)  # pixels, of which a crop may be the enlargement
SHARP = {24: 0.111, 32: 0.086, 40: 0.065, 48: 0.048}  # what is finer in CelebA's median photograph
CONTRAST = {24: 0.255, 32: 0.197, 40: 0.148, 48: 0.108}  # the same, as a share of its contrast
BLURRED = 0.6  # of that share, below which a crop has been enlarged or was out of focus
DROWNED = 3.0  # times: noise above what is finer in a sharp photograph


def portrait(points: np.ndarray, photograph: float) -> tuple[float, float, float, float]:
    """Return the frame of a face that fills the picture, its eyes level and in their place.

    points (5, 2): eyes, nose and corners of the mouth; photograph: its side.
    """
    eyes, mouth = points[:2].mean(0), points[3:].mean(0)
    down, across = mouth - eyes, points[1] - points[0]
    upright = across + np.array([down[1], -down[0]])  # of profiles the eyes alone say little
    angle = float(np.arctan2(upright[1], upright[0]))
    angle = angle if abs(angle) < TURNED else 0.0
    side = min(PORTRAIT * max(float(np.hypot(*down)), 1.0), photograph + 2 * OVER)
    x, y = eyes + LOWER * down
    return *_inside(x, y, side, photograph, OVER), side, angle


def person(box: np.ndarray, points: np.ndarray, photograph: float) -> tuple[float, ...]:
    """Return the frame of somebody at work: the face fills a third of the height."""
    left, top, right, bottom = box
    side = min(AT_WORK * (bottom - top), photograph)
    x, y = (left + right) / 2, (top + bottom) / 2 + (0.5 - ABOVE) * side
    return *_inside(x, y, side, photograph, 0.0), side, 0.0


def _inside(x: float, y: float, side: float, whole: float, over: float) -> tuple[float, float]:
    """Return the middle, moved so that the square reaches no farther beyond the photograph."""
    least, most = side / 2 - over, whole - side / 2 + over
    return float(min(max(x, least), most)), float(min(max(y, least), most))


def framed(
    pictures: torch.Tensor,
    frames: torch.Tensor,
    pixels: int = SIDE,
    flipped: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return the crops of bytes (n, side, side, 3) as floats (n, 3, pixels, pixels) in [-1, 1].

    flipped (n,): which are mirrored.
    """
    whole = pictures.shape[1]
    x = pictures.permute(0, 3, 1, 2).float() / 127.5 - 1
    middle_x, middle_y, side, angle = frames.to(x).unbind(1)
    mirror = torch.ones_like(side) if flipped is None else 1 - 2 * flipped.to(x)
    share, cos, sin = side / whole, angle.cos(), angle.sin()
    rows = [
        torch.stack([share * cos * mirror, -share * sin, 2 * middle_x / whole - 1], 1),
        torch.stack([share * sin * mirror, share * cos, 2 * middle_y / whole - 1], 1),
    ]
    grid = F.affine_grid(torch.stack(rows, 1), [len(x), 3, pixels, pixels], align_corners=False)
    crops = F.grid_sample(x, grid, mode="bicubic", padding_mode="reflection", align_corners=False)
    return crops.clamp(-1, 1)


def moved(frames: torch.Tensor, shift: float, size: float, turn: float) -> torch.Tensor:
    """Return frames that are a little aside, larger or smaller, and turned.

    shift, in pixels, size, as a share, and turn, in radians, are the most.
    """
    most = frames.new_tensor([shift, shift, 0.0, turn])
    by = (2 * torch.rand_like(frames) - 1) * most
    scale = 1 + size * (2 * torch.rand_like(frames[:, 2]) - 1)
    out = frames + by
    out[:, 2] = frames[:, 2] * scale
    return out


def latest_times(crops: torch.Tensor, sides: torch.Tensor) -> torch.Tensor:
    """Return until which time each crop (n, 3, 64, 64) teaches to draw: 1 for a sharp one.

    sides (n,): pixels of the photograph that it was made of. A blurred photograph shows what is
    where, but not how skin and hair look from nearby. So it is seen only while noise drowns what is
    finer than itself: while (1 - t) times the noise in that band is DROWNED times what a sharp
    photograph has there.
    """
    grey = crops.mean(1, keepdim=True)
    inner = slice(SIDE // 8, -SIDE // 8)
    contrast = grey[:, :, inner, inner].std((1, 2, 3)).clamp(min=1e-3)
    until = torch.ones_like(contrast)
    for fine in reversed(FINE):
        small = F.interpolate(grey, (fine, fine), mode="bicubic", antialias=True)
        lost = grey - F.interpolate(small, (SIDE, SIDE), mode="bicubic")
        beyond = lost[:, :, inner, inner].pow(2).mean((1, 2, 3)).sqrt()
        noise = (1 - (fine / SIDE) ** 2) ** 0.5  # of white noise of size one, in the band
        limit = 1 / (1 + DROWNED * SHARP[fine] / noise)
        soft = beyond < BLURRED * CONTRAST[fine] * contrast
        until = torch.where(soft | (sides <= fine), limit, until)
    return until
