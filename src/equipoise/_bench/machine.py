"""What a measurement was made on, in a few words."""

from __future__ import annotations

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from equipoise._version import __version__

_PACKAGES = ("numpy", "scipy", "numba", "torch", "triton", "jax", "faiss-cpu")


def describe() -> dict[str, str]:
    """Return processor, cores, accelerator and the versions that matter."""
    facts = {
        "processor": _processor(),
        "cores": str(
            len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        ),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "equipoise": __version__,
    }
    for package in _PACKAGES:
        try:
            facts[package] = version(package)
        except PackageNotFoundError:
            continue
    if (torch := sys.modules.get("torch")) and torch.cuda.is_available():
        facts["accelerator"] = torch.cuda.get_device_name()
    return facts


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or "unknown"
