"""The galleries of the page: what the prompts of largest skew find, by every method and kappa."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from equipoise._audit.documents import small
from equipoise._audit.fitted_methods import Index
from equipoise._audit.plan import AuditSettings
from equipoise._audit.results import GalleryEntry, GalleryFindings, GalleryImage


def gallery(
    index: Index,
    skews: np.ndarray,
    lists: dict[str, np.ndarray],
    tops: Sequence[np.ndarray],
    settings: AuditSettings,
) -> tuple[GalleryFindings | None, dict[int, bytes]]:
    """Return the gallery's document, and a small JPEG of every image in it.

    The document is None where the source has no pictures that can be read. skews: of the prompts,
    before debiasing. lists: what each method finds. tops: what the dials find.
    """
    if index.source.pictures is None:
        return None, {}
    worst = np.argsort(-skews, kind="stable")[: settings.gallery_prompts].tolist()
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
    images = {}
    for image in needed:
        name, group = names[index.lines[image]], index.groups.codes[image]
        images[str(image)] = GalleryImage(name=name, group=int(group))
    entries = []
    for prompt in worst:
        found = [first[prompt].tolist() for first in firsts]
        entries.append(GalleryEntry(prompt=prompt, found=found))
    return GalleryFindings(shown=settings.gallery, prompts=entries, images=images), pictures


def _images_of(prompts: Sequence[int], tops: Sequence[np.ndarray]) -> list[int]:
    """Return the images that these lists hold for these prompts, each once."""
    found: set[int] = set()
    for top in tops:
        for prompt in prompts:
            found.update(top[prompt].tolist())
    return sorted(found)
