"""The faces in photographs, and where their eyes, noses and mouths are, as a detector (MTCNN) finds
them.
"""

from __future__ import annotations

import io
from typing import NamedTuple

import numpy as np
from PIL import Image

from training.framing import person, portrait

KINDS = {"portrait": ("fairface",), "people": ("idenprof", "flickr8k")}  # of CelebA all are framed
ENLARGED = {"portrait": 3, "people": 4}  # times: the detector looks for no face below 12 pixels
SURE = 0.9  # probability of a face
LEAST = {"portrait": 20.0, "people": 11.0}  # pixels of a face's height; less is mostly blur
BLOCK = 60


class Face(NamedTuple):
    """A face: its photograph, its box (left, top, right, bottom) and its five points, in pixels."""

    photograph: int
    box: np.ndarray
    points: np.ndarray


def frames_of(photographs: list[bytes], kind: str) -> list[tuple[int, tuple[float, ...]]]:
    """Return (photograph, frame): of the largest face of each portrait, or of all people."""
    faces = found(photographs, kind)
    side = float(Image.open(io.BytesIO(photographs[0])).width)
    if kind == "people":
        return [(face.photograph, person(face.box, face.points, side)) for face in faces]
    largest = {face.photograph: face for face in sorted(faces, key=_height)}
    return [(place, portrait(face.points, side)) for place, face in sorted(largest.items())]


def found(photographs: list[bytes], kind: str) -> list[Face]:
    """Return the faces in square photographs."""
    from facenet_pytorch import MTCNN  # pyright: ignore[reportMissingImports]

    times = ENLARGED[kind]
    detector = MTCNN(keep_all=True, min_face_size=round(LEAST[kind] * times))
    faces: list[Face] = []
    for start in range(0, len(photographs), BLOCK):
        large = [_enlarged(data, times) for data in photographs[start : start + BLOCK]]
        boxes, sure, points = detector.detect(large, landmarks=True)
        for place, some in enumerate(zip(boxes, sure, points, strict=True), start):
            if some[0] is None:
                continue
            for box, probability, five in zip(*some, strict=True):
                if probability >= SURE:
                    faces.append(Face(place, box / times, five / times))
    return faces


def _enlarged(data: bytes, times: int) -> Image.Image:
    picture = Image.open(io.BytesIO(data)).convert("RGB")
    size = picture.width * times, picture.height * times
    return picture.resize(size, Image.Resampling.BICUBIC)


def _height(face: Face) -> float:
    return float(face.box[3] - face.box[1])
