"""Write what each of our methods says of itself, for a listing that imports none of them.

Type: python -m scripts.methods_table
"""

from __future__ import annotations

import json

from equipoise._verbs.methods import FILE
from equipoise.methods._describe import describe_methods
from equipoise.methods._registry import OURS


def text() -> str:
    """Return the file as it should be."""
    ours = [method for method in describe_methods() if method["name"] in OURS]
    return json.dumps(ours, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
