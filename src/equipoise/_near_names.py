"""The name that somebody meant, where a name is wrong: "; did you mean ...?"."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(name: str, known: Iterable[str], *, count: int = 3) -> str:
    """Return "; did you mean ...?", or an empty string where nothing is near.

    A name that is known gets an empty string too: then something other than the name is wrong.
    """
    by_lower = {candidate.lower(): candidate for candidate in known}
    if name in by_lower.values():
        return ""
    close = difflib.get_close_matches(name.lower(), by_lower, n=count, cutoff=0.5)
    if not close:
        return ""
    return f"; did you mean {' or '.join(by_lower[match] for match in close)}?"
