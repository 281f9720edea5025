"""Text-to-image generation: debias what prompts condition, then draw, label and measure."""

from equipoise._annotate.labels import Label
from equipoise.generation._annotators import Annotator, load_annotator
from equipoise.generation._attach import Attached, attach
from equipoise.generation._conditioning import Call, Conditioning
from equipoise.generation._drawing import draw
from equipoise.generation._group_draws import DrawnGroup, GroupDraws
from equipoise.generation._labels import Verdict, read_labels, unanimous
from equipoise.generation._manifest import Manifest
from equipoise.generation._mini import MiniConditioning, MiniPipeline, load_mini
from equipoise.generation._painters import DiffusersPainter, Painter, load_painter
from equipoise.generation._picture_files import PictureProvenance, read_provenance
from equipoise.generation._plan import DrawingPlan, make_plan
from equipoise.generation._states_towards import StatesTowards, steer

__all__ = [
    "Annotator",
    "Attached",
    "Call",
    "Conditioning",
    "DiffusersPainter",
    "DrawingPlan",
    "DrawnGroup",
    "GroupDraws",
    "Label",
    "Manifest",
    "MiniConditioning",
    "MiniPipeline",
    "Painter",
    "PictureProvenance",
    "StatesTowards",
    "Verdict",
    "attach",
    "draw",
    "load_annotator",
    "load_mini",
    "load_painter",
    "make_plan",
    "read_labels",
    "read_provenance",
    "steer",
    "unanimous",
]
