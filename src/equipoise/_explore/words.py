"""The English of the page: one file, which the browser and the saved page read alike."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path

STATIC = Path(__file__).parent / "static"


@cache
def strings() -> Mapping[str, str]:
    """Return every sentence and label by its key."""
    return json.loads((STATIC / "strings.json").read_text(encoding="utf-8"))


def say(key: str, **values: object) -> str:
    """Return a sentence with its {places} filled."""
    return strings()[key].format(**values)


def percent(share: float) -> str:
    """Return a share as the page writes it."""
    return f"{100 * share:.0f} %"


def joined(parts: list[str]) -> str:
    """Return parts as a list in a sentence: "a, b and c"."""
    if len(parts) < 2:
        return "".join(parts)
    first = ", ".join(parts[:-1])
    return " ".join([first, say("and"), parts[-1]])
