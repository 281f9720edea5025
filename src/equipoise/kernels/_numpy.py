"""The kernel without a compiler: blocks of rows that fit the cache, in float64."""

from __future__ import annotations

import numpy as np

from equipoise import geometry

BLOCK_BYTES = 1 << 18


def debias_rows(x, out, low_rank, preference, value, norm, dtype) -> np.ndarray:
    """Debias all rows of x (n, d) into out; return which rows have no direction and were left as
    they were.
    """
    bad = np.zeros(len(x), bool)
    step = max(1, BLOCK_BYTES // (8 * x.shape[1]))
    for start in range(0, len(x), step):
        rows = slice(start, start + step)
        one = value[rows] if value.size > 1 else value
        out[rows], bad[rows] = _block(x[rows], low_rank, preference, one[:, None], norm, dtype)
    return bad


def _block(x, low_rank, preference, value, norm, dtype):
    low, wide = geometry.limits(dtype), geometry.limits("float64")
    with np.errstate(all="ignore"):
        e = x.astype(np.float64)
        n2 = (e * e).sum(axis=1, keepdims=True)
        scale = geometry.row_scale(n2, np.ones_like(n2), np.where, wide)
        if (scale != 1).any():
            e = e * scale
            n2 = (e * e).sum(axis=1, keepdims=True)
        n = np.sqrt(n2)
        c = e @ low_rank.right
        taken = c @ low_rank.left.T
        if low_rank.bias is not None:
            taken += n * low_rank.bias
        rest = e - taken
        p2 = (c * c).sum(axis=1, keepdims=True) / n2
        o = np.sqrt((rest * rest).sum(axis=1, keepdims=True) / n2)
        near = o[:, 0] < geometry.NEAR
        if low_rank.is_projection and near.any():
            again = geometry.outside(e[near], c[near], low_rank.right)
            rest[near] = again
            o[near] = np.sqrt((again * again).sum(axis=1, keepdims=True) / n2[near])
        kappa = value if preference.kind == "kappa" else preference.kappa(p2, o, np.sqrt)
        shrink, beta = geometry.half_angle(p2, o, kappa, np.sqrt)
        if norm == "raw":
            beta = o
        factor = 1 / scale if norm == "keep" else 1 / n
        u = factor * np.where(o <= low.pure, e, (beta / o) * rest + shrink * taken)
        as_it_was = ~((n2 > 0) & (n2 < np.inf))
        bad = as_it_was[:, 0].copy()
        if preference.kind == "kappa":
            identity = (kappa == 0) & ~as_it_was
            u = np.where(identity, factor * e, u)
            as_it_was = as_it_was | (
                identity & ((norm == "keep") | (np.abs(n2 / scale**2 - 1) <= low.unit))
            )
        return np.where(as_it_was, x, u.astype(x.dtype)), bad
