"""The lines of ``equipoise bench`` that need a GPU, each with its rival and its floor."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from equipoise._bench.kernel import transcription
from equipoise._bench.speed_line import SpeedLine
from equipoise._bench.timing import interleaved
from equipoise._debiasing import debias
from equipoise._space import AttributeSpace

if TYPE_CHECKING:
    from torch import Tensor

DIMS = (512, 768, 1024)
RANKS = (1, 3, 7)
BYTES = 1 << 31  # of an array that is debiased: several times the largest cache
SMALL = (1, 64, 4096)  # rows of one call
ROUNDS, CALLS = 7, 10
IMAGES, QUERIES, WIDTH, DEPTH = 1_000_000, 1000, 512, 1000

NOT_HERE = "needs a GPU, and there is none here"
_FORMULA = "the paper's formula in torch"
_ONCE = "1 x a copy: each row is read once and written once"
CHECKED = SpeedLine("debias on CUDA, rows checked, float32", NOT_HERE, _FORMULA, _ONCE, "1.05 x")
IN_HALF = replace(
    CHECKED, what="debias on CUDA, rows checked, float16 and bfloat16", aim="1.05 to 1.3 x"
)
ONE_CALL = SpeedLine(
    what="one call on CUDA, 1 to 4,096 rows",
    measured=NOT_HERE,
    rival=_FORMULA,
    floor="one launch",
    aim="60 us, unchecked 30 us",
)
ALONE = SpeedLine(
    what="a row alone equals the row among others, CUDA",
    measured=NOT_HERE,
    rival="none",
    floor="none: it is yes or no",
    aim="yes",
)
SEARCH = SpeedLine(
    what="exact search on CUDA",
    measured=NOT_HERE,
    rival="the half-width product and top-k in torch",
    floor="the half-width product",
    aim="1.1 x",
)
ONE_SEARCH = replace(SEARCH, what="exact search on CUDA, one query")
FIRST = 10  # images that one query finds


def lines(share: float = 1.0) -> Iterator[SpeedLine]:
    """Yield the lines as they are measured, or as they stand where there is no GPU."""
    if not _has_gpu():
        yield from (CHECKED, IN_HALF, ONE_CALL, ALONE, SEARCH, ONE_SEARCH)
        return
    size = int(BYTES * share)
    yield checked(CHECKED, "cuda", ["float32"], size)
    yield checked(IN_HALF, "cuda", ["float16", "bfloat16"], size)
    yield one_call("cuda")
    yield alone("cuda")
    images = max(2 * DEPTH, int(IMAGES * share))
    yield search(SEARCH, "cuda", images, QUERIES, DEPTH)
    yield search(ONE_SEARCH, "cuda", images, 1, FIRST)


def _has_gpu() -> bool:
    if importlib.util.find_spec("torch") is None:
        return False
    import torch

    return torch.cuda.is_available()


class _Ratios(NamedTuple):
    """How long debias takes beside a copy of the rows, and the formula beside debias."""

    checked: float
    unchecked: float
    formula: float


def checked(line: SpeedLine, device: str, dtypes: Sequence[str], size: int) -> SpeedLine:
    """Measure debias, with and without its check of rows, beside a copy of arrays of size bytes."""
    found: dict[int, list[_Ratios]] = {rank: [] for rank in RANKS}
    for dtype in dtypes:
        for dim in DIMS:
            rows = _unit_rows(device, dtype, size // (dim * _bytes(dtype)), dim)
            for rank in RANKS:
                found[rank].append(_beside_copy(rows, _space(dim, rank)))
    ours, unchecked, formula = [], [], []
    for ratios in found.values():
        ours.append(f"{max(ratio.checked for ratio in ratios):.2f}")
        unchecked.append(f"{max(ratio.unchecked for ratio in ratios):.2f}")
        formula += [ratio.formula for ratio in ratios]
    ranks = ", ".join(map(str, RANKS))
    return replace(
        line,
        measured=f"at most {', '.join(ours)} x a copy at rank {ranks};"
        f" unchecked {', '.join(unchecked)}; d {DIMS[0]} to {DIMS[-1]}",
        rival=f"{_FORMULA} takes {min(formula):.0f} to {max(formula):.0f} x as long",
    )


def _bytes(dtype: str) -> int:
    return 4 if dtype == "float32" else 2


def one_call(device: str) -> SpeedLine:
    """Measure one call on few rows, checked and unchecked: what a service waits for."""
    space = _space(WIDTH, 1)
    ours, unchecked, rival = [], [], []
    for count in SMALL:
        rows = _unit_rows(device, "float32", count, WIDTH)
        formula = _formula(rows, space)
        contenders: dict[str, Callable[[], object]] = {
            "ours": lambda rows=rows: debias(rows, space),
            "unchecked": lambda rows=rows: debias(rows, space, on_invalid="unchecked"),
            "formula": formula,
        }
        seconds = interleaved(contenders, 50, _sync(device))
        ours.append(f"{seconds['ours'] * 1e6:.0f}")
        unchecked.append(f"{seconds['unchecked'] * 1e6:.0f}")
        rival.append(f"{seconds['formula'] * 1e6:.0f}")
    counts = ", ".join(f"{count:,}" for count in SMALL)
    return replace(
        ONE_CALL,
        what=f"one call on CUDA, {counts} rows of {WIDTH}",
        measured=f"{', '.join(ours)} us, unchecked {', '.join(unchecked)}",
        rival=f"{', '.join(rival)} us, {_FORMULA}",
    )


def alone(device: str) -> SpeedLine:
    """Compare rows alone with the same rows among unusual neighbours, bit for bit."""
    import torch

    same = total = 0
    for dtype in ("float32", "float16", "bfloat16"):
        for rank in RANKS:
            space = _space(WIDTH, rank)
            rows = _unit_rows(device, dtype, 256, WIDTH)
            axis = torch.as_tensor(space.basis[:, 0].copy(), device=device)
            rows[1::4] = axis.to(rows.dtype)  # pure attribute
            rows[2::4] *= 1e-3
            among = debias(rows, space)
            for i in range(0, len(rows), 5):
                total += 1
                same += bool(torch.equal(among[i], debias(rows[i], space)))
    found = "yes" if same == total else "no"
    return replace(ALONE, measured=f"{found}, {same} of {total} rows")


def search(line: SpeedLine, device: str, images: int, queries: int, depth: int) -> SpeedLine:
    """Measure exact search beside the bare product of half-width rows and its top k."""
    from equipoise._tensor_search import top_k

    index = _unit_rows(device, "float16", images, WIDTH)
    texts = _unit_rows(device, "float16", queries, WIDTH)
    rows = texts.float().cpu().numpy()

    def bare() -> Tensor:
        return (texts @ index.T).topk(depth, dim=1).indices

    contenders: dict[str, Callable[[], object]] = {
        "ours": lambda: top_k(rows, index, depth),
        "bare": bare,
        "product": lambda: texts @ index.T,
    }
    seconds = interleaved(contenders, ROUNDS, _sync(device))
    exact, _ = top_k(rows, index, depth)
    common = np.mean([_shared(a, b) for a, b in zip(exact, bare(), strict=True)])
    asked = "one query" if queries == 1 else f"{queries:,} queries"
    return replace(
        line,
        what=f"exact search on CUDA, {asked} x {images:,} x {WIDTH}, k {depth:,}",
        measured=f"{seconds['ours'] / seconds['bare']:.2f} x, {seconds['ours'] * 1e3:.2f} ms",
        rival=f"{seconds['bare'] * 1e3:.2f} ms, the bare product and top-k; {common:.3%} agree",
        floor=f"{seconds['product'] * 1e3:.2f} ms, the bare product",
    )


def _shared(a: Tensor, b: Tensor) -> float:
    return len(set(a.tolist()) & set(b.tolist())) / len(a)


def _beside_copy(rows: Tensor, space: AttributeSpace) -> _Ratios:
    out = rows.clone()
    sync = _sync(rows.device.type)
    contenders: dict[str, Callable[[], object]] = {
        "copy": lambda: out.copy_(rows),
        "checked": lambda: debias(rows, space, out=out),
        "unchecked": lambda: debias(rows, space, out=out, on_invalid="unchecked"),
    }
    seconds = interleaved(contenders, ROUNDS, sync, CALLS)
    formula = interleaved({"formula": _formula(rows, space)}, 1, sync)["formula"]
    return _Ratios(
        checked=seconds["checked"] / seconds["copy"],
        unchecked=seconds["unchecked"] / seconds["copy"],
        formula=formula / seconds["checked"],
    )


def _formula(rows: Tensor, space: AttributeSpace) -> Callable[[], object]:
    import torch

    dense = space.basis @ space.basis.T
    projector = torch.as_tensor(dense, dtype=rows.dtype, device=rows.device)
    return lambda: transcription(torch, rows, projector)


def _space(dim: int, rank: int) -> AttributeSpace:
    rng = np.random.default_rng(0)
    groups = {f"group {i}": rng.standard_normal(dim) for i in range(rank + 1)}
    return AttributeSpace.from_prototypes(groups)


def _unit_rows(device: str, dtype: str, count: int, dim: int) -> Tensor:
    import torch

    generator = torch.Generator(device).manual_seed(0)
    rows = torch.randn(count, dim, device=device, generator=generator)
    return torch.nn.functional.normalize(rows).to(getattr(torch, dtype))


def _sync(device: str) -> Callable[[], Any]:
    import torch

    return torch.cuda.synchronize if device == "cuda" else lambda: None
