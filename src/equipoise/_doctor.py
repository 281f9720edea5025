"""The state of an installation: versions, devices, extras, and whether an encoder works."""

from __future__ import annotations

import platform
import re
import time
from importlib.metadata import PackageNotFoundError, requires, version
from typing import Any, NamedTuple

import numpy as np

from equipoise._version import __version__
from equipoise.encoders import load_encoder

PACKAGE = "equipoise"
NAME = re.compile(r"[A-Za-z0-9._-]+")  # a requirement begins with the name of a package
EXTRA = re.compile(r"""extra\s*==\s*['"]([^'"]+)['"]""")


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
    """Return the versions of Python, equipoise and all it may use; None: not installed."""
    found: dict[str, str | None] = {"python": platform.python_version(), PACKAGE: __version__}
    for packages in _needed().values():
        for package in packages:
            found[package] = _version(package)
    return found


def extras() -> dict[str, str | None]:
    """Return, for each extra, the pip line that completes it; None where it is complete.

    Empty where equipoise runs from its source without being installed.
    """
    lines: dict[str, str | None] = {}
    for extra, packages in sorted(_needed().items()):
        if extra:
            whole = all(_version(package) for package in packages)
            lines[extra] = None if whole else f'pip install "{PACKAGE}[{extra}]"'
    return lines


def _needed() -> dict[str, list[str]]:
    """Return the packages that each extra needs, those of the core under "".

    The installed package says so itself, so that no list here can fall behind pyproject.toml.
    """
    needed: dict[str, list[str]] = {"": []}
    try:
        requirements = requires(PACKAGE) or []
    except PackageNotFoundError:
        return needed
    for requirement in requirements:
        name = NAME.match(requirement)
        extra = EXTRA.search(requirement)
        if name is not None:
            needed.setdefault(extra[1] if extra else "", []).append(name[0])
    return needed


def about_mini() -> dict[str, str] | None:
    """Return what the embedded model knows and may be used for; None where it is not installed."""
    try:
        import equipoise_mini
    except ImportError:
        return None
    return {"knows": equipoise_mini.KNOWS, "notice": equipoise_mini.NOTICE}


def devices() -> list[str]:
    """Return the devices that encoders can run on."""
    if _version("torch") is None:
        return ["cpu"]
    import torch

    from equipoise.encoders import _torch_towers as torch_towers

    found = []
    for kind in torch_towers.devices():
        if kind != "cuda":
            found.append(kind)
            continue
        for i in range(torch.cuda.device_count()):
            found.append(f"cuda:{i} ({torch.cuda.get_device_name(i)})")
    return found


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
