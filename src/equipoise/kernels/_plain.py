"""The closed form in array operations, for torch and jax: what autograd differentiates, and what
runs where no fused kernel does.

``xp`` is the framework's namespace; right, left and bias already have the compute dtype and device.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from equipoise import geometry
from equipoise.geometry import Limits
from equipoise.kernels._recipe import Norm, Preference

Branch = Callable[[Any, Callable[[], Any], Callable[[], Any]], Any]


def debias(
    xp: Any,
    x: Any,
    matmul: Any,
    right: Any,
    left: Any,
    bias: Any,
    preference: Preference,
    norm: Norm,
    wide: Limits,
    low: Limits,
    branch: Branch | None = None,
):
    """Return ``(u, bad)`` for x (..., d) in the compute dtype; bad (...,) marks rows without a
    direction, which come back as they were.

    branch(wanted, twice, once): how the framework calls one of two functions; for projections,
    whose short rests are taken twice (see ``geometry.outside``). Every operation that a row cannot
    take has a safe stand-in, selected before it and not after: else its gradient is NaN.
    """
    n2 = _squared(x)
    one = xp.ones_like(n2)
    scale = geometry.row_scale(n2, one, xp.where, wide)
    e = x * scale
    n2 = _squared(e)
    bad = ~((n2 > 0) & (n2 < float("inf")))
    e = xp.where(bad, xp.ones_like(e), e)
    n2 = _squared(e)
    n = xp.sqrt(n2)
    e = e / n
    c = matmul(e, right)
    taken = matmul(c, left.T)
    if bias is not None:
        taken = taken + bias
    p2 = _squared(c)
    o2 = _squared(e - taken)

    def weighed(rest, o2):
        pure = o2 <= low.pure * low.pure
        o = xp.sqrt(xp.where(pure, one, o2))
        kappa = _kappa(xp, p2, o, preference)
        zero, infinite = kappa == 0, kappa == float("inf")
        shrink, beta = geometry.half_angle(p2, o, xp.where(zero | infinite, one, kappa), xp.sqrt)
        shrink, beta = xp.where(infinite, 0 * one, shrink), xp.where(infinite, one, beta)
        if norm == "raw":
            beta = o
        u = xp.where(pure | zero, e, (beta / o) * rest + shrink * taken)
        if norm == "keep":
            u = u * n / scale
        as_it_was = bad | (zero & ((norm == "keep") | (abs(n2 / (scale * scale) - 1) <= low.unit)))
        return xp.where(as_it_was, x, u)

    def once():
        return weighed(e - taken, o2)

    def twice():
        rest = e - taken
        rest = rest - matmul(matmul(rest, right), left.T)
        return weighed(rest, _squared(rest))

    near = geometry.NEAR * wide.eps / low.eps  # of wider numbers, rounding leaves that much less
    if branch is None or near <= low.pure:
        return once(), bad[..., 0]
    return branch((o2 < near * near).any(), twice, once), bad[..., 0]


def _squared(rows):
    return (rows * rows).sum(-1)[..., None]


def _kappa(xp, p2, o, preference):
    if preference.kind == "kappa":
        return (
            xp.full_like(p2, preference.constant)
            if preference.constant is not None
            else preference.value[..., None]
        )
    if preference.kind == "printed":
        return preference.kappa(p2, o, xp.sqrt)
    projected = p2 <= preference.value * preference.value
    safe = xp.where(projected, xp.ones_like(p2) * (1 + preference.value) ** 2, p2)
    return xp.where(projected, xp.ones_like(p2) * float("inf"), preference.kappa(safe, o, xp.sqrt))
