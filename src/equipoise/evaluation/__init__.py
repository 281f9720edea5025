"""Evaluation: zero-shot classification and text-to-image retrieval, measured with intervals."""

from equipoise.evaluation._classification import classify, predict
from equipoise.evaluation._comparison import Preset, compare, grid, presets
from equipoise.evaluation._estimates import Measured
from equipoise.evaluation._evaluation import Evaluation
from equipoise.evaluation._fitting_images import FitOn
from equipoise.evaluation._labelled_images import LabelledImages
from equipoise.evaluation._protocol import PROTOCOLS, Protocol, class_prompts
from equipoise.evaluation._retrieval import rank, retrieve
from equipoise.evaluation._run_document import EvaluationRun, MetricRow
from equipoise.evaluation._settings import Settings
from equipoise.evaluation._sweep_document import SweepResults
from equipoise.evaluation._sweeps import sweep, sweep_grid
from equipoise.methods._specs import MethodSpec, parse

__all__ = [
    "PROTOCOLS",
    "Evaluation",
    "EvaluationRun",
    "FitOn",
    "LabelledImages",
    "Measured",
    "MethodSpec",
    "MetricRow",
    "Preset",
    "Protocol",
    "Settings",
    "SweepResults",
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
