"""Random views of photographs, made on the device from bytes: 64 x 64 floats in [-1, 1] out of 72 x
72 bytes.
"""

from __future__ import annotations

import io
from functools import cache
from typing import cast

import torch
from PIL import Image
from torch.nn import functional as F

SIDE = 64
COMPRESSED = 0.4  # share of the shrunk views
LIGHT = torch.tensor(  # light and two colours of red, green and blue, as in JPEG
    [[0.299, 0.587, 0.114], [-0.168736, -0.331264, 0.5], [0.5, -0.418688, -0.081312]]
)


def centre(pictures: torch.Tensor) -> torch.Tensor:
    """The middle 64 x 64 of bytes (n, height, width, 3), as floats (n, 3, 64, 64): what the shipped
    model sees.
    """
    top, left = (pictures.shape[1] - SIDE) // 2, (pictures.shape[2] - SIDE) // 2
    return (
        pictures[:, top : top + SIDE, left : left + SIDE].permute(0, 3, 1, 2).float() / 127.5 - 1
    ).contiguous(memory_format=torch.channels_last)


def floats(pictures: torch.Tensor) -> torch.Tensor:
    """Return bytes (n, height, width, 3) as floats (n, 3, height, width) in [-1, 1]."""
    return pictures.permute(0, 3, 1, 2).float() / 127.5 - 1


def views(
    x: torch.Tensor,
    smallest: float = 0.5,
    largest: float = 1.02,
    pixels: int = SIDE,
    strength: float = 1.0,
) -> torch.Tensor:
    """Crop, turn, flip, colour, blur, erase floats; what lies outside a picture is its mirror image.

    strength: of everything but the crop and the flip.
    """
    n, device = len(x), x.device

    def uniform(low: float, high: float, *shape: int) -> torch.Tensor:
        return torch.empty(n, *shape, device=device).uniform_(low, high)

    def chance(share: float) -> torch.Tensor:
        return torch.rand(n, device=device) < share

    side = uniform(smallest, largest)
    stretch = (strength * uniform(-0.12, 0.12)).exp()
    angle = strength * uniform(-0.2, 0.2) * chance(0.6)
    flip = 1 - 2 * chance(0.5).float()
    width, height = side * stretch, side / stretch
    shift_x, shift_y = (
        uniform(-1, 1) * (1 - width).clamp(min=0),
        uniform(-1, 1) * (1 - height).clamp(min=0),
    )
    matrix = torch.stack(
        [
            torch.stack([angle.cos() * width * flip, -angle.sin() * height, shift_x], 1),
            torch.stack([angle.sin() * width * flip, angle.cos() * height, shift_y], 1),
        ],
        1,
    )
    x = F.grid_sample(
        x,
        F.affine_grid(matrix, [n, 3, pixels, pixels], align_corners=False),
        padding_mode="reflection",
        align_corners=False,
    )

    mean = x.mean((1, 2, 3), keepdim=True)
    contrast = 1 + strength * uniform(-0.35, 0.35, 1, 1, 1)
    x = (x - mean) * contrast + mean + strength * uniform(-0.245, 0.245, 1, 1, 1)
    grey = x.mean(1, keepdim=True)
    saturation = (1 + strength * uniform(-0.5, 0.5)) * (~chance(0.08 * strength))
    x = grey + (x - grey) * saturation[:, None, None, None]
    x = x * (1 + strength * uniform(-0.08, 0.08, 3, 1, 1))
    soft = F.interpolate(F.avg_pool2d(x, 2), scale_factor=2, mode="bilinear", align_corners=False)
    x = torch.where(chance(0.12 * strength)[:, None, None, None], soft, x)

    rows = torch.arange(pixels, device=device) * (SIDE / pixels)
    size, top, left = uniform(8, 26), uniform(0, SIDE), uniform(0, SIDE)
    inside_y = ((rows - top[:, None]).abs() < size[:, None] / 2)[:, None, :, None]
    inside_x = ((rows - left[:, None]).abs() < size[:, None] / 2)[:, None, None, :]
    erased = inside_y & inside_x & chance(0.3 * strength)[:, None, None, None]
    return (
        torch.where(erased, uniform(-1, 1, 3, 1, 1), x)
        .clamp(-1, 1)
        .contiguous(memory_format=torch.channels_last)
    )


def shrunk(views: torch.Tensor, least: float = 1.2, most: float = 5.0) -> torch.Tensor:
    """Shrink by a random factor, sometimes compress what is left, and enlarge to the old size.

    A face of 11 to 20 pixels, enlarged, is like that. Sixteen views at a time share a factor, which
    is one of views of 64 x 64.
    """
    pixels, out = views.shape[-1], []
    for block in views.split(16):
        factor = least * (most / least) ** torch.rand(()).item()
        side = min(round(SIDE / factor), pixels)
        small = F.interpolate(block, (side, side), mode="bilinear", antialias=True)
        if torch.rand(()) < COMPRESSED:
            small = compressed(small, int(torch.randint(60, 96, ())))
        out.append(F.interpolate(small, (pixels, pixels), mode="bicubic"))
    return torch.cat(out).clamp(-1, 1).contiguous(memory_format=torch.channels_last)


def compressed(views: torch.Tensor, quality: int) -> torch.Tensor:
    """Return what JPEG leaves of views, without its thinning of the colours."""
    side = views.shape[-1]
    waves = cosines(views.device)
    to_light, steps = LIGHT.to(views), steps_of(quality, views.device)
    light = torch.einsum("ij,njhw->nihw", to_light, views * 127.5)
    whole = F.pad(light, (0, -side % 8, 0, -side % 8), mode="replicate")
    blocks = whole.unfold(2, 8, 8).unfold(3, 8, 8)
    found = (waves @ blocks @ waves.T / steps).round() * steps
    rows = (waves.T @ found @ waves).permute(0, 1, 2, 4, 3, 5).reshape(whole.shape)
    back = torch.einsum("ij,njhw->nihw", to_light.inverse(), rows[:, :, :side, :side])
    return (back / 127.5).clamp(-1, 1)


def cosines(device: torch.device) -> torch.Tensor:
    """Return the discrete cosine transform of eight numbers, an orthogonal matrix."""
    place = torch.arange(8, device=device)
    waves = torch.cos(torch.pi * (2 * place[None] + 1) * place[:, None] / 16) / 2
    waves[0] /= 2**0.5
    return waves


@cache
def steps_of(quality: int, device: torch.device) -> torch.Tensor:
    """Return the steps (3, 1, 1, 8, 8) to which JPEG of a quality rounds, as Pillow writes them."""
    out = io.BytesIO()
    Image.new("RGB", (8, 8)).save(out, "JPEG", quality=quality)
    tables = cast(dict[int, list[int]], Image.open(out).quantization)  # pyright: ignore[reportAttributeAccessIssue]
    light, colour = (torch.tensor(tables[i], dtype=torch.float32).view(8, 8) for i in (0, 1))
    return torch.stack([light, colour, colour])[:, None, None].to(device)
