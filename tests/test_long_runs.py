"""Long tests: kills while a file is written, an index larger than what may be held, kernels compiled for another machine."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import equipoise as eq
from tests.helpers.common import component, make_space

pytestmark = pytest.mark.slow

SAVE_FOREVER = """
import sys, numpy as np, equipoise as eq
rng = np.random.default_rng(0)
space = eq.AttributeSpace.from_prototypes({c: rng.standard_normal(4096) for c in "abcdefgh"})
space.save(sys.argv[1] + ".first")  # imports what saving needs
print("ready", flush=True)
while True:
    space.save(sys.argv[1])
"""


def test_a_killed_save_leaves_a_whole_file_or_none(tmp_path):
    path = tmp_path / "space.safetensors"
    whole = 0
    for seed in range(20):
        process = subprocess.Popen(
            [sys.executable, "-c", SAVE_FOREVER, path], stdout=subprocess.PIPE
        )
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(random.Random(seed).uniform(0, 0.1))
        process.send_signal(signal.SIGKILL)
        process.wait()
        if path.exists():
            assert eq.AttributeSpace.load(path).rank == 7
            whole += 1
    assert whole >= 10


MAP_WITHIN = """
import sys, resource, numpy as np, equipoise as eq
source = np.load(sys.argv[1], mmap_mode="r")
target = np.lib.format.open_memmap(sys.argv[2], "w+", source.dtype, source.shape)
space = eq.AttributeSpace.load(sys.argv[3])
eq.debias(source[:8], space, out=target[:8])
resource.setrlimit(resource.RLIMIT_DATA, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
used = int(open("/proc/self/statm").read().split()[5]) * 4096
resource.setrlimit(resource.RLIMIT_DATA, (used + (256 << 20), resource.RLIM_INFINITY))
eq.debias(source, space, out=target)
target.flush()
"""


def test_a_memory_map_of_two_gibibytes_in_a_quarter_of_one(rng, tmp_path):
    """Private memory is limited while the index, far larger, passes through."""
    space = make_space(rng, 512)
    space.save(tmp_path / "space")
    shape = ((2 << 30) // 1024, 512)
    source = np.lib.format.open_memmap(tmp_path / "in.npy", "w+", np.float16, shape)
    block = rng.standard_normal((1 << 16, 512)).astype(np.float16)
    for start in range(0, shape[0], len(block)):
        source[start : start + len(block)] = block
    source.flush()
    subprocess.run(
        [
            sys.executable,
            "-c",
            MAP_WITHIN,
            tmp_path / "in.npy",
            tmp_path / "out.npy",
            tmp_path / "space",
        ],
        check=True,
    )
    target = np.load(tmp_path / "out.npy", mmap_mode="r")
    want = eq.debias(block, space)
    for start in (0, shape[0] - len(block)):
        assert np.array_equal(target[start : start + len(block)], want)
    os.unlink(tmp_path / "in.npy")
    os.unlink(tmp_path / "out.npy")


COMPILE = """
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from equipoise.kernels import _triton

HALF, FLOAT = {"x", "out", "high", "low"}, {"right", "left", "bias"}

def compile_for_hopper(kernel, dtype, warps, **constants):
    kinds = {"invalid": "*i32", "n_rows": "i32", "x_stride": "i32", "out_stride": "i32"}
    kinds["value"] = "*fp32" if constants["PER_ROW"] else "fp32"
    kind = lambda a: "constexpr" if a in constants else kinds.get(a) or ("*" + dtype if a in HALF else "*fp32" if a in FLOAT else "fp32")
    source = ASTSource(fn=kernel, signature={a: kind(a) for a in kernel.arg_names}, constexprs=constants)
    assert triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": warps}).asm["cubin"]

for norm in (0, 1):
    for kind in (0, 2):
        shared = dict(D=768, D2=1024, R=7, WIDTH=128, KIND=kind, PER_ROW=kind == 0, NORM=norm)
        compile_for_hopper(_triton._rows_kernel, "fp32", 1, ROWS=1, PROJECTION=True, BIAS=False, FOLD=False, **shared)
        compile_for_hopper(_triton._tiles_kernel, "bf16", 4, ROWS=4, TILE=64, CHUNK=128, STAGES=3, SCALE=1.0, **shared)
shared = dict(D=256, D2=256, R=3, ROWS=4, WIDTH=32, KIND=0, PER_ROW=False)
compile_for_hopper(_triton._rows_kernel, "bf16", 1, PROJECTION=True, BIAS=False, FOLD=True, NORM=0, **shared)
compile_for_hopper(_triton._rows_kernel, "fp16", 1, PROJECTION=False, BIAS=True, FOLD=False, NORM=2, **shared)
# where nobody counts rows without a direction
compile_for_hopper(_triton._rows_kernel, "fp16", 1, PROJECTION=True, BIAS=False, FOLD=True, NORM=0, invalid=None, **shared)
shared = dict(D=256, D2=256, R=7, ROWS=4, WIDTH=128, KIND=0, PER_ROW=False, NORM=0)
compile_for_hopper(_triton._tiles_kernel, "fp16", 4, TILE=64, CHUNK=64, STAGES=3, SCALE=256.0, invalid=None, **shared)
"""


def test_cuda_kernels_compile_without_a_gpu():
    """The interpreter runs what the compiler might refuse."""
    component("triton")
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    subprocess.run([sys.executable, "-W", "ignore", "-c", COMPILE], check=True, env=environment)


COMPILE_SEARCH = """
import re
import torch, triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from equipoise.kernels import _triton_best as fused, _triton_exact as exact, _triton_rough as rough

KINDS = {
    "directions": "*fp16", "short": "*fp16", "scale": "*fp32", "slack": "*fp32", "best": "*fp32",
    "thresholds": "*fp32", "scores": "*fp32", "lengths": "*fp64", "flags": "*i32", "counts": "*i32",
    "candidates": "*i64", "keys": "*i64", "indices": "*i64", "settled": "*i1", "n": "i64",
}
TYPES = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32, "fp64": torch.float64}
ROWS = rough.slack_terms(512) | {"D": 512, "col_stride": 1}

