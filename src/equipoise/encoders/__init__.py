"""Encoders: any CLIP-like model in, unit vectors out.

``load_encoder`` finds an adapter by its scheme. Each adapter is one short file with one contract.
"""

from __future__ import annotations

import os
from typing import cast

from equipoise.encoders import _registry as registry
from equipoise.encoders._cache import EmbeddingCache, Usage
from equipoise.encoders._encoder import Encoder, Report, Unreadable
from equipoise.encoders._export import export_onnx
from equipoise.encoders._head_edit import HeadEdit
from equipoise.encoders._images import UnreadableImageError
from equipoise.encoders._protocols import ImageEncoder, TextEncoder
from equipoise.encoders._towers import TextTower, Towers
from equipoise.encoders._wrapping import WrappedEncoder, wrap

__all__ = [
    "EmbeddingCache",
    "Encoder",
    "HeadEdit",
    "ImageEncoder",
    "Report",
    "TextEncoder",
    "TextTower",
    "Towers",
    "Unreadable",
    "UnreadableImageError",
    "Usage",
    "WrappedEncoder",
    "export_onnx",
    "load_encoder",
    "wrap",
]


def load_encoder(
    spec: str,
    *,
    device: str | None = None,
    dtype: str | None = None,
    revision: str | None = None,
    offline: bool | None = None,
    batch_size: int | None = None,
    workers: int | None = None,
    cache: bool | str | os.PathLike[str] | EmbeddingCache = False,
    show_progress: bool | None = None,
) -> Encoder:
    """Load the encoder that ``spec`` names.

    spec: "hf:ID-or-folder", "open_clip:NAME/WEIGHTS", "st:ID-or-folder", "onnx:FOLDER",
    "heads:FILE" (what a ``HeadEdit`` was saved to) or "mini".
    device: "cuda", "mps" or "cpu"; None takes the first that this machine has. dtype: "float32" or
    "bfloat16" (autocast); None takes bfloat16 on CUDA that computes it natively, and float32
    elsewhere. offline: read local files only (None: as HF_HUB_OFFLINE says). batch_size: items
    encoded at once (None: 64); on a CPU, rows do not depend on it. workers: processes that decode
    images (0: this process decodes them). cache: True keeps embeddings in the user's cache, a path
    keeps them in that file. show_progress: None shows progress on a terminal only.
    """
    load, name = registry.find(spec)
    if offline is None:
        offline = os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")
    towers = load(name, device=device, dtype=dtype, revision=revision, offline=offline)
    if not isinstance(towers, Towers):
        # An encoder of another package, whole, which offers what ours does.
        return cast(Encoder, towers)
    return Encoder(
        towers,
        batch_size=batch_size,
        workers=workers,
        cache=_embedding_cache(cache),
        show_progress=show_progress,
    )


def _embedding_cache(
    cache: bool | str | os.PathLike[str] | EmbeddingCache,
) -> EmbeddingCache | None:
    if isinstance(cache, EmbeddingCache):
        return cache
    if not cache:
        return None
    if cache is True:
        return EmbeddingCache()
    return EmbeddingCache(cache)
