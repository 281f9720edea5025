"""``equipoise bench kernel``: the closed form beside a copy of the array and beside the formula.

The formula is the paper's, written straight down.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from equipoise import kernels
from equipoise._bench.timing import interleaved
from equipoise.errors import InputError, MissingExtraError
from equipoise.kernels._recipe import LowRank, Preference

DIMS = (256, 512, 768, 1024)
RANKS = (1, 3, 7, 15)
DTYPES = {"cpu": ("float32", "float16", "float64"), "cuda": ("float32", "bfloat16", "float16")}
MEBIBYTES = {"cpu": 256, "cuda": 2048}  # several times the largest cache
PAPER = Preference("kappa", 1.0)


@dataclass(frozen=True)
class KernelTiming:
    """One line of the table: seconds of each contender for the same (rows, dim) array."""

    device: str
    dtype: str
    dim: int
    rank: int
    rows: int
    kernel: str
    seconds: float
    copy_seconds: float
    transcription_seconds: float

    @property
    def over_copy(self) -> float:
        return self.seconds / self.copy_seconds

    @property
    def over_transcription(self) -> float:
        """Return how many times faster than the transcription it is."""
        return self.transcription_seconds / self.seconds

    @property
    def gigabytes_per_second(self) -> float:
        """Return the bytes that must move (each row read once, written once) over the time."""
        item = {"float64": 8, "float32": 4}.get(self.dtype, 2)
        return 2 * self.rows * self.dim * item / self.seconds / 1e9


def run(
    device: str, dims=DIMS, ranks=RANKS, dtypes=None, mebibytes: int | None = None, rounds: int = 7
) -> Iterator[KernelTiming]:
    """Measure every combination, one row at a time."""
    make = {"cpu": _cpu_case, "cuda": _cuda_case}.get(device)
    if make is None:
        raise InputError(f'device={device!r} is not legal; pass "cpu" or "cuda"')
    if mebibytes is not None and mebibytes < 1:
        raise InputError(f"an array of {mebibytes} MiB is too small to measure; pass 1 or more")
    if unknown := set(dtypes or ()) - set(DTYPES[device]):
        raise InputError(
            f"dtype {', '.join(sorted(unknown))} is not measured on {device}; pass one or more of"
            f" {', '.join(DTYPES[device])}"
        )
    if min(*dims, *ranks) < 1 or max(ranks) > min(dims):
        raise InputError(
            f"dims {list(dims)} with ranks {list(ranks)} are not legal; both start at 1 and no rank"
            " exceeds a dim"
        )
    rng = np.random.default_rng(0)
    for dtype in dtypes or DTYPES[device]:
        for dim in dims:
            case = make(rng, dtype, dim, (mebibytes or MEBIBYTES[device]) << 20)
            for rank in ranks:
                basis = np.linalg.qr(rng.standard_normal((dim, rank)))[0]
                yield _measure(case, device, dtype, basis, rounds)


def _measure(case: _Case, device: str, dtype: str, basis: np.ndarray, rounds: int) -> KernelTiming:
    low_rank = LowRank.projection(basis)
    calls = 10 if device == "cuda" else 1
    times = interleaved(
        {"copy": case.copy, "ours": lambda: case.ours(low_rank)}, rounds, case.sync, calls
    )
    rival = interleaved({"transcription": lambda: case.transcription(basis)}, 1, case.sync)
    dim, rank = basis.shape
    return KernelTiming(
        device,
        dtype,
        dim,
        rank,
        case.rows,
        case.kernel,
        times["ours"],
        times["copy"],
        rival["transcription"],
    )


@dataclass(frozen=True)
class _Case:
    rows: int
    kernel: str
    copy: Callable[[], object]
    ours: Callable[[LowRank], object]
    transcription: Callable[[np.ndarray], object]
    sync: Callable[[], object]


@np.errstate(invalid="ignore")  # it takes roots of negative numbers where 1 - b cancels
def transcription(xp: Any, e: Any, projector: Any) -> Any:
    """Return Theorem 1 as the paper prints it.

    It has a dense projector, separate normalisations, and a temporary for each term.
    """
    e = e / xp.linalg.norm(e, axis=-1, keepdims=True)
    par = e @ projector
    perp = e - par
    a = xp.linalg.norm(par, axis=-1, keepdims=True)
    b = xp.linalg.norm(perp, axis=-1, keepdims=True)
    big = a + (1 - b) / a
    alpha = (big - b * xp.sqrt(big**2 - a**2)) / (big**2 + b**2)
    return xp.sqrt(1 - alpha**2) * perp / b + alpha * par / a


def _cpu_case(rng: np.random.Generator, dtype: str, dim: int, size: int) -> _Case:
    rows = size // (dim * np.dtype(dtype).itemsize)
    x = np.empty((rows, dim), dtype)
    for start in range(0, rows, 1 << 14):
        block = rng.standard_normal((min(1 << 14, rows - start), dim), dtype=np.float32)
        x[start : start + len(block)] = block / np.linalg.norm(block, axis=1, keepdims=True)
    out = np.zeros_like(x)

    def paper(basis: np.ndarray) -> np.ndarray:
        wide = np.float64 if dtype == "float64" else np.float32  # numpy has no fast float16 product
        return transcription(np, x.astype(wide, copy=False), (basis @ basis.T).astype(wide)).astype(
            dtype, copy=False
        )

    return _Case(
        rows,
        kernels.which(x),
        lambda: np.copyto(out, x),
        lambda m: kernels.debias(x, m, PAPER, "unit", out),
        paper,
        lambda: None,
    )


def _cuda_case(rng: np.random.Generator, dtype: str, dim: int, size: int) -> _Case:
    try:
        import torch
    except ImportError:
        raise MissingExtraError("the CUDA benchmark", "torch", "torch") from None
    if not torch.cuda.is_available():
        raise InputError(
            'no CUDA device is available here; run with device "cpu", or on a machine with a GPU'
        )
    kind = getattr(torch, dtype)
    rows = size // (dim * kind.itemsize)
    generator = torch.Generator("cuda").manual_seed(int(rng.integers(1 << 31)))
    x = torch.randn(rows, dim, device="cuda", generator=generator)
    x = torch.nn.functional.normalize(x).to(kind)
    out = torch.empty_like(x)

    def paper(basis: np.ndarray) -> Any:
        return transcription(torch, x, torch.as_tensor(basis @ basis.T, dtype=kind, device="cuda"))

    return _Case(
        rows,
        kernels.which(x),
        lambda: out.copy_(x),
        lambda m: kernels.debias(x, m, PAPER, "unit", out),
        paper,
        torch.cuda.synchronize,
    )
