"""What a face detector (MTCNN) and plain statistics make of small pictures: one row of numbers each,
from which fitness.py learns what a person calls broken.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from PIL import Image
from torch.nn import functional as F

EDGE = 16  # pixels repeated around a picture: many portraits reach beyond theirs
ENLARGED = 3  # times, after that: the detector does not look for faces of fewer than 12 pixels
LEAST = 30  # pixels of the smallest face that is looked for, in the enlarged picture
THRESHOLDS = [0.5, 0.5, 0.3]  # of the three nets: faint faces are to be seen, too
SURE, FAINT = 0.9, 0.5
BLOCK = 32
NOWHERE = (24.0, 16.0, 72.0, 76.0)  # a box for pictures in which no face is found
SHIFTS = tuple(
    (x, y, size)
    for size in (0.92, 1.0, 1.1)
    for x, y in ((0.0, 0.0), (-0.05, 0.0), (0.05, 0.0), (0.0, -0.05), (0.0, 0.05))
)
STATISTICS = (
    *("faces", "faint faces", "best", "second", "left", "top", "width", "height"),
    *("sure about", "sure least", "sure spread", "rough net", "unsteady", "unsteady worst"),
    *("eyes apart", "eyes tilt", "nose aside", "nose down", "mouth wide", "mouth down"),
    *("mouth tilt", "odd outline", "uneven"),
    *("sharp face", "sharp all", "edges face", "edges all", "contrast face"),
    *("left eye", "right eye", "mouth", "left eye dark", "right eye dark", "eyes alike"),
    *("saturation face", "saturation all", "white", "black", "red", "blue", "light"),
)


class Looker:
    """The detector's three nets, frozen."""

    def __init__(self) -> None:
        from facenet_pytorch import MTCNN  # pyright: ignore[reportMissingImports]

        self.detector: Any = MTCNN(keep_all=True, min_face_size=LEAST, thresholds=THRESHOLDS)

    @torch.inference_mode()
    def __call__(self, pictures: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """For bytes (n, 64, 64, 3): STATISTICS (n, 37), and the last net's features (n, 256)."""
        parts = [self.block(pictures[i : i + BLOCK]) for i in range(0, len(pictures), BLOCK)]
        statistics, features = zip(*parts, strict=True)
        return np.concatenate(statistics), np.concatenate(features)

    def block(self, pictures: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Do the same for a few at once."""
        edged = np.pad(pictures, ((0, 0), (EDGE, EDGE), (EDGE, EDGE), (0, 0)), mode="edge")
        side = edged.shape[1] * ENLARGED
        large = [
            Image.fromarray(picture).resize((side, side), Image.Resampling.BICUBIC)
            for picture in edged
        ]
        found, sure = self.detector.detect(large)
        boxes = [best_box(*one) for one in zip(found, sure, strict=True)]
        crops = torch.cat([around(one, box) for one, box in zip(edged, boxes, strict=True)])
        probability, points, features = last_net(self.detector.onet, crops)
        rough = self.detector.rnet(F.interpolate(crops, (24, 24), mode="area"))[1][:, 1]
        count = len(pictures)
        probability, rough = (some.view(count, -1).numpy() for some in (probability, rough))
        points = points.view(count, len(SHIFTS), 2, 5).numpy()
        rows = [
            np.concatenate(
                [
                    seen(all_sure, box),
                    steadiness(probability[i], rough[i], points[i]),
                    shape(points[i].mean(0)),
                    surface(edged[i].astype(np.float64), box, points[i].mean(0)),
                ]
            )
            for i, (all_sure, box) in enumerate(zip(sure, boxes, strict=True))
        ]
        return np.stack(rows), features.view(count, len(SHIFTS), -1).mean(1).numpy()


def best_box(found: np.ndarray | None, sure: np.ndarray) -> tuple[float, ...]:
    """The surest large face, in pixels of the picture with its edge."""
    if found is None:
        return NOWHERE
    boxes = np.asarray(found, np.float64) / ENLARGED
    sides = (boxes[:, 2:] - boxes[:, :2]).mean(1)
    return tuple(boxes[int(np.argmax(np.asarray(sure, np.float64) * np.sqrt(sides)))])


def around(picture: np.ndarray, box: tuple[float, ...]) -> torch.Tensor:
    """The square about a face, and the same a little aside, nearer and farther: (15, 3, 48, 48) as
    the detector's nets want them.
    """
    left, top, right, bottom = box
    side, x, y = max(right - left, bottom - top), (left + right) / 2, (top + bottom) / 2
    pixels = torch.from_numpy(picture).permute(2, 0, 1).float()[None]
    whole = picture.shape[0]
    grids = []
    for aside, down, size in SHIFTS:
        half = side * size / whole
        theta = torch.tensor(
            [
                [half, 0.0, 2 * (x + aside * side) / whole - 1],
                [0.0, half, 2 * (y + down * side) / whole - 1],
            ],
            dtype=torch.float32,
        )
        grids.append(theta)
    grid = F.affine_grid(torch.stack(grids), [len(grids), 3, 48, 48], align_corners=False)
    crops = F.grid_sample(
        pixels.expand(len(grids), -1, -1, -1),
        grid,
        mode="bicubic",
        padding_mode="border",
        align_corners=False,
    )
    return (crops.clamp(0, 255) - 127.5) / 128


def last_net(net: Any, crops: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Probabilities of a face, five points (n, 2, 5) as shares of the crop, and what the last layer
    sees (n, 256).
    """
    kept = []
    hook = net.prelu5.register_forward_hook(lambda _, __, out: kept.append(out))
    _, points, probability = net(crops)
    hook.remove()
    return probability[:, 1], points.view(-1, 2, 5), kept[0]


def seen(sure: np.ndarray, box: tuple[float, ...]) -> list[float]:
    """How many faces, how sure, and where the best is."""
    known = sorted((float(p) for p in sure if p is not None), reverse=True)
    best, second, *_ = [*known, 0.0, 0.0]
    left, top, right, bottom = box
    return [
        float(sum(p >= SURE for p in known)),
        float(sum(p >= FAINT for p in known)),
        best,
        second,
        left - EDGE,
        top - EDGE,
        right - left,
        bottom - top,
    ]


def steadiness(probability: np.ndarray, rough: np.ndarray, points: np.ndarray) -> list[float]:
    """How sure the nets stay where the crop moves a little, and how far the five points move."""
    shifts = np.array(SHIFTS)
    # back to shares of the crop that is not moved
    places = (points - 0.5) * shifts[:, 2, None, None] + shifts[:, :2, None]
    spread = places.std(0).mean(0)
    return [
        float(logit(probability).mean()),
        float(logit(probability).min()),
        float(logit(probability).std()),
        float(logit(rough).mean()),
        float(spread.mean()),
        float(spread.max()),
    ]


def logit(p: np.ndarray) -> np.ndarray:
    """Log odds, within bounds."""
    p = np.clip(p, 1e-4, 1 - 1e-4)
    return np.log(p / (1 - p))


def shape(points: np.ndarray) -> list[float]:
    """The geometry of eyes, nose and mouth, (2, 5) as shares of the face's box."""
    (left, right, nose, low_left, low_right) = points.T
    eyes, mouth = (left + right) / 2, (low_left + low_right) / 2
    apart = max(float(np.linalg.norm(right - left)), 1e-3)
    down = max(float(mouth[1] - eyes[1]), 1e-3)
    return [
        apart,
        float(right[1] - left[1]) / apart,
        float(nose[0] - (eyes[0] + mouth[0]) / 2) / apart,
        float(nose[1] - eyes[1]) / down,
        float(np.linalg.norm(low_right - low_left)) / apart,
        down / apart,
        float(low_right[1] - low_left[1]) / apart,
        abs(float(mouth[0] - eyes[0])) / apart,
        abs(float(np.linalg.norm(nose - left) - np.linalg.norm(nose - right))) / apart,
    ]


def surface(picture: np.ndarray, box: tuple[float, ...], points: np.ndarray) -> list[float]:
    """Sharpness, contrast and colour of the face and of the whole."""
    left, top, right, bottom = box
    side, x, y = max(right - left, bottom - top), (left + right) / 2, (top + bottom) / 2
    whole = picture[EDGE:-EDGE, EDGE:-EDGE]
    face = window(picture, x, y, side / 2)
    places = (points.T - 0.5) * side + [x, y]
    eyes_and_mouth = [
        window(picture, place[0], place[1], side / 8).mean(2)
        for place in (places[0], places[1], (places[3] + places[4]) / 2)
    ]
    one, other, mouth = eyes_and_mouth
    return [
        sharpness(face),
        sharpness(whole),
        edges(face),
        edges(whole),
        float(face.mean(2).std()) / 255,
        float(one.std()) / 255,
        float(other.std()) / 255,
        float(mouth.std()) / 255,
        float(np.median(face.mean(2)) - one.min()) / 255,
        float(np.median(face.mean(2)) - other.min()) / 255,
        alike(one, other[:, ::-1]),
        saturation(face),
        saturation(whole),
        float((whole >= 250).all(2).mean()),
        float((whole <= 5).all(2).mean()),
        float((face[..., 0] - face[..., 1]).mean()) / 255,
        float((face[..., 2] - face[..., 1]).mean()) / 255,
        float(face.mean()) / 255,
    ]


def window(picture: np.ndarray, x: float, y: float, half: float) -> np.ndarray:
    """The square about a point, inside the picture, of at least five pixels."""
    half = max(half, 2.5)
    last = picture.shape[0]
    left, top = (int(np.clip(round(at - half), 0, last - 5)) for at in (x, y))
    side = max(5, round(2 * half))
    return picture[top : min(top + side, last), left : min(left + side, last)]


def sharpness(picture: np.ndarray) -> float:
    """The logarithm of the Laplacian's variance."""
    grey = picture.mean(2)
    middle = grey[1:-1, 1:-1]
    around_it = grey[:-2, 1:-1] + grey[2:, 1:-1] + grey[1:-1, :-2] + grey[1:-1, 2:]
    return float(np.log(np.var(around_it - 4 * middle) + 1))


def edges(picture: np.ndarray) -> float:
    """The mean step between neighbours."""
    grey = picture.mean(2)
    return float(np.abs(np.diff(grey, axis=0)).mean() + np.abs(np.diff(grey, axis=1)).mean()) / 255


def alike(one: np.ndarray, other: np.ndarray) -> float:
    """The correlation of two patches."""
    rows, columns = (min(sizes) for sizes in zip(one.shape, other.shape, strict=True))
    a, b = one[:rows, :columns], other[:rows, :columns]
    a, b = a - a.mean(), b - b.mean()
    return float((a * b).sum() / (np.sqrt((a**2).sum() * (b**2).sum()) + 1e-6))


def saturation(picture: np.ndarray) -> float:
    """The mean share of colour in the pixels' light."""
    most, least = picture.max(2), picture.min(2)
    return float(((most - least) / np.maximum(most, 1)).mean())
