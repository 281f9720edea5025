"""Annotate: a page on which people label images, what they said, and how far they agree."""

from equipoise._annotate.project import Project
from equipoise._annotate.question import UNSURE, Question

__all__ = ["UNSURE", "Project", "Question"]
