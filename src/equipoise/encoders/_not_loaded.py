"""The error of a model that could not be loaded: what was asked, what is nearest, what to do."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from equipoise._near_names import nearest
from equipoise.errors import InputError


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
