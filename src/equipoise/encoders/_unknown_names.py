"""Errors for unknown names: what was asked, what is nearest, what to do."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable
from pathlib import Path

from equipoise.errors import InputError


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


def cannot_load(scheme: str, name: str, known: Iterable[str], error: Exception) -> InputError:
    """Return the error of a model that could not be loaded.

    There is no such folder, no such id, or no way to reach the hub.
    """
    reason = " ".join(str(error).split())[:300]
    if Path(name).exists() or name.startswith((".", os.path.sep, "~")):
        return InputError(
            f"{scheme}:{name} could not be loaded from that folder ({reason}); it must hold what"
            " save_pretrained writes"
        )
    return InputError(
        f"{scheme}:{name} could not be loaded ({reason}){nearest(name, known) or '.'} Where the hub"
        f" cannot be reached, copy the model's files to a folder and pass {scheme}:FOLDER"
    )
