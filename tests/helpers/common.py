"""What most tests use: components or a skip, the command line in this process, spaces and rows."""

from __future__ import annotations

import importlib
import io
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import pytest

import equipoise as eq
from equipoise import _cli as cli
from equipoise.errors import MissingExtraError

ROOT = Path(__file__).resolve().parents[2]


def component(name: str):
    """The module, or a skip with a reason; a failure where everything must be there."""
    try:
        return importlib.import_module(name)
    except ImportError:
        if os.environ.get("EQUIPOISE_REQUIRE_ALL"):
            pytest.fail(f"{name} is not installed, and everything must be here")
        pytest.skip(f"{name} is not installed", allow_module_level=True)


def embedded_model():
    """mini, or a skip with a reason; a failure where everything must be there."""
    try:
        return eq.load_encoder("mini")
    except MissingExtraError as error:
        if os.environ.get("EQUIPOISE_REQUIRE_ALL"):
            pytest.fail(str(error))
        pytest.skip(str(error))


def embedded_file(open_it: Callable[[], Any]) -> Any:
    """What equipoise-mini's ``generator`` or ``gallery`` gives, or a skip with a reason; a failure where everything must be there."""
    try:
        return open_it()
    except FileNotFoundError as error:
        if os.environ.get("EQUIPOISE_REQUIRE_ALL"):
            pytest.fail(str(error))
        pytest.skip(str(error))


def shared_data(name: str) -> Path:
    """A file of real data, which lies beside the repository and not in it."""
    folder = Path(os.environ.get("EQUIPOISE_DATA", ROOT.parent / "shared" / "data"))
    if not (folder / name).is_file():
        pytest.skip(f"{name} is not in {folder}; set EQUIPOISE_DATA to the folder that holds it")
    return folder / name


def typed(*arguments: Any) -> int:
    """Run ``equipoise`` in this process with what is typed after it; the exit code."""
    before, sys.argv = sys.argv, ["equipoise", *map(str, arguments)]
    try:
        cli.main()
    except SystemExit as stop:
        return int(stop.code or 0)
    finally:
        sys.argv = before
    return 0


def unit(x: np.ndarray) -> np.ndarray:
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


EPS = float(np.finfo(np.float32).eps)


def rounding(width: int, eps: float = EPS) -> float:
    """How far an edited row of so many entries may be from the theorem's, in parts of its length.

    Each entry is rounded once, by at most half of its own eps, and so is the row. Before that, sums
    of ``width`` products are made in float32 (also for half precision), and the roundings of such
    a sum, half an eps each, grow as the root of their number.
    """
    return eps / 2 + np.sqrt(width) * EPS / 2


def make_space(
    rng: np.random.Generator, dim: int = 64, groups: int = 3, **options
) -> eq.AttributeSpace:
    return eq.AttributeSpace.from_prototypes(
        {f"g{i}": rng.standard_normal(dim) for i in range(groups)}, **options
    )


def rows_at(rng: np.random.Generator, space: eq.AttributeSpace, p: np.ndarray) -> np.ndarray:
    """Unit rows whose part inside the space has exactly the lengths p."""
    inside = unit(rng.standard_normal((len(p), space.rank)) @ space.basis.T)
    outside = rng.standard_normal((len(p), space.dim))
    outside = unit(outside - outside @ space.basis @ space.basis.T)
    return p[:, None] * inside + np.sqrt(1 - p * p)[:, None] * outside


def exact(e: np.ndarray, basis: np.ndarray, kappa: float = 1.0) -> np.ndarray:
    """Theorem 1 in extended precision, from the paper's own expression for kappa = 1, and its kappa form otherwise."""
    e = e.astype(np.longdouble)
    e = e / np.abs(e).max(axis=-1, keepdims=True)
    e = e / np.sqrt((e * e).sum(-1, keepdims=True))
    q = basis.astype(np.longdouble)
    par = e @ q @ q.T
    perp = e - par
    a, b = (np.sqrt((v * v).sum(-1, keepdims=True)) for v in (par, perp))
    if np.isinf(kappa):
        return perp / b
    ratio = kappa * (1 - b) / a  # E of the theorem, with V~ = kappa L~
    big = a + ratio
    alpha = (big - b * np.sqrt(big**2 + b**2 - 1)) / (big**2 + b**2)
    return np.sqrt(1 - alpha**2) * perp / b + alpha * par / a


def run(*arguments: Any, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run ``equipoise`` in this process, as ``python -m equipoise`` would; what it printed."""
    out, err = io.StringIO(), io.StringIO()
    with mock.patch.dict(os.environ, environment), redirect_stdout(out), redirect_stderr(err):
        code = typed(*arguments)
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())


def tree(folder):
    """Every file of a folder, but locks."""
    return {
        str(p.relative_to(folder)): p.read_bytes()
        for p in sorted(folder.rglob("*"))
        if p.is_file() and not p.name.endswith(".lock")
    }


def save_gallery(folder: Path, every: int = 14) -> None:
    """Write some of mini's pictures into a folder: photographs of nobody."""
    import equipoise_mini

    folder.mkdir()
    pictures = pd.read_parquet(equipoise_mini.gallery().table, columns=["image"])["image"]
    for i, data in enumerate(pictures[::every]):
        (folder / f"{i:04d}.png").write_bytes(data)
