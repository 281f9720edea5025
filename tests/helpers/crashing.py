"""``Crashing``: a decoder that dies at one picture. Workers import this file and nothing heavy."""

from __future__ import annotations

import os

import numpy as np
from PIL import Image


class Crashing:
    """Return the pixels of any picture but one, which ends the process as a fault in C would."""

    def __init__(self, path):
        self.pixels = np.asarray(Image.open(path).convert("RGB"))

    def __call__(self, image):
        pixels = np.asarray(image)
        if pixels.shape == self.pixels.shape and (pixels == self.pixels).all():
            os._exit(139)
        return pixels
