"""What a worker process has imported; a file of its own, so that unpickling it imports nothing else."""

from __future__ import annotations

import sys

import numpy as np


class LoadedModules:
    """In place of prepared pixels, the names of this process's modules."""

    def __call__(self, image):
        return np.frombuffer(" ".join(sorted(sys.modules)).encode(), np.uint8)
