"""Statistical parity of generated images: how far the groups are from equal shares."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from equipoise.errors import InputError
from equipoise.metrics._labels import encode


def statistical_parity(labels: Any, *, groups: Sequence[Hashable]) -> float:
    """Return the distance of the groups' shares from equal ones, from 0 to sqrt(1 - 1/groups).

    The most is 0.7071 for two groups. labels: the group of each image. groups: all groups, also
    those that no image shows. Unknown labels are left out.
    """
    if isinstance(groups, str) or len(groups) < 2 or len(set(groups)) != len(groups):
        raise InputError(f"groups={groups!r} is not legal; pass two or more different groups")
    coded = encode(labels, "labels")
    strangers = [label for label in coded.labels if label not in groups]
    if strangers:
        raise InputError(
            f"labels hold {strangers}, which are none of the groups {list(groups)}; name them, or"
            " mark them unknown"
        )
    if not coded.labels:
        raise InputError("no label names a group; there is nothing to measure")
    shares = coded.sizes / coded.sizes.sum()
    missing = len(groups) - len(shares)
    return float(np.sqrt(((shares - 1 / len(groups)) ** 2).sum() + missing / len(groups) ** 2))
