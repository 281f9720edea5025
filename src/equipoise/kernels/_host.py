"""numpy arrays: shape, memory and threads around the two CPU kernels, numba's where it is
installed.
"""

from __future__ import annotations

import importlib.util
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, lru_cache
from typing import Any

import numpy as np

from equipoise import geometry
from equipoise.errors import InputError
from equipoise.kernels import _numpy
from equipoise.kernels._recipe import LowRank, Norm, Preference

DTYPES = ("float64", "float32", "float16", "bfloat16")
SERIAL_BYTES = 1 << 19  # below this, threads cost more than they save
FAR_BYTES = 1 << 23  # an output of this size leaves the caches before anybody reads it
STAGE_BYTES = 1 << 24  # rows that are not contiguous pass through a buffer of this size

_KIND = {"kappa": 0, "printed": 1, "weights": 2}
_NORM = {"unit": 0, "keep": 1, "raw": 2}
# bfloat16 holds numbers that are tiny beside their row, to which float32 sums leave no correct
# digit where they cancel
_COMPUTE = {"float64": "float64", "float32": "float32", "float16": "float32", "bfloat16": "float64"}
_BITS = {"float16": np.int16, "bfloat16": np.uint16}


def threads() -> int:
    """Return how many threads a large array is spread over: EQUIPOISE_THREADS, or the cores that
    this process may use.
    """
    given = os.environ.get("EQUIPOISE_THREADS", "")
    if given and not (given.isdecimal() and int(given)):
        raise InputError(
            f"EQUIPOISE_THREADS={given!r} is not legal; set it to a whole number from 1"
        )
    return (
        int(given)
        if given
        else (
            len(os.sched_getaffinity(0))
            if hasattr(os, "sched_getaffinity")
            else os.cpu_count() or 1
        )
    )


