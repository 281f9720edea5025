"""Shared fixtures. With EQUIPOISE_REQUIRE_ALL set, a missing component fails instead of skipping."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path

# Workers share the cores. With threads of their own, which wait for each other by spinning, each
# would take the other's time: on a busy machine, a gradient test took 40 s of processor time, not 3.
# It is read when numpy and torch are imported. Without workers (the slow tests) threads are as ever.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from tests.helpers.common import ROOT, component

if (
    not Path("/dev/nvidiactl").exists()
):  # without a GPU the CUDA kernels run in Triton's interpreter; read when triton is imported
    os.environ["TRITON_INTERPRET"] = "1"

if "EQUIPOISE_CACHE" not in os.environ:  # not the user's own; workers inherit it
    os.environ["EQUIPOISE_CACHE"] = tempfile.mkdtemp(prefix="equipoise-tests-")
    atexit.register(shutil.rmtree, os.environ["EQUIPOISE_CACHE"], ignore_errors=True)

settings.register_profile(
    "suite",
    deadline=None,
    max_examples=60,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("suite")


# numba keeps what it compiled by the stamp of the kernel's file alone: drop what is older than the mathematics it inlines.
for _kept in (ROOT / "src" / "equipoise" / "kernels" / "__pycache__").glob("_numba.*.nb?"):
    if _kept.stat().st_mtime < (ROOT / "src" / "equipoise" / "geometry.py").stat().st_mtime:
        _kept.unlink(missing_ok=True)


@pytest.fixture(scope="module")
def browser():
    """The system's chromium, driven by playwright."""
    playwright = component("playwright.sync_api")
    found = next(
        (
            path
            for name in ("chromium", "chromium-browser", "google-chrome")
            if (path := shutil.which(name))
        ),
        None,
    )
    if found is None:
        if os.environ.get("EQUIPOISE_REQUIRE_ALL"):
            pytest.fail("chromium is not installed, and everything must be here")
        pytest.skip("chromium is not installed")
    with playwright.sync_playwright() as running:
        opened = running.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture
def one_thread():
    """Small networks on a busy machine: torch's threads would wait for each other."""
    torch = component("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
