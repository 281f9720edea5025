"""The galleries of the page: what the prompts of largest skew find, by every method and kappa."""

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
    """Return the gallery's document, and a small JPEG of every image in it.

    The document is None where the source has no pictures that can be read. lists: what each method
    finds. tops: what the dials find.
    """
    if index.source.pictures is None:
        return None, {}
    worst = _worst_prompts(prompts, settings.gallery_prompts)
    firsts = [top[:, : settings.gallery] for top in lists.values()]
    needed = _images_of(worst, [*firsts, *tops])
    pictures = {}
    for image in needed:
        given = index.source.pictures[index.lines[image]]
        picture = None if given is None else small(given)
        if picture is not None:
            pictures[image] = picture
    if not pictures:
        return None, {}
    names = index.source.names
    images = {
        image: {"name": names[index.lines[image]], "group": int(index.groups.codes[image])}
        for image in needed
    }
    entries = []
    for prompt in worst:
        found = [first[prompt].tolist() for first in firsts]
        entries.append({"prompt": prompt, "found": found})
    return {"shown": settings.gallery, "prompts": entries, "images": images}, pictures


def _worst_prompts(prompts: Sequence[dict[str, Any]], most: int) -> list[int]:
    """Return the places of the prompts of largest skew before debiasing."""

    def skew(place: int) -> float:
        return prompts[place]["max_skew"][0]["value"]

    return sorted(range(len(prompts)), key=skew, reverse=True)[:most]


def _images_of(prompts: Sequence[int], tops: Sequence[np.ndarray]) -> list[int]:
    """Return the images that these lists hold for these prompts, each once."""
    found: set[int] = set()
    for top in tops:
        for prompt in prompts:
            found.update(top[prompt].tolist())
    return sorted(found)
