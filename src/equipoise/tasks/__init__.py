"""Tasks: zero-shot classification and text-to-image retrieval with any operator, measured with
intervals; runs, grids and their tables.
"""

from equipoise.tasks.classification import classify, predict
from equipoise.tasks.comparison import compare, grid, presets
from equipoise.tasks.evaluation import Evaluation
from equipoise.tasks.fitted import FitOn
from equipoise.tasks.measured import Measured
from equipoise.tasks.protocol import PROTOCOLS, Protocol, class_prompts
from equipoise.tasks.retrieval import rank, retrieve
from equipoise.tasks.settings import Settings
from equipoise.tasks.specs import MethodSpec, parse
from equipoise.tasks.sweeps import sweep, sweep_grid

__all__ = [
    "PROTOCOLS",
    "Evaluation",
    "FitOn",
    "Measured",
    "MethodSpec",
    "Protocol",
    "Settings",
    "class_prompts",
    "classify",
    "compare",
    "grid",
    "parse",
    "predict",
    "presets",
    "rank",
    "retrieve",
    "sweep",
    "sweep_grid",
]
