"""Debiasing methods.

``create`` makes a method, its ``fit`` gives an operator, and that changes images, texts or both.
"""

from equipoise.methods._context import FitContext
from equipoise.methods._operator import Operator
from equipoise.methods._registry import Method, Strength, create, defaults, find, load, names

__all__ = [
    "FitContext",
    "Method",
    "Operator",
    "Strength",
    "create",
    "defaults",
    "find",
    "load",
    "names",
]
