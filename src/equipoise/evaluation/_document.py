"""A run's file: one JSON that holds all that a table needs, written whole or not at all."""

from __future__ import annotations

import hashlib
import json
import math
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from equipoise._artefact import NOT_WHOLE, parse_json, require_format, write_atomically
from equipoise._version import __version__
from equipoise.errors import ArtefactError

KIND, FORMAT = "equipoise evaluation", 1
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


def document(facts: dict[str, Any], rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a run's facts and results, with versions, in JSON's own types."""
    return plain({"kind": KIND, "format": FORMAT, "versions": versions(), **facts, "rows": rows})


def write(path: Path, run: dict[str, Any]) -> None:
    """Write a run's file, whole or not at all."""
    text = json.dumps(run, indent=1, ensure_ascii=False, allow_nan=False)
    write_atomically(path, f"{text}\n".encode())


def read(path: Path) -> dict[str, Any]:
    """Return the run that a file holds, checked."""
    try:
        run = parse_json(path.read_text(encoding="utf-8"))
        kind, form = run["kind"], int(run["format"])
        if kind != KIND or not isinstance(run["rows"], list):
            raise ValueError(f"its kind is {kind!r}")
    except FileNotFoundError:
        raise ArtefactError(
            f"there is no file {path}; equipoise evaluate --out writes one"
        ) from None
    except (OSError, *NOT_WHOLE) as error:
        raise ArtefactError(
            f"{path} is not the file of an evaluation ({error}); remove it, or pass another"
        ) from None
    require_format(path, form, FORMAT)
    return run


def digest(facts: Any) -> str:
    """Return a digest that tells one set of facts from another."""
    return hashlib.sha256(json.dumps(plain(facts), sort_keys=True).encode()).hexdigest()


def plain(value: Any) -> Any:
    """Return a value in JSON's own types.

    NaN becomes null, infinity a word, and an object that JSON does not know its string.
    """
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and math.isnan(value):
        return None
    if isinstance(value, float) and math.isinf(value):
        return str(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value)


def versions() -> dict[str, str]:
    """Return the versions of Python, equipoise and the packages it computes with."""
    found = {"equipoise": __version__, "python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