def compile_for_hopper(kernel, dtype, num_warps=4, num_stages=3, **constants):
    constants = {a: constants[a] for a in kernel.arg_names if a in constants}
    pointers = KINDS | {"images": "*" + dtype, "texts": "*fp32" if kernel in (rough.direction_kernel, exact.key_kernel) else "i32"}
    kind = lambda a: "constexpr" if a in constants else pointers.get(a, "i32")
    aligned = {(i,): [["tt.divisibility", 16]] for i, a in enumerate(kernel.arg_names) if kind(a)[0] == "*" or a == "row_stride"}
    source = ASTSource(fn=kernel, signature={a: kind(a) for a in kernel.arg_names}, constexprs=constants, attrs=aligned)
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": num_warps, "num_stages": num_stages}).asm

for name, dtype in TYPES.items():
    kept = {"scale": None, "short": None} if name == "fp16" else {}
    for texts in (1, 128):
        sizes = fused.fused_sizes(texts, torch.empty(0, dtype=dtype))
        for kernel, more in ((rough.filter_kernel, {}), (rough.sample_kernel, {"BN": 64, "GROUP": 64})):
            asm = compile_for_hopper(kernel, name, **ROWS | kept | sizes | {"slack": None, "WORD": min(32, sizes["BQ"])} | more)
            # a product that is still in flight would race with the next copy
            assert set(re.findall("pendings = ([0-9])", asm["ttgir"])) == {"0"}
    compile_for_hopper(rough.shorten_kernel, name, **ROWS | kept, BN=16, BD=256)
    compile_for_hopper(rough.scale_kernel, name, **ROWS, D2=512, PICKED=64, ROWS=16)
    compile_for_hopper(exact.key_kernel, name, **ROWS, BN=16, BD=256)
compile_for_hopper(rough.filter_kernel, "fp16", **ROWS, **fused.MANY, scale=None, WORD=32)
compile_for_hopper(rough.direction_kernel, "fp32", D=512, D2=512)
for words in (1, 32):
    compile_for_hopper(rough.collect_kernel, "fp32", WORD=32, WORDS=words, BN=2048 // words)
compile_for_hopper(exact.answer_kernel, "fp32", BLOCK=1024)
compile_for_hopper(exact.answer_kernel, "fp32", BLOCK=1024, scale=None)
"""


def test_cuda_kernels_of_search_compile_without_a_gpu():
    component("triton")
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    command = [sys.executable, "-W", "ignore", "-c", COMPILE_SEARCH]
    subprocess.run(command, check=True, env=environment)
