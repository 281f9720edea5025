"""jax arrays: the plain closed form, inside jit, grad and vmap, on any device."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from equipoise import geometry
from equipoise.kernels import _plain as plain
from equipoise.kernels._recipe import LowRank, Norm, Preference

_matmul = partial(jnp.matmul, precision=jax.lax.Precision.HIGHEST)  # never TF32 or bfloat16 passes


@partial(jax.jit, static_argnames=("kind", "norm", "projection"))
def _debias(x, right, left, bias, value, kind, norm, projection):
    dtype = x.dtype.name
    wide = jnp.float64 if dtype == "float64" else jnp.float32
    u, bad = plain.debias(
        jnp,
        x.astype(wide),
        _matmul,
        right,
        left,
        bias,
        Preference(kind, value),
        norm,
        geometry.limits(wide.__name__),
        geometry.limits(dtype),
        jax.lax.cond if projection else None,
    )
    return jnp.where(bad[..., None], x, u.astype(x.dtype)), bad


def debias(x: Any, low_rank: LowRank, preference: Preference, norm: Norm) -> tuple[Any, Any]:
    """Return ``(u, bad)`` for x (..., d)."""
    wide = np.float64 if x.dtype.name == "float64" else np.float32
    right, left = low_rank.right.astype(wide), low_rank.left.astype(wide)
    bias = None if low_rank.bias is None else low_rank.bias.astype(wide)
    value = jnp.asarray(preference.value, wide)
    if preference.kind == "kappa":
        value = jnp.broadcast_to(value, x.shape[:-1])
    return _debias(x, right, left, bias, value, preference.kind, norm, low_rank.is_projection)


def traced(x: Any) -> bool:
    """Inside jit, vmap or grad an array is more than its memory."""
    return isinstance(x, Tracer)
