"""Describe every method: what it is, what it needs, what it changes, its parameters."""

from __future__ import annotations

from typing import Any

from equipoise.methods._registry import NEEDS, Method, defaults, find, names

LABELS = {"sensitive_features": "groups", "labels": "classes"}


def describe_methods() -> list[dict[str, Any]]:
    """Return one dictionary per method, in JSON's own types."""
    return [_described(name, find(name)) for name in names()]


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
        "code": method.code,
        "strength": _strength(method),
        "params": {param: str(value) for param, value in defaults(name).items()},
    }


def _strength(method: type[Method]) -> dict[str, Any] | None:
    if method.sweep is None:
        return None
    values = [str(value) for value in method.sweep.values]
    return method.sweep._asdict() | {"values": values}
