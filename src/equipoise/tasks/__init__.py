"""Tasks: zero-shot classification and text-to-image retrieval with any operator, measured with intervals; runs, grids and their tables."""

from equipoise.tasks.classification import classify, predict
from equipoise.tasks.measured import Measured
from equipoise.tasks.protocol import PROTOCOLS, Protocol
from equipoise.tasks.retrieval import rank, retrieve

__all__ = ["PROTOCOLS", "Measured", "Protocol", "classify", "predict", "rank", "retrieve"]
