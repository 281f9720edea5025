"""Kernels, chosen by the array's own type.

A framework is never imported here unless the user already did.

``which(e)`` names the one that an array gets: "numba" or "numpy", "triton", "torch" or "jax".
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from equipoise.errors import InputError
from equipoise.kernels import _host as host
from equipoise.kernels._invalid import InvalidRows, MarkedRows, without_direction
from equipoise.kernels._measure import measure
from equipoise.kernels._recipe import LowRank, Norm, Preference

__all__ = [
    "InvalidRows",
    "LowRank",
    "Preference",
    "debias",
    "debias_and_count",
    "dtype_name",
    "framework",
    "measure",
    "usual",
    "which",
    "without_direction",
]


def framework(e: Any) -> str:
    """Return "numpy", "torch" or "jax", looked up among the modules that are already loaded."""
    if isinstance(e, np.ndarray):
        return "numpy"
    if (torch := sys.modules.get("torch")) and isinstance(e, torch.Tensor):
        return "torch"
    if (jax := sys.modules.get("jax")) and isinstance(e, jax.Array):
        return "jax"
    advice = "try numpy.asarray(...)"
    if hasattr(e, "files"):
        advice = "pick an array of it by name"
    elif isinstance(e, str) or (isinstance(e, list | tuple) and e and isinstance(e[0], str)):
        advice = "encode texts first: encoder.encode_text([...])"
    raise InputError(
        "embeddings must be a numpy array, a torch tensor or a jax array, and this is"
        f" {type(e).__name__}; {advice}"
    )


def dtype_name(e: Any) -> str:
    """Return the dtype's name, checked against what the kernels take."""
    if isinstance(e, np.ma.MaskedArray):
        raise InputError(
            "masked arrays hide rows that would be debiased all the same; drop the masked rows, or"
            " pass e.data"
        )
    if framework(e) == "torch" and (e.is_sparse or e.is_meta or e.is_neg()):
        raise InputError(
            "sparse, meta and negative-view tensors have no plain rows; pass a dense tensor"
            " (e.to_dense(), e.resolve_neg())"
        )
    name = _dtype_name(e)
    if name not in host.DTYPES:
        raise InputError(
            f"embeddings of dtype {name} cannot be debiased; convert them to one of"
            f" {', '.join(host.DTYPES)}"
        )
    return name


def _dtype_name(e: Any) -> str:
    kind = framework(e)
    if kind == "numpy":
        return host.name_of(e.dtype)
    return str(e.dtype).removeprefix("torch.") if kind == "torch" else e.dtype.name


def which(e: Any) -> str:
    """Return the kernel that ``debias`` uses for this array."""
    kind, dtype = framework(e), dtype_name(e)
    if kind == "numpy":
        return host.kernel_name(dtype)
    if kind == "torch":
        from equipoise.kernels import _torch as torch

        return torch.kernel_name(e)
    return "jax"


def debias(e: Any, low_rank: LowRank, preference: Preference, norm: Norm, out: Any = None) -> Any:
    """Split every row of e (..., d) by ``low_rank``, and weigh it by ``preference``.

    Rows without a direction (zero, NaN, infinite) come back as they were, and nobody counts them.
    """
    kind = framework(e)
    if kind == "torch":
        from equipoise.kernels import _torch as torch

        return torch.debias(e, low_rank, preference, norm, out)
    if kind == "jax":
        from equipoise.kernels import _jax as jax

        return jax.debias(e, low_rank, preference, norm)[0]
    return _debias_numpy(e, low_rank, preference, norm, out)[0]


def usual(
    e: Any, low_rank: LowRank, kappa: float, norm: Norm, out: Any, counts: bool
) -> tuple[Any, InvalidRows] | None:
    """Debias rows for which a call before has made all ready; return None for all others.

    counts: whether the rows without a direction are to be counted.
    """
    torch = sys.modules.get("torch")
    if torch is None or type(e) is not torch.Tensor:
        return None
    from equipoise.kernels import _torch as torch_kernels

    return torch_kernels.usual(e, low_rank, "kappa", kappa, norm, out, counts)


def debias_and_count(
    e: Any, low_rank: LowRank, preference: Preference, norm: Norm, out: Any = None
) -> tuple[Any, InvalidRows]:
    """Return what ``debias`` returns, and the rows without a direction."""
    kind = framework(e)
    if kind == "torch":
        from equipoise.kernels import _torch as torch

        return torch.debias_and_count(e, low_rank, preference, norm, out)
    if kind == "jax":
        from equipoise.kernels import _jax as jax

        u, bad = jax.debias(e, low_rank, preference, norm)
    else:
        u, bad = _debias_numpy(e, low_rank, preference, norm, out)
    return u, MarkedRows(bad)


def _debias_numpy(
    e: np.ndarray, low_rank: LowRank, preference: Preference, norm: Norm, out: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    if preference.kind == "kappa" and preference.constant is None:
        preference = Preference(
            "kappa", np.broadcast_to(preference.value, e.shape[:-1]).reshape(-1)
        )
    result = np.empty(e.shape, e.dtype) if out is None else out
    if result.flags.c_contiguous or result.ndim == 2:
        bad = host.debias(host.rows_of(e), host.rows_of(result), low_rank, preference, norm)
    else:
        flat = np.empty((e[..., 0].size, e.shape[-1]), e.dtype)
        bad = host.debias(host.rows_of(e), flat, low_rank, preference, norm)
        result[...] = flat.reshape(e.shape)
    return result, bad.reshape(e.shape[:-1])
