"""``equipoise bench retrieval``: exact search beside the bare matrix product, its floor.

faiss's flat index is the rival.
"""

from __future__ import annotations

import os
import time
import tracemalloc
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from equipoise._bench.timing import interleaved
from equipoise._search import BLOCK, top_k
from equipoise.errors import EquipoiseError, InputError
from equipoise.kernels import _host as host

DEPTHS = (1000,)
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}


@dataclass(frozen=True)
class RetrievalTiming:
    """One depth k: seconds of each contender for the same float32 images and queries."""

    images: int
    queries: int
    dim: int
    k: int
    block: int
    kernel: str
    threads: int
    clock: str  # whose seconds: the wall's, or the processor's in all threads
    seconds: float
    product_seconds: float
    faiss_seconds: float
    mebibytes: float  # that numpy took at most during one search
    # share of faiss's results that are ours too; ties and rounding at the k-th place keep it from 1
    agreement: float
    product_blas: str
    faiss_blas: str

    @property
    def over_faiss(self) -> float:
        return self.seconds / self.faiss_seconds

    @property
    def over_product(self) -> float:
        return self.seconds / self.product_seconds


def run(
    images: int,
    queries: int,
    dim: int,
    depths: tuple[int, ...] = DEPTHS,
    block: int = BLOCK,
    rounds: int = 3,
    clock: str = "wall",
) -> Iterator[RetrievalTiming]:
    """Yield one row per depth: medians over alternating rounds of all contenders."""
    if clock not in CLOCKS:
        raise InputError(f"clock={clock!r} is not legal; pass one of {', '.join(CLOCKS)}")
    if min(images, queries, dim, block, *depths) < 1 or max(depths) > images:
        raise InputError(
            f"{images} images, {queries} queries, width {dim}, block {block}, depths {list(depths)}"
            " are not legal; all start at 1 and no depth exceeds the images"
        )
    product_blas = _blas()
    faiss = _faiss(product_blas)
    faiss.omp_set_num_threads(host.threads())
    rng = np.random.default_rng(0)
    x, t = unit_rows(rng, images, dim), unit_rows(rng, queries, dim)
    index = faiss.IndexFlatIP(dim)
    index.add(x)
    scores = np.empty((queries, min(block, images)), np.float32)

    def product() -> None:
        for start in range(0, images, block):
            part = x[start : start + block]
            np.matmul(t, part.T, out=scores if len(part) == scores.shape[1] else None)

    top_k(t[:1], x[:1], 1)  # compiles
    for k in depths:
        ours, mebibytes = _measured(lambda k=k: top_k(t, x, k, block=block, show_progress=False)[0])
        theirs = index.search(t, k)[1]
        shares = [np.isin(a, b).mean() for a, b in zip(theirs, ours, strict=True)]
        seconds = interleaved(
            {
                "product": product,
                "ours": lambda k=k: top_k(t, x, k, block=block, show_progress=False),
                "faiss": lambda k=k: index.search(t, k),
            },
            rounds,
            clock=CLOCKS[clock],
        )
        yield RetrievalTiming(
            images=images,
            queries=queries,
            dim=dim,
            k=k,
            block=block,
            kernel=host.kernel_name("float32"),
            threads=host.threads(),
            clock=clock,
            seconds=seconds["ours"],
            product_seconds=seconds["product"],
            faiss_seconds=seconds["faiss"],
            mebibytes=mebibytes,
            agreement=float(np.mean(shares)),
            product_blas=product_blas,
            faiss_blas=_blas("faiss"),
        )


def _faiss(product_blas: str) -> Any:
    """Return faiss, with its OpenBLAS told to use the kernels that numpy's found.

    An old OpenBLAS may not know a new processor.
    """
    os.environ.setdefault("OPENBLAS_CORETYPE", product_blas.rsplit(maxsplit=1)[-1])
    try:
        import faiss  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise EquipoiseError(
            "the retrieval benchmark needs faiss to compare with, which is not installed. Type: pip"
            " install faiss-cpu"
        ) from None
    return faiss


def _blas(library: str = "numpy") -> str:
    """Return the name, version and kernels of a loaded library's BLAS."""
    from threadpoolctl import threadpool_info

    for info in threadpool_info():
        if info["user_api"] == "blas" and f"{os.sep}{library}" in info["filepath"]:
            return f"{info['internal_api']} {info['version']} {info.get('architecture', 'unknown')}"
    return "unknown"


def _measured(search) -> tuple[np.ndarray, float]:
    tracemalloc.start()
    try:
        return search(), tracemalloc.get_traced_memory()[1] / 2**20
    finally:
        tracemalloc.stop()


def unit_rows(rng: np.random.Generator, rows: int, dim: int) -> np.ndarray:
    x = np.empty((rows, dim), np.float32)
    for start in range(0, rows, 1 << 14):
        part = rng.standard_normal((min(1 << 14, rows - start), dim), dtype=np.float32)
        x[start : start + len(part)] = part / np.linalg.norm(part, axis=1, keepdims=True)
    return x
