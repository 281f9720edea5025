"""Exact search in a torch tensor: on its own GPU, or as numpy where it lies in the CPU's memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from equipoise import kernels
from equipoise._search import check_texts, check_widths, checked_count
from equipoise.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

DTYPES = ("float16", "bfloat16", "float32", "float64")


def is_on_gpu(x: Any) -> bool:
    """Return whether this is a tensor of torch in a CUDA device's memory."""
    return _is_tensor(x) and x.device.type == "cuda"


def on_host(x: Any) -> Any:
    """Return a tensor as numpy, without a copy where that can be; anything else as it is."""
    if not _is_tensor(x):
        return x
    _require_numbers(x)
    x = x.detach().cpu().resolve_neg()
    return (x.float() if _dtype_name(x) == "bfloat16" else x).numpy()


def _is_tensor(x: Any) -> bool:
    return hasattr(x, "detach") and kernels.framework(x) == "torch"


def _dtype_name(x: Tensor) -> str:
    return str(x.dtype).removeprefix("torch.")


def _require_numbers(x: Tensor) -> None:
    if x.is_sparse or x.is_meta:
        raise InputError(
            "sparse and meta tensors have no plain rows to search; pass a dense tensor"
            " (x.to_dense())"
        )


def top_k(texts: np.ndarray, images: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return ``(indices, scores)`` of the k images with the largest inner product for each text.

    Both are (queries, k), int64 and float32, best first, on the device of images (n, d). Scores and
    ties are those of ``equipoise._search.top_k``.
    """
    import torch

    from equipoise.kernels import _torch_best as best

    _require_numbers(images)
    name = _dtype_name(images)
    if images.ndim != 2 or name not in DTYPES:
        raise InputError(
            f"the index is a tensor of {name} and shape {tuple(images.shape)}; pass rows (n, d) of"
            f" one of {', '.join(DTYPES)}"
        )
    check_texts(texts)
    check_widths(texts.shape[1], images.shape[1])
    k = checked_count("k", k)
    rows = texts.astype(texts.dtype.newbyteorder("="), order="C")
    with torch.no_grad():
        queries = torch.from_numpy(rows).to(images.device)
        indices, scores = best.top_k(queries, images.detach().resolve_neg(), k)
    if not scores.shape[1]:
        found = "there are no images"
        if len(images):
            found = f"none of the {len(images)} images has a finite embedding"
        raise InputError(f"{found}, so nothing can be found; pass at least one row of numbers")
    return indices, scores
