"""The report: one self-contained HTML file from an audit's results, a comparison of several, a section for a model card."""

from equipoise.report.card import model_card
from equipoise.report.page import comparison, page

__all__ = ["comparison", "model_card", "page"]
