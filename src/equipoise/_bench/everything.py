"""``equipoise bench``: every speed that somebody waits for, each with its rival and its floor."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from equipoise._bench import apply, audit, encode, methods, retrieval
from equipoise._bench.kernel import transcription
from equipoise._bench.timing import interleaved
from equipoise._debiasing import debias
from equipoise._space import AttributeSpace
from equipoise.errors import EquipoiseError, InputError

CALLS = 200  # of one query, which are timed together
START_UPS = 5


@dataclass(frozen=True)
class SpeedLine:
    """One line of the table.

    measured: what was measured, in words with its unit; rival and floor likewise: who else does it,
    and what it cannot be faster than. aim: what we want to reach.
    """

    what: str
    measured: str
    rival: str
    floor: str
    aim: str


_ONCE = "1 x a copy: each row is read once and written once"
_NOT_HERE = "needs a GPU, and is not measured by this command"
_ON_CUDA = (
    SpeedLine(
        what="debias on CUDA, rows checked, float32",
        measured=_NOT_HERE,
        rival="the paper's formula in torch",
        floor=_ONCE,
        aim="1.05 x",
    ),
    SpeedLine(
        what="debias on CUDA, rows checked, float16 and bfloat16",
        measured=_NOT_HERE,
        rival="the paper's formula in torch",
        floor=_ONCE,
        aim="1.05 to 1.3 x",
    ),
    SpeedLine(
        what="one call on CUDA, 1 to 4,096 rows",
        measured=_NOT_HERE,
        rival="the paper's formula in torch",
        floor="one launch",
        aim="60 us",
    ),
    SpeedLine(
        what="a row alone equals the row among others, CUDA",
        measured="yes in Triton's interpreter; scripts/check_gpu.py looks on a GPU",
        rival="none",
        floor="none: it is yes or no",
        aim="yes",
    ),
    SpeedLine(
        what="exact search on CUDA",
        measured=_NOT_HERE,
        rival="the half-width product and top-k in torch",
        floor="the half-width product",
        aim="1.1 x",
    ),
)


def run(share: float = 1.0) -> Iterator[SpeedLine]:
    """Yield the lines as they are measured. share: of the full sizes."""
    if not 0 < share <= 1:
        raise InputError(f"share={share} is not legal; pass a number above 0, and at most 1")
    yield from _ON_CUDA
    for measure in (_one_query, _search, _audit, _apply, _fairer_clip, _embed):
        yield _line(measure, share)
    yield from _start_up()


def _line(measure: Callable[[float], SpeedLine], share: float) -> SpeedLine:
    """Return a line, or what is missing here to measure it."""
    try:
        return measure(share)
    except EquipoiseError as error:
        return SpeedLine(measure.__name__.strip("_"), str(error), "", "", "")


def _count(full: int, share: float, least: int) -> int:
    return max(least, int(full * share))


def _one_query(share: float) -> SpeedLine:
    rng = np.random.default_rng(0)
    groups = {name: rng.standard_normal(512) for name in ("male", "female")}
    space = AttributeSpace.from_prototypes(groups)
    row = rng.standard_normal(512).astype(np.float32)
    projector = (space.basis @ space.basis.T).astype(np.float32)
    contenders = {
        "ours": lambda: debias(row, space),
        "formula": lambda: transcription(np, row, projector),
        "copy": row.copy,
    }
    seconds = interleaved(contenders, rounds=50, calls=CALLS)
    ours, formula, copy = (f"{seconds[name] * 1e6:.1f} us" for name in contenders)
    return SpeedLine(
        what="one query of 512 on the CPU, numpy in and out",
        measured=ours,
        rival=f"{formula}, the paper's formula in numpy",
        floor=f"{copy}, a copy: the interpreter's price of one call",
        aim="20 us",
    )


def _search(share: float) -> SpeedLine:
    images, queries = _count(1_000_000, share, 2000), _count(1000, share, 200)
    [row] = retrieval.run(images, queries, 512, (min(1000, images // 2),))
    return SpeedLine(
        what=f"exact search, {queries:,} queries x {images:,} x 512, k {row.k:,}",
        measured=f"{row.over_faiss:.2f} x faiss, {row.seconds:.2f} s",
        rival=f"{row.faiss_seconds:.2f} s, faiss flat; {row.agreement:.3%} agree",
        floor=f"{row.product_seconds:.2f} s, the product in float32; integers go below it",
        aim="0.8 x faiss",
    )


def _audit(share: float) -> SpeedLine:
    images, prompts = _count(100_000, share, 200), _count(500, share, 2)
    row = audit.measure(images, prompts, 512, _count(1000, share, 20))
    return SpeedLine(
        what=f"audit of {images:,} x 512, {prompts} prompts, {row.resamples:,} resamples",
        measured=f"{row.seconds:.1f} s, {row.processor_seconds:.1f} of the processor",
        rival="none",
        floor="each resample draws every image, and walks each prompt's list",
        aim="40 s",
    )


def _apply(share: float) -> SpeedLine:
    rows = _count(apply.ROWS, share, 1000)
    [row] = apply.run([rows], apply.DIM, 1, 3, None, False)
    return SpeedLine(
        what=f"apply, {rows:,} x 512 float16",
        measured=f"{row.over_copy:.2f} x cp and sync, {row.mebibytes:.0f} MiB",
        rival=f"{row.copy_seconds:.2f} s, cp and sync",
        floor="1 x cp: the same bytes, read once and written once",
        aim="1.15 x, 256 MiB",
    )


def _fairer_clip(share: float) -> SpeedLine:
    rows = _count(200_000, share, 1000)
    [row] = methods.run(["fairer-clip"], rows, rounds=3)
    floor = rows / 4096 * _feature_product() / row.closed_form_seconds
    return SpeedLine(
        what=f"fairer-clip on {rows:,} rows",
        measured=f"{row.over_closed_form:.1f} x the closed form",
        rival=f"{row.closed_form_seconds * 1e3:.0f} ms, the closed form",
        floor=f"{floor:.1f} x: the product with its random directions alone",
        aim="5 x",
    )


def _feature_product() -> float:
    """Return the seconds that 4,096 rows take for their product with fairer-clip's directions."""
    from equipoise.methods import defaults

    rng = np.random.default_rng(0)
    rows = rng.standard_normal((4096, 512), dtype=np.float32)
    directions = rng.standard_normal((512, defaults("fairer-clip")["features"]), dtype=np.float32)
    return interleaved({"product": lambda: rows @ directions}, rounds=3)["product"]


