"""``apply``: debias a store into a new one, with a manifest and a certificate.

A run that was killed and resumed does nothing twice.
"""

from equipoise._applying.estimate import RunEstimate, estimate
from equipoise._applying.files import Options, apply_files
from equipoise._applying.report import ApplyReport
from equipoise._applying.verify import is_finished, verify

__all__ = [
    "ApplyReport",
    "Options",
    "RunEstimate",
    "apply_files",
    "estimate",
    "is_finished",
    "verify",
]
