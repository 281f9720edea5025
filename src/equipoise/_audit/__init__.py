"""The audit: how far a model leans to groups, before and after debiasing, and what that cost."""

from equipoise._audit.documents import Pictures, read, write
from equipoise._audit.plan import AuditPlan, AuditSettings, make_plan
from equipoise._audit.record import AuditOrder
from equipoise._audit.running import Audit, run
from equipoise._audit.sources import ImageSource, read_images

__all__ = [
    "Audit",
    "AuditOrder",
    "AuditPlan",
    "AuditSettings",
    "ImageSource",
    "Pictures",
    "make_plan",
    "read",
    "read_images",
    "run",
    "write",
]
