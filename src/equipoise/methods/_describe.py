"""Describe every method: what it is, what it needs, what it changes, its parameters."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from equipoise.methods._registry import NEEDS, Method, defaults, find, names

LABELS = {"sensitive_features": "groups", "labels": "classes"}
OURS = 2026  # the year of the paper, and of what is published here first
BASELINE = "none"


def describe_methods(chosen: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Return one dictionary per chosen method, in JSON's own types; by default, of all."""
    return [_described(name, find(name)) for name in chosen or names()]


def _described(name: str, method: type[Method]) -> dict[str, Any]:
    return {
        "name": name,
        "summary": method.summary,
        "source": method.source,
        "needs": [NEEDS.get(need, need) for need in method.needs],
        "labels": [word for need, word in LABELS.items() if need in method.needs],
        "text_only": "images" not in method.needs,
        "training": method.training,
        "gradients": method.gradients,
        "changes": list(method.changes),
        "tasks": list(method.tasks),
        "year": _year(name, method.source),
        "needs_labels": any(need in LABELS for need in method.needs),
        "needs_images": "images" in method.needs,
        "changes_index": "image" in method.changes,
        # Any, where a page is what the database ranks by inner product; not where images are placed
        # one by one.
        "any_database": bool(method.changes) or name == BASELINE,
        "licence": method.licence,
        "code": method.code,
        "strength": _strength(method),
        "params": {param: str(value) for param, value in defaults(name).items()},
    }


def _year(name: str, source: str) -> int | None:
    """Return the year of publication: the source's own, or ours."""
    if name == BASELINE:
        return None
    found = re.search(r"\d{4}", source)
    return int(found[0]) if found else OURS


def _strength(method: type[Method]) -> dict[str, Any] | None:
    if method.sweep is None:
        return None
    values = [str(value) for value in method.sweep.values]
    return method.sweep._asdict() | {"values": values}