@lru_cache(1)
def _pool(workers: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(workers, thread_name_prefix="equipoise")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # threads do not survive a fork


@cache
def has_numba() -> bool:
    """Return whether numba is installed; it is not imported for the answer."""
    return importlib.util.find_spec("numba") is not None


@cache
def _half_in_hardware() -> bool:
    """Return whether the processor has the float16 instructions. On x86 they are F16C; without it
    LLVM would call a function that nobody provides.
    """
    import platform

    from llvmlite import binding

    return platform.machine() not in ("x86_64", "AMD64") or bool(
        binding.get_host_cpu_features().get("f16c")
    )


def kernel_name(dtype: str) -> str:
    """Return "numba" or "numpy"; EQUIPOISE_NO_NUMBA asks for the latter."""
    if (
        has_numba()
        and not os.environ.get("EQUIPOISE_NO_NUMBA")
        and (dtype != "float16" or _half_in_hardware())
    ):
        return "numba"
    return "numpy"


@cache
def name_of(dtype: np.dtype) -> str:
    """Return the name of a dtype, which numpy puts together anew each time that it is asked."""
    return dtype.name


def rows_of(x: np.ndarray) -> np.ndarray:
    """Return (..., d) as (n, d)."""
    return x.reshape(-1, x.shape[-1])


def debias(
    x: np.ndarray,
    out: np.ndarray,
    low_rank: LowRank,
    preference: Preference,
    norm: Norm,
    dtype: str | None = None,
) -> np.ndarray:
    """Debias x (n, d) into out (n, d), which may be x itself; return the mask of rows that were
    left as they were.

    ``dtype`` names what the bits of x mean, where its own dtype does not.
    """
    dtype = dtype or name_of(x.dtype)
    value = np.asarray(preference.value, dtype=np.float64).reshape(-1)
    if x.flags.c_contiguous and out.flags.c_contiguous and x.dtype.isnative and out.dtype.isnative:
        return _contiguous(x, out, low_rank, preference, value, norm, dtype)
    bad = np.zeros(len(x), bool)
    step = max(1, STAGE_BYTES // (x.itemsize * x.shape[1]))
    native = x.dtype.newbyteorder("=")
    for start in range(0, len(x), step):
        rows = slice(start, start + step)
        staged = np.ascontiguousarray(x[rows], dtype=native)
        result = np.empty_like(staged)
        part = value[rows] if value.size > 1 else value
        bad[rows] = _contiguous(staged, result, low_rank, preference, part, norm, dtype)
        out[rows] = result
    return bad


def _contiguous(x, out, low_rank, preference, value, norm, dtype) -> np.ndarray:
    if kernel_name(dtype) == "numpy":
        return _numpy.debias_rows(x, out, low_rank, preference, value, norm, dtype)
    from equipoise.kernels import _numba

    bad = np.zeros(len(x), bool)
    arguments = _debiasing(out, low_rank, preference, value, norm, dtype, bad)
    source, target = _readable(x, dtype), _writable(out, dtype)
    kernel: Any = _numba.debias_rows

    def work(start: int, stop: int) -> None:
        kernel(source, target, start, stop, *arguments)

    spread(work, len(x), x.nbytes)
    return bad


def overwrite(x: np.ndarray, keep: np.ndarray, value: np.ndarray, unit: bool) -> np.ndarray:
    """Write unit rows of x (n, d), with ``value`` where ``keep`` is 0, then of unit length again
    where asked for; by numba. keep, value: (d,).

    Rows without a direction come back as they were; a row of which nothing is left, of unit length.
    """
    from equipoise.kernels import _numba

    dtype = x.dtype.name
    compute = _COMPUTE[dtype]
    x = np.ascontiguousarray(x, x.dtype.newbyteorder("="))
    out = np.empty_like(x, subok=False)
    wide, low = geometry.limits(compute), geometry.limits(dtype)
    arrays = keep.astype(compute), value.astype(compute)
    arguments = *arrays, unit, wide.small, wide.large, wide.up, low.pure, out.nbytes >= FAR_BYTES
    source, target = _readable(x, dtype), _writable(out, dtype)
    kernel: Any = _numba.overwrite_rows

    def work(start: int, stop: int) -> None:
        kernel(source, target, start, stop, *arguments)

    spread(work, len(x), x.nbytes)
    return out


def _debiasing(out, low_rank, preference, value, norm, dtype, bad) -> tuple:
    """Return what ``debias_rows`` takes after the rows."""
    compute = _COMPUTE[dtype]
    factors = low_rank.cached(("numba", compute), lambda: _factors(low_rank, compute))
    wide, low = geometry.limits(compute), geometry.limits(dtype)
    scalars = (
        _KIND[preference.kind],
        value,
        _NORM[norm],
        wide.small,
        wide.large,
        wide.up,
        low.pure,
        low.unit,
        bad,
    )
    return *factors, *scalars, out.nbytes >= FAR_BYTES


def _measuring(low_rank, columns) -> tuple:
    """Return what ``measure_rows`` takes after the rows."""
    factors = low_rank.cached(("numba", "float64"), lambda: _factors(low_rank, "float64"))
    wide = geometry.limits("float64")
    return *factors, wide.small, wide.large, wide.up, columns


def _factors(
    low_rank: LowRank, compute: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray, bool, np.ndarray]:
    """Return right (r, d), left with an even number of rows (the last may be zero), the bias (empty
    where there is none), whether it projects, and right in float64.
    """
    left = np.pad(low_rank.left.T, ((0, low_rank.rank % 2), (0, 0)))
    bias = np.zeros(0, compute) if low_rank.bias is None else low_rank.bias.astype(compute)
    return (
        _aligned(low_rank.right.T, compute),
        _aligned(left, compute),
        bias,
        low_rank.is_projection,
        _aligned(low_rank.right.T, "float64"),
    )


def _aligned(matrix: np.ndarray, dtype: str) -> np.ndarray:
    """Return a copy that starts with a cache line, which numpy's own memory need not."""
    size = matrix.size * np.dtype(dtype).itemsize
    memory = np.empty(size + 64, np.uint8)
    skip = -memory.ctypes.data % 64
    copy = memory[skip : skip + size].view(dtype).reshape(matrix.shape)
    copy[:] = matrix
    return copy


def _readable(x: np.ndarray, dtype: str) -> np.ndarray:
    """Return the bits of x as numba takes them, read-only, so that one compiled version serves
    arrays that may be written to and others.
    """
    view = x.view(np.ndarray).view(_BITS.get(dtype, x.dtype))
    view.flags.writeable = False
    return view


def _writable(out: np.ndarray, dtype: str) -> np.ndarray:
    return out.view(np.ndarray).view(_BITS.get(dtype, out.dtype))


_here = threading.local()


@contextmanager
def on_one_thread() -> Iterator[None]:
    """Keep kernels on the thread that calls them, for a caller that spreads larger pieces."""
    _here.alone = True
    try:
        yield
    finally:
        _here.alone = False


def spread(work: Callable[[int, int], None], rows: int, size: int, pieces: int = 4) -> None:
    """Run ``work(start, stop)`` over all rows, on as many threads as the size is worth, in so many
    pieces per thread.
    """
    workers = 1 if size < SERIAL_BYTES or getattr(_here, "alone", False) else threads()
    if workers == 1:
        work(0, rows)
    else:
        cuts = np.linspace(0, rows, pieces * workers + 1).astype(int).tolist()
        list(_pool(workers).map(work, cuts[:-1], cuts[1:]))


def can_measure(*arrays: np.ndarray, dtype: str | None = None) -> bool:
    """Return whether the compiled measurement takes these arrays as they are.

    ``dtype`` names what their bits mean, where their own does not.
    """
    names = {dtype or a.dtype.name for a in arrays}
    compiled = all(name in DTYPES and kernel_name(name) == "numba" for name in names)
    return compiled and all(a.flags.c_contiguous and a.dtype.isnative for a in arrays)


def measure(e: np.ndarray, u: np.ndarray, low_rank: LowRank) -> np.ndarray:
    """Return (6, n), as ``measure.measure`` does."""
    from equipoise.kernels import _numba

    columns = np.empty((6, len(e)))
    before, after = _readable(e, e.dtype.name), _readable(u, u.dtype.name)
    arguments = _measuring(low_rank, columns)
    kernel: Any = _numba.measure_rows

    def work(start: int, stop: int) -> None:
        kernel(before, after, start, stop, *arguments)

    spread(work, len(e), e.nbytes + u.nbytes)
    return columns


def debias_and_measure(
    x: np.ndarray,
    out: np.ndarray,
    low_rank: LowRank,
    preference: Preference,
    norm: Norm,
    dtype: str,
) -> tuple[np.ndarray, np.ndarray]:
    """Return what ``debias`` and ``measure`` return, in one pass over rows that ``can_measure``."""
    from equipoise.kernels import _numba

    bad, columns = np.zeros(len(x), bool), np.empty((6, len(x)))
    value = np.asarray(preference.value, dtype=np.float64).reshape(-1)
    arguments = (
        _debiasing(out, low_rank, preference, value, norm, dtype, bad),
        _measuring(low_rank, columns),
    )
    source, target, written = _readable(x, dtype), _writable(out, dtype), _readable(out, dtype)
    kernel: Any = _numba.debias_and_measure_rows

    def work(start: int, stop: int) -> None:
        kernel(source, target, written, start, stop, *arguments)

    spread(work, len(x), x.nbytes)
    return bad, columns
