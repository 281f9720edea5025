"""What debiasing cost: the leakage left, self- and cross-utility as measured, and their bounds."""

from __future__ import annotations

from typing import Any

import numpy as np

from equipoise._audit.results import CrossFindings, MethodCertificate
from equipoise._certificate import Certificate, certify, cross_bound
from equipoise._documents import plain
from equipoise._space import AttributeSpace
from equipoise.evaluation._estimates import gated
from equipoise.methods._balanced_operator import BalancedOperator
from equipoise.methods._balanced_page import PageCertificate
from equipoise.methods._spaces import SpaceOperator

PAIRED = 2000  # images whose similarities to every prompt are compared, before and after


def leakage(rows: np.ndarray, space: AttributeSpace) -> np.ndarray:
    """Return the length of the part of each unit row that lies in the space: (n,)."""
    return np.linalg.norm(rows @ space.basis.astype(rows.dtype), axis=1).astype(np.float64)


def self_loss(rows: np.ndarray, changed: np.ndarray) -> np.ndarray:
    """Return 1 - <u, e> of each pair of unit rows, computed as |u - e|^2 / 2: (n,)."""
    difference = changed - rows
    return np.einsum("ij,ij->i", difference, difference, dtype=np.float64) / 2


def certificate(
    operator: Any, images: np.ndarray | None, texts: np.ndarray, prompts: list[str]
) -> MethodCertificate:
    """Return what was measured, and what is guaranteed where the operator works in one space.

    An entry is None where there is no guarantee. "cross" compares similarities before and after,
    and says how far they spread within a prompt before.
    "search" and "pages" are there where a method balances pages: what they come to, and the
    certificate of each prompt's page.
    """
    space = getattr(operator, "space", None)
    if not isinstance(space, AttributeSpace):
        space = None
    bounded = space if isinstance(operator, SpaceOperator) else None
    u_texts = np.asarray(operator.text(texts, prompts, **gated(operator, None)))
    of_texts = told_texts = told_images = cross = search = pages = None
    if bounded is not None:
        of_texts = certify(texts, bounded, u=u_texts)
        if "text" in operator.changes:
            told_texts = plain(of_texts.summary())
        if images is not None and "image" in operator.changes:
            u_images = np.asarray(operator.image(images))
            told_images = plain(certify(images, bounded, u=u_images).summary())
    if images is not None:
        cross = _cross(operator, bounded, images, texts, u_texts, of_texts)
    if isinstance(operator, BalancedOperator):
        found = operator.certificates(texts, prompts)
        search, pages = _search(operator, found), plain([page.to_dict() for page in found])
    return MethodCertificate(
        space=None if space is None else space.fingerprint,
        images=told_images,
        texts=told_texts,
        cross=cross,
        search=search,
        pages=pages,
    )


def _cross(
    operator: Any,
    space: AttributeSpace | None,
    images: np.ndarray,
    texts: np.ndarray,
    u_texts: np.ndarray,
    of_texts: Certificate | None,
) -> CrossFindings:
    """Return how far similarities moved, and their bound where there is one."""
    places = np.linspace(0, len(images) - 1, min(PAIRED, len(images)))
    some = images[places.astype(int)]
    u_some = np.asarray(operator.image(some))
    before = _similarities(some, texts)
    moved = np.abs(_similarities(u_some, u_texts) - before)
    largest = within = None
    if space is not None and of_texts is not None:
        bound = cross_bound(certify(some, space, u=u_some), of_texts)
        largest = float(bound.max())
        within = bool((moved <= bound).all())
    return CrossFindings(
        images=len(some),
        prompts=len(texts),
        mean=float(moved.mean()),
        largest=float(moved.max()),
        spread=float(before.std(0).mean()),
        bound=largest,
        within=within,
    )


def _search(operator: BalancedOperator, pages: list[PageCertificate]) -> dict[str, Any]:
    """Return what the certificates of balanced pages come to."""
    kept = [page.kept for page in pages]
    return plain(
        {
            "k": operator.options.k,
            "n": len(pages),
            "target": dict(pages[0].target),
            "strength": operator.options.strength,
            "exact": sum(page.exact for page in pages),
            "out_of_reach": sum(page.nearest is not None for page in pages),
            "doubt": pages[0].doubt,
            "kept": {"mean": float(np.mean(kept)), "least": min(kept)},
            "kept_of_bound": {"least": min(page.kept_of_bound for page in pages)},
            "gap": {"largest": max(page.gap for page in pages)},
            "move": {"largest": max(page.largest_move for page in pages)},
        }
    )


def _similarities(images: np.ndarray, texts: np.ndarray) -> np.ndarray:
    """Return the similarity of each image to each text, in double precision."""
    return images.astype(np.float64) @ texts.T.astype(np.float64)
