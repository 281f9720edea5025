"""Operations that operators need on rows of any framework: unit length, and constants of the rows' own kind."""

from __future__ import annotations

from typing import Any

import numpy as np

from equipoise import kernels


def normalised(rows: Any) -> Any:
    """Rows (..., d) of unit length, in their own type; zero, NaN and infinite rows stay as they are."""
    if kernels.framework(rows) == "numpy":
        lengths = np.sqrt(np.einsum("...d,...d->...", rows, rows, dtype=np.float64, casting="unsafe"))[..., None]
        ordinary = (lengths > 1e-100) & (lengths < 1e100)
        if not ordinary.all():  # squares that vanish or overflow, and rows without a direction
            largest = np.abs(rows).max(-1, keepdims=True).astype(np.float64)
            safe = np.where((largest > 0) & np.isfinite(largest), largest, 1.0)
            lengths = np.where(ordinary, lengths, safe * np.linalg.norm(rows / safe, axis=-1, keepdims=True))
            lengths = np.where((lengths > 0) & np.isfinite(lengths), lengths, 1.0)
        return (rows / lengths).astype(rows.dtype, copy=False) if rows.dtype == np.float64 else rows * (1 / lengths).astype(rows.dtype)
    lengths = (rows * rows).sum(-1)[..., None] ** 0.5
    ordinary = (lengths > 0) & (lengths < float("inf"))
    return rows / (lengths * ordinary + ~ordinary) if kernels.framework(rows) == "jax" else rows / lengths.masked_fill(~ordinary, 1.0)


def constant(values: np.ndarray, like: Any) -> Any:
    """Numbers as an array of the framework, type and device of ``like``."""
    return like.new_tensor(values.tolist()) if kernels.framework(like) == "torch" else values.astype(like.dtype)
