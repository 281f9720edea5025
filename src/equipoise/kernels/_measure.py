"""Measuring what debiasing did, in float64, from the rows before and after: what a certificate is
made of.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from equipoise import geometry
from equipoise.geometry import Float64
from equipoise.kernels import _host as host
from equipoise.kernels._recipe import LowRank

BLOCK_BYTES = 1 << 24
Columns = tuple[Float64, Float64, Float64, Float64, Float64, Float64]


def measure(e: Any, u: Any, low_rank: LowRank) -> Columns:
    """Return ``p, o`` of each row of e, leakage of u, ``|u - e|`` of the unit rows, ``|e|`` and
    ``|u|``: (n,) each.

    NaN for rows without a direction. e and u (..., d) of one framework; ``low_rank`` is a
    projection. Fused on the CPU, in blocks on the tensors' own device elsewhere.
    """
    e, u = (_rows(x) for x in (e, u))
    if isinstance(e, np.ndarray) and isinstance(u, np.ndarray) and host.can_measure(e, u):
        return tuple(host.measure(e, u, low_rank))  # pyright: ignore[reportReturnType]
    columns = [_block(a, b, low_rank.right) for a, b in _blocks(e, u)]
    return (
        tuple(np.concatenate(column) for column in zip(*columns, strict=True))
        if columns
        else (np.zeros(0),) * 6
    )  # pyright: ignore


def to_numpy(x: Any) -> np.ndarray:
    """Return any array as numpy; tensors pass through float64, because numpy has no bfloat16."""
    return x.detach().cpu().double().numpy() if hasattr(x, "detach") else np.asarray(x)


def _rows(x: Any) -> Any:
    """Return rows (n, d), as numpy where the memory can be shared."""
    if not hasattr(x, "detach"):
        return np.asarray(x).reshape(-1, x.shape[-1])
    x = x.detach().reshape(-1, x.shape[-1])
    return x.numpy() if x.device.type == "cpu" and str(x.dtype) != "torch.bfloat16" else x


def _blocks(*arrays: Any) -> Iterator[tuple[Any, ...]]:
    step = max(1, BLOCK_BYTES // (8 * arrays[0].shape[1]))
    for start in range(0, len(arrays[0]), step):
        yield tuple(_double(a[start : start + step]) for a in arrays)


def _double(a: Any) -> Any:
    if isinstance(a, np.ndarray):
        return a.astype(np.float64)
    return to_numpy(a) if a.device.type in ("cpu", "mps") else a.double()  # MPS has no float64


def _block(e: Any, u: Any, basis: Any) -> Columns:
    if not isinstance(e, np.ndarray):
        import torch

        basis = torch.as_tensor(basis, device=e.device)
    with np.errstate(all="ignore"):
        e, before = _unit(e)
        u, after = _unit(u)
        c = e @ basis
        o = _norm(e - c @ basis.T)
        near = o[:, 0] < geometry.NEAR
        if near.any():
            o[near] = _norm(geometry.outside(e[near], c[near], basis))
        columns = (_norm(c), o, _norm(u @ basis), _norm(u - e), before, after)
    return tuple(to_numpy(column)[:, 0] for column in columns)  # pyright: ignore[reportReturnType]


def _norm(x: Any) -> Any:
    return (x * x).sum(-1)[:, None] ** 0.5


def _unit(x: Any) -> tuple[Any, Any]:
    """Unit rows and lengths (n, 1); NaN for rows without a direction."""
    largest = (abs(x).max(-1) if isinstance(x, np.ndarray) else abs(x).amax(-1))[:, None]
    scaled = x / largest
    n = _norm(scaled)
    return scaled / n, n * largest
