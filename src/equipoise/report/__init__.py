"""The report: self-contained HTML pages of audits and sweeps, and a section for a model card."""

from equipoise.report._card import model_card
from equipoise.report._comparison import comparison
from equipoise.report._page import page
from equipoise.report._sentences import headline
from equipoise.report._sweep import sweep_page, sweep_table

__all__ = ["comparison", "headline", "model_card", "page", "sweep_page", "sweep_table"]
