"""Check the CUDA kernels on a GPU against float64, dtype by dtype, and print one line a check; exit
1 if one fails.

The test suite runs the float32 kernel in Triton's interpreter; tensor cores and half-width types
need the real thing. Run from the repository root: ``PYTHONPATH=src python scripts/check_gpu.py``,
with the names of CHECKS for some of them. Each runs in a process of its own, some at a time, so
that compiling takes minutes, and a crash or a hang stops no other. Its output is kept in
docs/measurements.
"""

from __future__ import annotations

import faulthandler
import gc
import math
import os
import subprocess
import sys
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier
from typing import Any

import numpy as np
import torch

import equipoise as eq
from equipoise import geometry, kernels
from equipoise._bench import machine
from equipoise.kernels import _torch as torch_kernels
from equipoise.kernels import _torch_best, _triton, _triton_best
from equipoise.kernels._recipe import LowRank, Norm, Preference

FAILED = []
AT_A_TIME = max(1, min(8, (os.cpu_count() or 2) // 2))  # checks, most of whose time is compiling
LIMIT = 420  # seconds of one check; then it says where it hangs
LINES = ("ok  ", "FAIL")
PAPER = Preference("kappa", 1.0)


def report(name: str, passed: bool, detail: str) -> None:
    print(f"{'ok  ' if passed else 'FAIL'} {name}: {detail}", flush=True)
    if not passed:
        FAILED.append(name)


def exact(x: torch.Tensor, basis: np.ndarray, kappa: float) -> torch.Tensor:
    """The closed form in float64 on the stored values."""
    e, q = x.double(), torch.tensor(basis, device=x.device)
    e = e / e.abs().amax(-1, keepdim=True)
    e = e / e.norm(dim=-1, keepdim=True)
    c = e @ q
    taken = c @ q.T
    rest = e - taken
    o = rest.norm(dim=-1, keepdim=True)
    shrink, beta = geometry.half_angle((c * c).sum(-1, keepdim=True), o, kappa, torch.sqrt)
    return beta / o * rest + shrink * taken


def space_of(rng: np.random.Generator, dim: int, rank: int) -> eq.AttributeSpace:
    return eq.AttributeSpace.from_prototypes(
        {f"g{i}": rng.standard_normal(dim) for i in range(rank + 1)}
    )


def rows_at(rng: np.random.Generator, basis: np.ndarray, p: np.ndarray) -> torch.Tensor:
    """Unit rows whose attribute part has exactly the lengths p."""
    dim, rank = basis.shape
    inside = rng.standard_normal((len(p), rank)) @ basis.T
    outside = rng.standard_normal((len(p), dim))
    outside -= outside @ basis @ basis.T
    parts = (v / np.linalg.norm(v, axis=1, keepdims=True) for v in (inside, outside))
    first, second = parts
    return torch.tensor(p[:, None] * first + np.sqrt(1 - p * p)[:, None] * second, device="cuda")


def check_accuracy(dtype: torch.dtype, rng: np.random.Generator) -> None:
    for dim in (100, 256, 512, 768, 1024, 2048):
        for rank in (1, 3, 7, 15, 20):
            space = space_of(rng, dim, rank)
            p = np.concatenate([rng.uniform(0.01, 0.6, 3000), rng.uniform(0.6, 0.99, 77)])
            x = rows_at(rng, space.basis, p).to(dtype)
            for kappa in (1.0, math.inf):
                u, want = eq.debias(x, space, kappa=kappa), exact(x, space.basis, kappa)
                compare(
                    f"{dtype} d={dim} r={rank} kappa={kappa}",
                    u,
                    want,
                    "tiles" if _triton.uses_tiles(space.low_rank, dtype) else "rows",
                )


def compare(name: str, u: torch.Tensor, want: torch.Tensor, kernel: str) -> None:
    if u.dtype == torch.float32:
        error = ((u.double() - want).norm(dim=-1)).max().item()
        report(
            name, error < 1e-6, f"{kernel}, largest row error {error:.1e}"
        )  # 8 units: p up to 0.99 divides by o = 0.14
        return
    rounded = want.to(u.dtype)
    equal = (u == rounded).double().mean().item()
    bits, wanted = (t.view(torch.int16).int() for t in (u, rounded))
    steps = torch.where(
        (bits ^ wanted) >= 0, bits - wanted, 0x7FFF
    ).abs()  # opposite signs: only tiny numbers may
    tiny = (u.double() - want).abs() <= 2 * torch.finfo(u.dtype).eps * want.abs() + 1e-6
    apart = int(((steps > 1) & ~tiny).sum())
    drift = (u.double().norm(dim=-1) - want.to(u.dtype).double().norm(dim=-1)).mean().item()
    report(
        name,
        equal >= 0.995 and apart == 0 and abs(drift) < 1e-5,
        f"{kernel}, {100 * equal:.2f} % correctly rounded, {apart} beyond one unit, norm drift"
        f" {drift:.0e}",
    )


def check_shrink(rng: np.random.Generator) -> None:
    """float32: the shrink factor within 4e-7 for every p, on an axis-aligned space so that p is
    exact.
    """
    dim = 512
    basis = np.eye(dim)[:, :1]
    p = np.concatenate([np.geomspace(1e-7, 0.9999, 20000)]).astype(np.float32).astype(np.float64)
    low_rank = LowRank.projection(basis)
    e = np.zeros((len(p), dim))
    e[:, 0], e[:, 7] = p, np.sqrt(1 - p * p)
    x = torch.tensor(e, dtype=torch.float32, device="cuda")
    u = torch_kernels.debias(x, low_rank, PAPER, "unit")
    stored = x.double()
    n = stored.norm(dim=1)
    want = geometry.half_angle((stored[:, 0] / n) ** 2, stored[:, 7] / n, 1.0, torch.sqrt)[0]
    error = (u.double()[:, 0] / (stored[:, 0] / n) / want - 1).abs().max().item()
    report(
        "float32 shrink factor, p from 1e-7 to 0.9999",
        error <= 4e-7,
        f"largest relative error {error:.1e}",
    )


def check_extremes(rng: np.random.Generator) -> None:
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        for rank in (1, 4):
            space = space_of(rng, 512, rank)
            x = torch.randn(300, 512, device="cuda", dtype=torch.float64)
            scales = [1e-30, 1e-20, 1, 1e20, 1e30] if dtype != torch.float16 else [1e-4, 1, 1e3]
            scaled = torch.cat([x / x.norm(dim=1, keepdim=True) * s for s in scales]).to(dtype)
            compare(
                f"{dtype} r={rank} lengths {scales}",
                eq.debias(scaled, space),
                exact(scaled, space.basis, 1.0),
                "any",
            )
            pure = (
                torch.randn(100, rank, device="cuda", dtype=torch.float64)
                @ torch.tensor(space.basis.T, device="cuda")
            ).to(dtype)
            u = eq.debias(pure, space)
            kept = (
                (u.double() - torch.nn.functional.normalize(pure.double())).norm(dim=1).max().item()
            )
            report(
                f"{dtype} r={rank} pure attribute rows stay",
                kept < 2 * torch.finfo(dtype).eps,
                f"moved by {kept:.1e}",
            )
            spoilt = torch.nn.functional.normalize(x).to(dtype)
            spoilt[5], spoilt[77, 3], spoilt[200, 9] = 0, float("nan"), float("inf")
            u = eq.debias(spoilt, space, on_invalid="keep")
            same = torch.equal(
                u[[5, 77, 200]].view(torch.uint8), spoilt[[5, 77, 200]].view(torch.uint8)
            )
            report(
                f"{dtype} r={rank} invalid rows kept bit for bit",
                same and bool(u[torch.isfinite(spoilt).all(1)].isfinite().all()),
                str(same),
            )
            try:
                eq.debias(spoilt, space)
                report(f"{dtype} r={rank} invalid rows raise", False, "no error")
            except eq.errors.InvalidRowsError as error:
                report(
                    f"{dtype} r={rank} invalid rows raise",
                    error.rows == (5, 77, 200),
                    str(error.rows),
                )
            unit = torch.nn.functional.normalize(x).to(dtype)
            report(
                f"{dtype} r={rank} kappa 0 is the identity",
                torch.equal(eq.debias(unit, space, kappa=0), unit),
                "bit for bit",
            )
            mixed = torch.tensor(np.resize([0.0, 1.0, math.inf], 300), device="cuda")
            u = eq.debias(unit, space, kappa=mixed)
            # another path: last digit only
            apart = (u[1::3].double() - eq.debias(unit, space)[1::3].double()).abs().max().item()
            close = torch.equal(u[::3], unit[::3]) and apart <= torch.finfo(dtype).eps / 4
            report(
                f"{dtype} r={rank} kappa one a row",
                close,
                f"0, 1 and infinity in turn, {apart:.0e} apart",
            )


def check_invalid_rows(rng: np.random.Generator) -> None:
    """The rows that a kernel counts are those that a second look finds, few or many."""
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        for rank in (1, 4):
            space = space_of(rng, 512, rank)
            for every in (1, 3, 1000, 1 << 20):
                x = torch.randn(100_003, 512, device="cuda").to(dtype)
                x[::every] = 0
                _, invalid = kernels.debias_and_count(x, space.low_rank, PAPER, "unit")
                counted, found = int(invalid.count()), int(invalid.mask().sum())
                report(
                    f"{dtype} r={rank} rows without a direction, one in {every}",
                    counted == found == len(range(0, len(x), every)),
                    f"{counted} counted, {found} found",
                )
            check = eq.RowCheck()
            eq.debias(x, space, on_invalid=check)
            try:
                check.raise_if_invalid()
                report(f"{dtype} r={rank} a RowCheck raises", False, "no error")
            except eq.errors.InvalidRowsError as error:
                report(f"{dtype} r={rank} a RowCheck raises", error.count == 1, str(error.count))


def check_neighbours(rng: np.random.Generator) -> None:
    """A row alone gives the same bits as among rows of every kind, and so do rows in another
    order.
    """
    shares = np.array([0, 0.2, 0.49, 0.51, 0.7, 0.72, 0.86, 0.88, 0.96, 0.975, 0.9999, 1])
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        for dim in (100, 256, 512, 768):
            for rank in (1, 3, 7):
                space = space_of(rng, dim, rank)
                x = rows_at(rng, space.basis, rng.choice(shares, 1003)).to(dtype)
                x[5], x[77, 3], x[200, 9] = 0, float("nan"), float("inf")
                order = torch.tensor(rng.permutation(len(x)), device="cuda")
                among = _bits(eq.debias(x, space, on_invalid="keep"))
                elsewhere = _bits(eq.debias(x[order], space, on_invalid="keep"))
                alone = [eq.debias(row[None], space, on_invalid="keep") for row in x[:200]]
                passed = torch.equal(elsewhere, among[order])
                passed &= torch.equal(_bits(torch.cat(alone)), among[:200])
                kernel = "tiles" if _triton.uses_tiles(space.low_rank, dtype) else "rows"
                report(
                    f"{dtype} d={dim} r={rank} no bit depends on neighbours",
                    passed,
                    f"{kernel}, 200 rows alone, 1003 in another order",
                )


def _bits(x: torch.Tensor) -> torch.Tensor:
    return x.view(torch.int32 if x.dtype == torch.float32 else torch.int16)


def check_forms(rng: np.random.Generator) -> None:
    """Every argument agrees with the float64 CPU kernel."""
    options: dict[str, Any]
    x = rng.standard_normal((777, 512)) * rng.uniform(0.1, 10, (777, 1))
    for rank in (1, 5):
        space = space_of(rng, 512, rank)
        for options in (
            {"kappa": "printed"},
            {"weights": (0.03, 0.97)},
            {"norm": "keep"},
            {"kappa": 0.0},
            {"kappa": 7.5, "norm": "keep"},
        ):
            for dtype in (torch.float32, torch.float16):
                stored = torch.tensor(x, dtype=dtype)
                want = eq.debias(stored.double().numpy(), space, **options)
                u = eq.debias(stored.cuda(), space, **options).double().cpu().numpy()
                error = np.abs(u - want).max() / np.abs(want).max()
                report(
                    f"{dtype} r={rank} {options}",
                    error < 4 * torch.finfo(dtype).eps,
                    f"largest error {error:.1e}",
                )
    basis = np.linalg.qr(rng.standard_normal((512, 3)))[0]
    affine = LowRank(rng.standard_normal((512, 3)) / 20, basis, rng.standard_normal(512) / 30)
    e = x / np.linalg.norm(x, axis=1, keepdims=True)
    rest = e - (e @ affine.right @ affine.left.T + affine.bias)
    cases: list[tuple[Norm, np.ndarray]] = [
        ("raw", rest),
        ("unit", rest / np.linalg.norm(rest, axis=1, keepdims=True)),
    ]
    for norm, want in cases:
        u = torch_kernels.debias(
            torch.tensor(x, dtype=torch.float32, device="cuda"),
            affine,
            Preference("kappa", math.inf),
            norm,
        )
        error = np.abs(u.cpu().numpy() - want).max()
        report(f"any low-rank affine map, norm={norm}", error < 1e-6, f"largest error {error:.1e}")
    strided = torch.tensor(x, dtype=torch.float32, device="cuda")
    space = space_of(rng, 256, 2)
    for name, view in (
        ("every other column", strided[:, ::2]),
        ("every other row", strided[::2, :256]),
        ("three axes", strided[:776, :256].reshape(8, 97, 256)),
    ):
        same = torch.equal(eq.debias(view, space), eq.debias(view.contiguous(), space))
        report(f"strides: {name}", same, str(same))


def check_repeats(rng: np.random.Generator) -> None:
    """The same rows give the same bits each time: a race between copies and the matrix units would
    show here first.
    """
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        for dim in (256, 512, 1024):
            space = space_of(rng, dim, 7)
            x = torch.nn.functional.normalize(torch.randn(1 << 17, dim, device="cuda")).to(dtype)
            first = eq.debias(x, space)
            apart = sum(int((eq.debias(x, space) != first).sum()) for _ in range(20))
            report(
                f"{dtype} d={dim} r=7 repeats bit for bit",
                apart == 0,
                f"{apart} entries differ in 20 runs of {len(x)} rows",
            )


def check_search(rng: np.random.Generator) -> None:
    """The search of a GPU finds what the host finds, near ties and ties included."""
    rows = rng.standard_normal((30_000, 512))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        images = torch.tensor(rows).to(dtype)
        images[10_000:20_000] = images[:10_000]
        images[25_000:] = torch.nextafter(images[:5000], torch.ones((), dtype=dtype))
        images[7], images[9, 3] = torch.nan, torch.inf
        on_host = (images.float() if dtype == torch.bfloat16 else images).numpy()
        for queries, k in ((1, 10), (16, 1), (100, 1000), (300, 20), (2, 29_997)):
            texts = rng.standard_normal((queries, 512)).astype(np.float32)
            found, host = eq.search(images.cuda(), texts, k), eq.search(on_host, texts, k)
            agree = float((found.indices.cpu().numpy() == host.indices).mean())
            same = agree == 1 and np.array_equal(found.scores.cpu().numpy(), host.scores)
            report(f"search {dtype} q={queries} k={k}", same, f"{agree:.3%} of places agree")


def check_search_kernels(rng: np.random.Generator) -> None:
    """The kernels settle ordinary queries themselves, agree with torch, and repeat themselves."""
    cases = [(512, dtype) for dtype in (torch.float16, torch.bfloat16, torch.float32)]
    for dim, dtype in [*cases, (100, torch.float16), (513, torch.float32)]:
        images = torch.randn(200_000, dim, device="cuda")
        images = torch.nn.functional.normalize(images).to(dtype)
        for queries, k in ((1, 10), (300, 1000)):
            texts = torch.randn(queries, dim, device="cuda")
            indices, scores, left = _triton_best.top_k(texts, images, k)
            expected = _torch_best._by_product(texts, images, k)
            apart = int((indices != expected[0]).sum() + (scores != expected[1]).sum())
            for _ in range(5):
                again = _triton_best.top_k(texts, images, k)
                apart += int((again.indices != indices).sum() + (again.scores != scores).sum())
            report(
                f"search kernels {dtype} d={dim} q={queries} k={k}",
                apart == len(left) == 0,
                f"{len(left)} queries left, {apart} places differ from torch or in 5 repeats",
            )


def check_calls(rng: np.random.Generator) -> None:
    """Calls share what was made ready for them, and no call is told of another's rows."""
    space = space_of(rng, 512, 1)
    x = torch.nn.functional.normalize(torch.randn(64, 512, device="cuda"))
    first = eq.debias(x, space)
    same = all(torch.equal(eq.debias(x, space), first) for _ in range(20))
    report("kept kernels give the bits of Triton's own launch", same, "20 calls after the first")
    counts = rng.integers(0, 64, 500).tolist()
    report("calls after each other", [_counted(x, space, k) for k in counts] == counts, "500 calls")
    with ThreadPoolExecutor(8) as pool:
        told = list(pool.map(lambda k: _on_a_stream(x, space, k), range(16)))
    report("threads with streams of their own", all(told), "16 tasks of 200 calls, 8 threads")
    check = eq.RowCheck()
    for k in counts:
        with torch.cuda.stream(torch.cuda.Stream()):
            eq.debias(_spoilt(x, k), space, on_invalid=check)
    try:
        check.raise_if_invalid()
        found = 0
    except eq.errors.InvalidRowsError as error:
        found = error.count
    report("a RowCheck of calls on many streams", found == sum(counts), f"{found} rows")
    check_graph(space, x)


def check_graph(space: eq.AttributeSpace, x: torch.Tensor) -> None:
    """A recorded call adds to a number of its own each time that it is replayed."""
    check, u = eq.RowCheck(), torch.empty_like(x)
    spoilt, graph = _spoilt(x, 3), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        eq.debias(spoilt, space, out=u, on_invalid=check)
    for _ in range(5):
        graph.replay()
        eq.debias(x, space)
    same = torch.equal(_bits(u), _bits(eq.debias(spoilt, space, on_invalid="keep")))
    try:
        check.raise_if_invalid()
        report("a RowCheck in a CUDA graph", False, "no error")
    except eq.errors.InvalidRowsError as error:
        report("a RowCheck in a CUDA graph", error.count == 3 and same, str(error.count))


def _spoilt(x: torch.Tensor, rows: int) -> torch.Tensor:
    spoilt = x.clone()
    spoilt[:rows] = 0
    return spoilt


def _counted(x: torch.Tensor, space: eq.AttributeSpace, rows: int) -> int:
    """Return how many rows of ``rows`` without a direction an error names."""
    try:
        eq.debias(_spoilt(x, rows), space)
        return 0
    except eq.errors.InvalidRowsError as error:
        return error.count


def _on_a_stream(x: torch.Tensor, space: eq.AttributeSpace, rows: int) -> bool:
    with torch.cuda.stream(torch.cuda.Stream()):
        return all(_counted(x, space, rows) == rows for _ in range(200))


KINDS_OF_ROWS = [
    (torch.float32, 512, 1),
    (torch.float32, 100, 3),
    (torch.bfloat16, 512, 2),
    (torch.bfloat16, 768, 7),
    (torch.float16, 256, 7),
]


def check_places(rng: np.random.Generator) -> None:
    """Rows give the same wherever they lie: in place, off 16 bytes, with gaps, all at one place."""
    shares = np.array([0, 0.2, 0.49, 0.51, 0.72, 0.86, 0.88, 0.975, 1])
    for dtype, dim, rank in KINDS_OF_ROWS:
        space = space_of(rng, dim, rank)
        x = rows_at(rng, space.basis, rng.choice(shares, 1003)).to(dtype)
        x[5], x[77, 3], x[200, 9] = 0, float("nan"), float("inf")
        run = partial(eq.debias, space=space, on_invalid="keep")
        want = run(x)
        name = f"{dtype} d={dim} r={rank}"
        there = x.clone()
        run(there, out=there)
        report(f"{name} in place", torch.equal(_bits(there), _bits(want)), "bit for bit")
        odd = torch.empty(x.numel() + 1, dtype=dtype, device="cuda")[1:].view_as(x).copy_(x)
        gaps = torch.empty(len(x), dim + 3, dtype=dtype, device="cuda")[:, :dim].copy_(x)
        into = torch.empty(x.numel() + 1, dtype=dtype, device="cuda")[1:].view_as(x)
        found = {"off 16 bytes": run(odd), "with gaps": run(gaps)}
        found["into a place off 16 bytes"] = run(x, out=into)
        found["in place, off 16 bytes"] = run(odd, out=odd)
        for place, u in found.items():
            close(f"{name} {place}", u, want)
        report(f"{name} again", torch.equal(_bits(run(x)), _bits(want)), "bit for bit")
        one = run(x[7:8].expand(50, dim))
        close(f"{name} all at one place", one, want[7:8].expand(50, dim))


def close(name: str, u: torch.Tensor, want: torch.Tensor) -> None:
    """Report whether rows are the same but for the order of sums, and bit for bit if not finite."""
    finite = want.isfinite().all(1) & (want != 0).any(1)
    apart = float((u.double() - want.double())[finite].abs().max())
    same = torch.equal(_bits(u[~finite]), _bits(want[~finite]))
    report(name, same and apart <= torch.finfo(u.dtype).eps, f"{apart:.1e} apart, others {same}")


def check_large(rng: np.random.Generator) -> None:
    """Places beyond 2^31 numbers are found."""
    for dtype, rank in ((torch.float16, 1), (torch.bfloat16, 7)):
        space = space_of(rng, 512, rank)
        x = torch.randn((1 << 31) // 512 + 1001, 512, device="cuda", dtype=dtype)
        x[-3:] = 0
        check = eq.RowCheck()
        u = eq.debias(x, space, on_invalid=check)
        last = eq.debias(x[-1000:].clone(), space, on_invalid="keep")
        same = torch.equal(_bits(u[-1000:]), _bits(last))
        try:
            check.raise_if_invalid()
            counted = 0
        except eq.errors.InvalidRowsError as error:
            counted = error.count
        report(f"{dtype} r={rank} {x.numel()} numbers", same and counted == 3, f"{counted} without")
        del u
        for queries in (2, 130):
            texts = x[-3 - queries : -3].double()
            indices, scores, left = _triton_best.top_k(texts, x, 1)
            expected = torch.arange(len(x) - 3 - queries, len(x) - 3, device="cuda")
            right = torch.equal(indices[:, 0], expected) and not len(left)
            right &= torch.equal(scores[:, 0], (texts * texts).sum(1).float())
            report(
                f"search {dtype} {x.numel()} numbers q={queries}", right, "each text is an image"
            )
        del x


def check_streams(rng: np.random.Generator) -> None:
    """Threads may begin together, and a space may be dropped while somebody reads its axes."""
    for dtype, dim, rank in ((torch.float32, 384, 2), (torch.float16, 320, 5)):
        together = begun_together(space_of(rng, dim, rank), dim, dtype)
        report(f"{dtype} d={dim} threads that begin together", together, "8 threads")
    for dtype, rank in ((torch.float32, 1), (torch.bfloat16, 7), (torch.float64, 3)):
        x = torch.nn.functional.normalize(torch.randn(512, 512, device="cuda")).to(dtype)
        apart = sum(dropped_while_it_is_read(rng, x, rank) for _ in range(20))
        report(f"{dtype} r={rank} spaces dropped at once", apart == 0, f"{apart} of 20 differ")
        apart = sum(dropped_before_a_replay(rng, x, rank) for _ in range(3))
        report(f"{dtype} r={rank} spaces dropped before a replay", apart == 0, f"{apart} differ")


def begun_together(space: eq.AttributeSpace, dim: int, dtype: torch.dtype) -> bool:
    """Return whether threads whose kernel nobody has compiled give the same rows."""
    x = torch.nn.functional.normalize(torch.randn(64, dim, device="cuda")).to(dtype)
    torch.cuda.synchronize()
    start = Barrier(8)

    def work(_: int) -> torch.Tensor:
        start.wait()
        with torch.cuda.stream(torch.cuda.Stream()):
            return eq.debias(x, space)

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(work, range(8)))
    torch.cuda.synchronize()
    return all(torch.equal(u, found[0]) for u in found)


def dropped_while_it_is_read(rng: np.random.Generator, x: torch.Tensor, rank: int) -> bool:
    """Return whether rows change where the space's memory is given to others at once."""
    space = space_of(rng, x.shape[1], rank)
    want = eq.debias(x, space)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.cuda._sleep(20_000_000)
        u = eq.debias(x, space, on_invalid="unchecked")
    del space
    others = _others(x, rank)
    torch.cuda.synchronize()
    del others
    return not torch.equal(u, want)


def dropped_before_a_replay(rng: np.random.Generator, x: torch.Tensor, rank: int) -> bool:
    """Return whether a recorded call reads what others put where its space was."""
    space = space_of(rng, x.shape[1], rank)
    want = eq.debias(x, space)
    eq.debias(x, space, on_invalid="unchecked")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        u = eq.debias(x, space, on_invalid="unchecked")
    del space
    others = _others(x, rank)
    graph.replay()
    torch.cuda.synchronize()
    del others
    return not torch.equal(u, want)


def _others(x: torch.Tensor, rank: int) -> list[torch.Tensor]:
    """Return tensors of the sizes of a map's copies, which take what memory is free."""
    gc.collect()
    shapes = [(rank, x.shape[1]), (16, x.shape[1]), (x.shape[1], rank), (1,)]
    kinds = (torch.float64, torch.float32, torch.float16)
    return [
        torch.full(shape, math.nan, dtype=kind, device="cuda")
        for _ in range(50)
        for shape in shapes
        for kind in kinds
    ]


CHECKS = {
    "calls": check_calls,
    "streams": check_streams,
    "places": check_places,
    "large": check_large,
    "search": check_search,
    "search-kernels": check_search_kernels,
    "invalid-rows": check_invalid_rows,
    "neighbours": check_neighbours,
    "accuracy-float32": partial(check_accuracy, torch.float32),
    "accuracy-bfloat16": partial(check_accuracy, torch.bfloat16),
    "accuracy-float16": partial(check_accuracy, torch.float16),
    "shrink": check_shrink,
    "extremes": check_extremes,
    "forms": check_forms,
    "repeats": check_repeats,
}


def run_here(name: str) -> None:
    """Run one check; what it raises is one more failure."""
    faulthandler.dump_traceback_later(LIMIT, exit=True)
    torch.manual_seed(0)
    try:
        CHECKS[name](np.random.default_rng(0))
    except Exception as error:
        traceback.print_exc()
        report(name, False, f"{type(error).__name__}: {str(error)[:300]}")
    faulthandler.cancel_dump_traceback_later()


def run_apart(name: str) -> None:
    """Run one check in a process of its own, and print its lines."""
    began = time.perf_counter()
    command = [sys.executable, os.path.abspath(__file__), name]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=LIMIT + 60, check=False
        )
        code, said, why = done.returncode, done.stdout, done.stderr
    except subprocess.TimeoutExpired:
        code, said, why = -1, "", "it did not end"
    lines = [line for line in said.splitlines() if line.startswith(LINES)]
    failed = [line for line in lines if line.startswith("FAIL")]
    print("\n".join([*lines, f"     {name}: {time.perf_counter() - began:.0f} s"]), flush=True)
    FAILED.extend(failed)
    if failed or code:
        print(why[-4000:], file=sys.stderr, flush=True)
    if not failed and (code or not lines):
        report(name, False, f"it ended with {code}")


def main() -> None:
    names = sys.argv[1:] or list(CHECKS)
    print(" · ".join(f"{k} {v}" for k, v in machine.describe().items()), flush=True)
    if len(names) == 1:
        run_here(names[0])
    else:
        with ThreadPoolExecutor(AT_A_TIME) as pool:
            list(pool.map(run_apart, names))
    failed = f"{len(FAILED)} checks failed" if FAILED else "all checks passed"
    print(f"{failed}: {', '.join(names)}")
    sys.exit(bool(FAILED))


if __name__ == "__main__":
    main()
