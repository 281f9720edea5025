"""The listing of methods, which imports none of ours: that would take most of a start.

``methods/described.json`` holds what they say of themselves. ``python -m scripts.methods_table``
writes it, and a test holds it equal to them. Where another package has methods, all are asked.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

FILE = Path(__file__).parent.parent / "methods" / "described.json"
GROUP = "equipoise.methods"


def described_methods(chosen: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Return one dictionary for each chosen method, in JSON's own types; by default, for all."""
    described = json.loads(FILE.read_text(encoding="utf-8"))
    ours = {method["name"]: method for method in described}
    known = all(name in ours for name in chosen)
    if not known or any(point.name not in ours for point in entry_points(group=GROUP)):
        from equipoise.methods._describe import describe_methods

        return describe_methods(chosen)
    return [ours[name] for name in chosen or ours]
