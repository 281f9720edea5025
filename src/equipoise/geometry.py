"""The mathematics: attribute spaces, the closed form, and what it guarantees. No I/O, no framework.

A unit embedding ``e`` splits into a part inside the attribute space and a neutral part, of lengths
``p`` and ``o`` (``p**2 + o**2 = 1``): ``e`` stands at the angle theta from its neutral part, ``p =
sin(theta)``, ``o = cos(theta)``. The debiased ``u`` lies on the same arc, at a smaller angle phi.
Its leakage is ``L = sin(phi)``, its self-utility loss ``V = 1 - cos(theta - phi)``.

The functions of one row take ``p2 = p**2`` and ``o``, and a ``sqrt``, because the kernels share
them: numpy, torch and jax pass arrays, numba compiles them for numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from equipoise.errors import InputError

Array = Any  # numpy array, torch tensor, jax array or a number: only operators are used on it
Float64 = NDArray[np.float64]

NEAR = 0.25
"""A rest shorter than this fraction of its row is taken twice (see ``outside``): after once, its
part inside the space is up to eps / o of it, which would show in lengths and leakages.
"""

RANK_TOLERANCE = 1e-5
"""Singular values under this fraction of the largest one are dropped: above float32's noise, below
any real direction.
"""

IDENTICAL = 1e-6
"""Unit prototypes that differ by less than this are the same prototype, as far as float32 encoders
can tell; a mean this short is none.
"""

TINY = 1e-20
"""Keeps a division by zero out of a value or a gradient; a leakage of this size is zero."""

TINY2 = 1e-30
"""The same under a square root, where float32 must still hold it as a normal number."""


# --- The closed form (Theorem 1), with half-angles so that no term cancels


def half_angle(p2: Array, o: Array, kappa: Array, sqrt: Callable) -> tuple[Array, Array]:
    """Return ``(shrink, beta)``, for which ``u = (beta / o) * e_perp + shrink * e_par`` minimises
    ``max(kappa * L / p, V / (1 - o))``.

    kappa = 1 is the paper's minimax point, 0 the identity, infinity the orthogonal projection.
    """
    t2 = p2 / ((1 + o) * (1 + o))  # tan(theta/2)^2
    k = kappa * (1 + t2)
    g = 2 / (2 + k + sqrt(k) * sqrt(4 + k))  # tan(phi/2) = g * tan(theta/2)
    x2 = t2 * g * g  # tan(phi/2)^2
    return g * (1 + t2) / (1 + x2), (1 - x2) / (1 + x2)  # sin(phi) / p, cos(phi)


def self_loss(p2: Array, o: Array, kappa: Array, sqrt: Callable) -> Array:
    """Return V of the closed form, ``1 - cos(theta - phi)``, with ``1 - g`` written without its
    cancellation.
    """
    t2 = p2 / ((1 + o) * (1 + o))
    k = kappa * (1 + t2)
    root = sqrt(k) * sqrt(4 + k)
    g = 2 / (2 + k + root)
    one_minus_g = 1 / (1 + 2 / (k + root + TINY))
    y = one_minus_g / (1 + t2 * g)
    y2 = t2 * y * y  # tan((theta - phi)/2)^2
    return 2 * y2 / (1 + y2)


# --- Every preference is a kappa


def printed_kappa(p2: Array, o: Array, sqrt: Callable) -> Array:
    """Return the kappa of problem (4) as the paper prints it, ``min max(L, V)``, without the
    proof's rescaling.
    """
    return (1 + o) / sqrt(p2 + TINY2)


def weighted_kappa(p2: Array, o: Array, ratio: Array, sqrt: Callable) -> Array:
    """Return the kappa of problems (1)-(3), ``min w1 L + w2 V`` with ``ratio = w1 / w2``: its
    ``tan(phi) = max(0, p - ratio) / o``.
    """
    p = sqrt(p2 + TINY2)
    s = (p - ratio + abs(p - ratio)) / 2 + TINY  # max(0, p - ratio), for numbers and arrays alike
    h = sqrt(s * s + o * o)
    return ratio * ratio * o * o * (1 + o) / (p * s * (h + o * o + p * s))


# --- Where a floating-point type stops


class Limits(NamedTuple):
    """Where a floating-point type stops being trustworthy."""

    # Squared lengths outside [small, large] are computed again, on the row times up or 1 / up.
    small: float
    large: float
    up: float
    # Where o is no more than this, it is rounding: the row is pure attribute (Proposition 2,
    # case B) and stays as it is.
    pure: float
    # A squared length this close to 1 is unit length, as far as the type can hold it, or the
    # float16 that it may come from.
    unit: float
    # The spacing of numbers just above 1.
    eps: float


_EPS = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}


def _limits(dtype: str) -> Limits:
    eps, wide = _EPS[dtype], _EPS["float64" if dtype == "float64" else "float32"]
    small, large, up = (1e-200, 1e200, 2.0**600) if dtype == "float64" else (1e-28, 1e28, 2.0**100)
    unit = 8 * max(eps, _EPS["float16"])
    return Limits(small, large, up, pure=eps + 8 * wide, unit=unit, eps=eps)


_LIMITS = {dtype: _limits(dtype) for dtype in _EPS}


def limits(dtype: str) -> Limits:
    """Return the limits of rows stored as ``dtype``; float16 and bfloat16 compute in float32."""
    return _LIMITS[dtype]


def row_scale(n2: Array, one: Array, where: Callable, limits: Limits) -> Array:
    """Return a power of two that brings a row whose squared length under- or overflows back into
    range; 1 for ordinary rows.
    """
    return where(n2 < limits.small, limits.up * one, where(n2 > limits.large, one / limits.up, one))


# --- Prototypes and the attribute space


def unit(x: Float64) -> Float64:
    """Return rows of length one; rows of extreme length are safe."""
    x = x / np.abs(x).max(axis=-1, keepdims=True)
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def prototype(embeddings: Float64) -> Float64:
    """Return the spherical mean of a group's embeddings: (d,) or (m, d) in, the normalised sum of
    the unit rows out.
    """
    rows = unit(np.atleast_2d(embeddings))
    total = rows.sum(axis=0)
    if np.linalg.norm(total) <= IDENTICAL * len(rows):  # rounding would choose the direction
        raise InputError(
            "the embeddings of a group cancel each other out, so it has no prototype; pass"
            " embeddings that have a common direction"
        )
    return unit(total)


def attribute_basis(
    prototypes: Float64, tolerance: float = RANK_TOLERANCE
) -> tuple[Float64, Float64]:
    """Return an orthonormal basis (d, r) of the span of prototype differences, and all singular
    values, from (groups, d) unit rows.

    Centred on their mean, so that no group is the reference.
    """
    return _span(prototypes - prototypes.mean(axis=0), tolerance, len(prototypes) - 1)


def union_basis(bases: list[Float64], tolerance: float = RANK_TOLERANCE) -> tuple[Float64, Float64]:
    """Return a basis of the sum of several subspaces. Orthonormal bases go in, so that a weak
    attribute is not cut beside a strong one.
    """
    return _span(np.concatenate(bases, axis=1).T, tolerance, sum(basis.shape[1] for basis in bases))


def span_basis(rows: Float64, tolerance: float = RANK_TOLERANCE) -> Float64:
    """Return an orthonormal basis (d, r) of what rows (n, d) span, without centring them."""
    return _span(rows, tolerance, len(rows))[0]


def _span(rows: Float64, tolerance: float, most: int) -> tuple[Float64, Float64]:
    left, singular, _ = np.linalg.svd(rows, full_matrices=False)
    if singular[0] <= IDENTICAL:
        raise InputError(
            f"the prototypes are identical (they differ by at most {singular[0]:.1e}), so they span"
            " no attribute space; pass prototypes of groups that the encoder tells apart"
        )
    # Rounding alone leaves this much of a direction that is not there.
    noise = _EPS["float64"] * max(rows.shape)
    rank = min(most, int((singular > max(tolerance, noise) * singular[0]).sum()))
    # The rows' own combinations, made orthonormal, are closer to their span by a digit than the
    # right vectors of the SVD.
    return np.linalg.qr(rows.T @ left[:, :rank])[0], singular


# --- What is guaranteed


def split(e: Float64, basis: Float64) -> tuple[Float64, Float64]:
    """Return ``(p, o)`` of each row of ``e`` (any length). o comes from the residual, so that it is
    right where p is near 1.
    """
    e = unit(e)
    c = e @ basis
    return np.linalg.norm(c, axis=-1), np.linalg.norm(outside(e, c, basis), axis=-1)


def outside(e: Array, c: Array, basis: Array) -> Array:
    """Return the part of rows ``e`` outside the space, given their coordinates c in it.

    The part inside is taken away twice. After once, rounding leaves eps of it, which is no less
    than a short rest itself; after twice, eps of the rest.
    """
    rest = e - c @ basis.T
    return rest - (rest @ basis) @ basis.T


def leakage_and_loss(p: Float64, o: Float64, kappa: Array) -> tuple[Float64, Float64]:
    """Return ``(L, V)`` that the closed form gives for a row split into p and o."""
    p2 = p * p
    return p * half_angle(p2, o, kappa, np.sqrt)[0], self_loss(p2, o, kappa, np.sqrt)


def pareto_front(p: float, points: int = 101) -> tuple[Float64, Float64]:
    """Return ``points`` pairs (L, V) of Lemma 2, from the projection (0, 1 - o) to the identity (p,
    0), for a row with this p.
    """
    theta = np.arcsin(p)
    phi = np.linspace(0, theta, points)
    return np.sin(phi), 2 * np.sin((theta - phi) / 2) ** 2


def group_gap_bound(leakage: Float64, prototypes: Float64, basis: Float64) -> Float64:
    """Return how far ``<u, p_g>`` and ``<u, p_h>`` can differ, over all pairs of groups, for rows
    of this leakage.

    ``L * |p_g - p_h|`` plus what the rank cut dropped of ``p_g - p_h``.
    """
    first, second = np.triu_indices(len(prototypes), 1)
    difference = prototypes[first] - prototypes[second]
    dropped = np.linalg.norm(difference - (difference @ basis) @ basis.T, axis=-1)
    return (np.multiply.outer(leakage, np.linalg.norm(difference, axis=-1)) + dropped).max(axis=-1)


def cross_utility_bound(chord_image: Float64, chord_text: Float64) -> Float64:
    """Return ``2 sin((delta_I + delta_T) / 2)``, with the angles delta that the two chords ``|u -
    e|`` span (below Proposition 1's sum).
    """
    angle = np.arcsin(np.minimum(chord_image / 2, 1)) + np.arcsin(np.minimum(chord_text / 2, 1))
    return 2 * np.sin(np.minimum(angle, np.pi / 2))
