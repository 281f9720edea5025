"""A run's file: one JSON that holds all that a table needs, written whole or not at all."""

from __future__ import annotations

import hashlib
import json
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from equipoise._artefact import write_atomically
from equipoise._documents import Document, plain, read_document
from equipoise._version import __version__
from equipoise.errors import ArtefactError
from equipoise.evaluation._run_document import FORMAT, EvaluationRun

_PACKAGES = (
    "numpy",
    "scipy",
    "scikit-learn",
    "pandas",
    "numba",
    "torch",
    "transformers",
    "open_clip_torch",
    "onnxruntime",
)


def write(path: Path, document: Document) -> None:
    """Write the file of a run or a sweep, whole or not at all."""
    write_atomically(path, document.to_text().encode())


def read(path: Path) -> EvaluationRun:
    """Return the run that a file holds, checked."""
    what, remedy = "the file of an evaluation", "remove it, or pass another"
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise ArtefactError(
            f"there is no file {path}; equipoise evaluate --out writes one"
        ) from None
    except OSError as error:
        raise ArtefactError(f"{path} is not {what} ({error}); {remedy}") from None
    return read_document(EvaluationRun, data, path, what, remedy, newest=FORMAT)


def digest(facts: Any) -> str:
    """Return a digest that tells one set of facts from another."""
    return hashlib.sha256(json.dumps(plain(facts), sort_keys=True).encode()).hexdigest()


def versions() -> dict[str, str]:
    """Return the versions of Python, equipoise and the packages it computes with."""
    found = {"equipoise": __version__, "python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
