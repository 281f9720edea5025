"""``equipoise compare``: the files of a sweep."""

from __future__ import annotations

from pathlib import Path

from equipoise._artefact import write_atomically
from equipoise.evaluation import SweepResults
from equipoise.evaluation._run_file import write as write_document
from equipoise.report import sweep_page

SWEEP = "sweep"


def write_sweep(results: SweepResults, folder: Path) -> Path:
    """Write sweep.json and sweep.html; return the path of the page."""
    page = folder / f"{SWEEP}.html"
    write_document(folder / f"{SWEEP}.json", results)
    write_atomically(page, sweep_page(results).encode())
    return page
