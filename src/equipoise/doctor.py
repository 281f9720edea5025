"""What is here: versions, devices, extras, and whether the chosen encoder works."""

from __future__ import annotations

import platform
import time
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

import numpy as np

from equipoise._version import __version__
from equipoise.encoders import load_encoder

CORE = (
    "numpy",
    "scipy",
    "scikit-learn",
    "pandas",
    "pyarrow",
    "safetensors",
    "pydantic",
    "typer",
    "rich",
    "jinja2",
    "plotly",
    "pillow",
)
EXTRAS = {
    "numba": ("numba",),
    "torch": ("torch",),
    "jax": ("jax",),
    "transformers": ("torch", "transformers", "sentencepiece", "protobuf"),
    "open-clip": ("torch", "open_clip_torch"),
    "sentence-transformers": ("torch", "sentence-transformers"),
    "onnx": ("onnxruntime", "tokenizers"),
    "mini": ("equipoise-mini",),
    "export": ("torch", "transformers", "onnxruntime", "onnx", "onnxscript"),
    "generation": ("torch", "transformers", "diffusers", "accelerate"),
    "openai": ("openai",),
    "ray": ("ray",),
    "fsspec": ("fsspec",),
    "postgres": ("psycopg", "pgvector"),
    "lancedb": ("lancedb", "pylance"),
    "annotate": ("starlette", "uvicorn"),
    "hub": ("huggingface_hub",),
}


class Trial(NamedTuple):
    """One text and one image, encoded."""

    id: str
    fingerprint: str
    dim: int
    device: str
    precision: str
    modalities: tuple[str, ...]
    seconds_to_load: float
    text_milliseconds: float
    image_milliseconds: float | None
    cosine: float | None


def versions() -> dict[str, str | None]:
    """Of Python, equipoise and all it may use; None where it is not installed."""
    packages = dict.fromkeys(
        [*CORE, *(package for needed in EXTRAS.values() for package in needed)]
    )
    return {
        "python": platform.python_version(),
        "equipoise": __version__,
        **{name: _version(name) for name in packages},
    }


def extras() -> dict[str, str | None]:
    """Each extra: None where it is whole, else the pip line that completes it."""
    return {
        extra: None if all(map(_version, needed)) else f'pip install "equipoise[{extra}]"'
        for extra, needed in EXTRAS.items()
    }


def about_mini() -> dict[str, str] | None:
    """What the embedded model knows and may be used for; None where it is not installed."""
    try:
        import equipoise_mini
    except ImportError:
        return None
    return {"knows": equipoise_mini.KNOWS, "notice": equipoise_mini.NOTICE}


def devices() -> list[str]:
    """What encoders can run on."""
    if _version("torch") is None:
        return ["cpu"]
    import torch

    from equipoise.encoders import torch_towers

    cards = [
        f"cuda:{i} ({torch.cuda.get_device_name(i)})" for i in range(torch.cuda.device_count())
    ]
    return [
        name for kind in torch_towers.devices() for name in (cards if kind == "cuda" else [kind])
    ]


def try_encoder(spec: str, **options: Any) -> Trial:
    """Load an encoder, and encode one text and one image."""
    started = time.perf_counter()
    encoder = load_encoder(spec, **options)
    loaded = time.perf_counter()
    text = encoder.encode_text(["a photo of a person"])[0]
    encoded = time.perf_counter()
    image, seconds = None, None
    modalities = getattr(encoder, "modalities", ("text", "image"))
    if "image" in modalities:
        pixels = np.random.default_rng(0).integers(0, 256, (128, 96, 3), dtype=np.uint8)
        (image,) = encoder.encode_images([pixels])
        seconds = time.perf_counter() - encoded
    return Trial(
        encoder.id,
        encoder.fingerprint,
        encoder.dim,
        getattr(encoder, "device", "unknown"),
        getattr(encoder, "precision", "unknown"),
        modalities,
        loaded - started,
        (encoded - loaded) * 1e3,
        None if seconds is None else seconds * 1e3,
        None if image is None else float(text @ image),
    )


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
