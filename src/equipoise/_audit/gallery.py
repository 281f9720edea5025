"""The galleries of the page: what the prompts of largest skew find, by every method and at every
kappa of the dials.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from equipoise._audit.documents import small
from equipoise._audit.fitted_methods import Index
from equipoise._audit.plan import AuditSettings


def gallery(
    index: Index,
    prompts: Sequence[dict[str, Any]],
    lists: dict[str, np.ndarray],
    tops: Sequence[np.ndarray],
    settings: AuditSettings,
) -> tuple[dict[str, Any] | None, dict[int, bytes]]:
    """The document, and a small JPEG of every image in it; None where the source has no pictures
    that can be read.
    """
    if index.source.pictures is None:
        return None, {}
    shown = settings.gallery
    worst = sorted(range(len(prompts)), key=lambda i: -prompts[i]["max_skew"][0]["value"])[
        : settings.gallery_prompts
    ]
    firsts = [top[:, :shown] for top in lists.values()]
    needed = sorted({int(i) for q in worst for top in (*firsts, *tops) for i in top[q]})
    pictures = {i: small(index.source.pictures[index.lines[i]]) for i in needed}
    kept = {i: data for i, data in pictures.items() if data is not None}
    if not kept:
        return None, {}
    names = index.source.names
    images = {
        i: {"name": names[index.lines[i]], "group": int(index.groups.codes[i])} for i in needed
    }
    entries = [{"prompt": q, "found": [first[q].tolist() for first in firsts]} for q in worst]
    return {"shown": shown, "prompts": entries, "images": images}, kept
