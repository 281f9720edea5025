"""What debiasing cost: leakage that is left, self- and cross-utility on the very numbers produced,
and their bounds.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from equipoise._certificate import certify, cross_bound
from equipoise._space import AttributeSpace
from equipoise.methods._spaces import SpaceOperator

PAIRED = 2000  # images whose similarities to every prompt are compared, before and after


def leakage(rows: np.ndarray, space: AttributeSpace) -> np.ndarray:
    """(n,): length of the part of each unit row that lies in the space."""
    return np.linalg.norm(rows @ space.basis.astype(rows.dtype), axis=1).astype(np.float64)


def self_loss(rows: np.ndarray, changed: np.ndarray) -> np.ndarray:
    """(n,): 1 - <u, e> of unit rows, as |u - e|^2 / 2."""
    difference = changed - rows
    return np.einsum("ij,ij->i", difference, difference, dtype=np.float64) / 2


def certificate(
    operator: Any, images: np.ndarray | None, texts: np.ndarray, prompts: list[str]
) -> dict[str, Any]:
    """What is measured and what is guaranteed, where the operator works in one attribute space;
    null where there is no guarantee.
    """
    space = getattr(operator, "space", None)
    bounded = isinstance(operator, SpaceOperator) and isinstance(space, AttributeSpace)
    u_texts = np.asarray(operator.text(texts, prompts))
    document: dict[str, Any] = {
        "space": space.fingerprint if isinstance(space, AttributeSpace) else None,
        "images": None,
        "texts": None,
    }
    c_text = (
        certify(texts, space, u=u_texts) if bounded and isinstance(space, AttributeSpace) else None
    )
    if c_text is not None and "text" in operator.changes:
        document["texts"] = c_text.summary()
    document["cross"] = None
    if images is None:
        return document
    some = images[np.linspace(0, len(images) - 1, min(PAIRED, len(images))).astype(int)]
    u_some = np.asarray(operator.image(some))
    moved = np.abs(
        u_some.astype(np.float64) @ u_texts.T.astype(np.float64)
        - some.astype(np.float64) @ texts.T.astype(np.float64)
    )
    document["cross"] = {
        "images": len(some),
        "prompts": len(texts),
        "mean": float(moved.mean()),
        "largest": float(moved.max()),
    }
    if c_text is not None and isinstance(space, AttributeSpace):
        if "image" in operator.changes:
            document["images"] = certify(
                images, space, u=np.asarray(operator.image(images))
            ).summary()
        bound = cross_bound(certify(some, space, u=u_some), c_text)
        document["cross"] |= {"bound": float(bound.max()), "within": bool((moved <= bound).all())}
    return document