def _embed(share: float) -> SpeedLine:
    from equipoise.encoders import load_encoder

    files = _count(2000, share, 64)
    [row] = encode.run(load_encoder("mini"), images=files, sizes=(500,))
    return SpeedLine(
        what=f"embed {files:,} photographs of 500 px with mini",
        measured=f"{row.share:.0%} of the model alone, {row.from_files:,.0f}/s",
        rival=f"{row.model_alone:,.0f}/s, the model alone on decoded pixels",
        floor="100 %: decoding hides behind the model, where cores are left for it",
        aim="90 %",
    )


def _start_up() -> Iterator[SpeedLine]:
    floor = _seconds(["-c", "pass"])
    numpy = _seconds(["-c", "import numpy"])
    with tempfile.TemporaryDirectory() as place:
        fit = "fit --model mini -a gender -b people-gender --force --out"
        commands = {
            "--help": (["--help"], "0.25 s"),
            "methods": (["methods"], "0.4 s"),
            "fit on mini": ([*fit.split(), str(Path(place) / "space")], "1.5 s"),
        }
        for name, (words, aim) in commands.items():
            yield SpeedLine(
                what=f"start-up, {name}",
                measured=f"{_seconds(['-m', 'equipoise', *words]):.2f} s",
                rival=f"{numpy:.2f} s, import numpy",
                floor=f"{floor:.2f} s, python itself",
                aim=aim,
            )


def _seconds(words: list[str]) -> float:
    """Return the median seconds of a process of its own; one more comes first."""

    def start() -> None:
        subprocess.run([sys.executable, *words], check=True, capture_output=True)

    return statistics.median(interleaved({"start": start}, START_UPS).values())
