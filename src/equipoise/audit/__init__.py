"""The audit: how far a model's prompts and results lean to groups, before and after debiasing, and what debiasing cost."""

from equipoise.audit.documents import Pictures, read, write
from equipoise.audit.plan import Plan, Settings
from equipoise.audit.running import run

__all__ = ["Pictures", "Plan", "Settings", "read", "run", "write"]
