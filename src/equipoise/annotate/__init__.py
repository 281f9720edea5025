"""Annotate: a page on which people label images, what they said, and how far they agree."""

from equipoise.annotate.project import Project
from equipoise.annotate.question import UNSURE, Question

__all__ = ["UNSURE", "Project", "Question"]
