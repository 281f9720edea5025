"""``apply``: a store in, the same store debiased out, with a manifest and a certificate; killed and
resumed, it does nothing twice.
"""

from equipoise.applying.apply import apply
from equipoise.applying.estimate import Estimate, estimate
from equipoise.applying.files import Options, apply_files
from equipoise.applying.report import Report
from equipoise.applying.verify import is_finished, verify

__all__ = [
    "Estimate",
    "Options",
    "Report",
    "apply",
    "apply_files",
    "estimate",
    "is_finished",
    "verify",
]
