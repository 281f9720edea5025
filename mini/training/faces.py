"""People seen from nearby: photographs cropped about the faces that a detector (MTCNN) finds, so
that a face is a good third of the height.
"""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from PIL import Image

ENLARGED = 4  # times: the detector does not look for faces of fewer than 12 pixels
SURE = 0.9  # probability of a face
LEAST = 11.0  # pixels of a face's height; what is smaller would be mostly blur
WIDE = 2.7  # side of a crop, in heights of the face
ABOVE = 0.42  # share of a crop that lies above the middle of the face
BLOCK = 60
QUALITY = 92  # of the JPEGs


def close_ups(photographs: list[bytes]) -> tuple[np.ndarray, list[bytes]]:
    """For every face that is found, which of the square photographs it is in, and a JPEG of its
    surroundings in that photograph's size.
    """
    from facenet_pytorch import MTCNN  # pyright: ignore[reportMissingImports]

    detector = MTCNN(keep_all=True, min_face_size=round(LEAST * ENLARGED))
    parents, found = [], []
    for start in range(0, len(photographs), BLOCK):
        pictures = [
            Image.open(io.BytesIO(data)).convert("RGB")
            for data in photographs[start : start + BLOCK]
        ]
        sides = [picture.width * ENLARGED for picture in pictures]
        large = [
            picture.resize((side, side), Image.Resampling.BICUBIC)
            for picture, side in zip(pictures, sides, strict=True)
        ]
        for i, (picture, boxes, sure) in enumerate(
            zip(pictures, *detector.detect(large), strict=True)
        ):
            crops = (
                [
                    surroundings(picture, box / ENLARGED)
                    for box, p in zip(boxes, sure, strict=True)
                    if p >= SURE
                ]
                if boxes is not None
                else []
            )
            parents += [start + i] * len(crops)
            found += crops
    return np.array(parents, np.int64), found


def surroundings(picture: Image.Image, box: Any) -> bytes:
    """The square about a face, inside the photograph, enlarged to its size."""
    left, top, right, bottom = box
    side = min(WIDE * (bottom - top), picture.width)
    x, y = (
        min(max(start, 0.0), picture.width - side)
        for start in ((left + right - side) / 2, (top + bottom) / 2 - ABOVE * side)
    )
    out = io.BytesIO()
    picture.resize(picture.size, Image.Resampling.BICUBIC, box=(x, y, x + side, y + side)).save(
        out, "JPEG", quality=QUALITY
    )
    return out.getvalue()
