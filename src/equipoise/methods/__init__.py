"""Debiasing methods.

``create`` makes a method, its ``fit`` gives an operator, and that changes images, texts or both.
The other names are what a method of your own builds on; docs/add-a-method.md shows one.
"""

from equipoise.methods._context import FitContext
from equipoise.methods._fitting_rows import labelled_blocks, labelled_images
from equipoise.methods._fitting_texts import bare_words, labelled_texts, matched_texts, prototypes
from equipoise.methods._low_rank import LowRankOperator
from equipoise.methods._operator import Operator
from equipoise.methods._registry import (
    Method,
    Strength,
    create,
    defaults,
    find,
    from_pretrained,
    load,
    names,
)
from equipoise.methods._spaces import SpaceOperator

__all__ = [
    "FitContext",
    "LowRankOperator",
    "Method",
    "Operator",
    "SpaceOperator",
    "Strength",
    "bare_words",
    "create",
    "defaults",
    "find",
    "from_pretrained",
    "labelled_blocks",
    "labelled_images",
    "labelled_texts",
    "load",
    "matched_texts",
    "names",
    "prototypes",
]
