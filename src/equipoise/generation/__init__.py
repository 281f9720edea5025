"""Text-to-image generation: debias what prompts condition, then draw, label and measure."""

from equipoise.generation._annotators import load_annotator
from equipoise.generation._attach import Attached, attach
from equipoise.generation._conditioning import Conditioning
from equipoise.generation._drawing import draw, read_provenance
from equipoise.generation._labels import read_labels, unanimous
from equipoise.generation._mini import MiniPipeline, load_mini
from equipoise.generation._painters import DiffusersPainter, load_painter
from equipoise.generation._plan import Plan, make_plan

__all__ = [
    "Attached",
    "Conditioning",
    "DiffusersPainter",
    "MiniPipeline",
    "Plan",
    "attach",
    "draw",
    "load_annotator",
    "load_mini",
    "load_painter",
    "make_plan",
    "read_labels",
    "read_provenance",
    "unanimous",
]
