"""Small cells: groups, and classes of a group, with fewer images than a number should rest on."""

from __future__ import annotations

from typing import Any

from equipoise.metrics._labels import encode, encode_groups

FEWEST = 20
MARK = "†"
NOTE = f"{MARK} rests on fewer than {FEWEST} images: "


def small_groups(sensitive_features: Any) -> tuple[str, ...]:
    """Return "female 7" for each group of fewer than 20 images."""
    groups = encode_groups(sensitive_features)
    found = []
    for group, size in zip(groups.labels, groups.sizes.tolist(), strict=True):
        if 0 < size < FEWEST:
            found.append(f"{group} {size}")
    return tuple(found)


def small_cells(labels: Any, sensitive_features: Any) -> tuple[str, ...]:
    """Return "blond, male 7" for each class of a group that has fewer than 20 images."""
    classes, groups = encode(labels, "labels"), encode_groups(sensitive_features)
    found = []
    for place, label in enumerate(classes.labels):
        for code, group in enumerate(groups.labels):
            size = int(((classes.codes == place) & (groups.codes == code)).sum())
            if size < FEWEST:
                found.append(f"{label}, {group} {size}")
    return tuple(found)
