"""torch tensors: the fused CPU kernel on their own memory, Triton on CUDA, the plain closed form
where gradients flow.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import torch
from torch.autograd import forward_ad

from equipoise import geometry
from equipoise.errors import InputError
from equipoise.kernels import _host as host
from equipoise.kernels import _plain as plain
from equipoise.kernels._counts import NO_COUNT, new_count
from equipoise.kernels._held import HeldTensors
from equipoise.kernels._invalid import CountedRows, InvalidRows, MarkedRows
from equipoise.kernels._recipe import LowRank, Norm, Preference, launch_key

BLOCK_BYTES = 1 << 26  # rows that the plain form takes at a time where no gradient needs them all
TRITON_KERNELS = "equipoise.kernels._triton"  # imported for the first rows on a GPU
Answer = tuple[torch.Tensor, InvalidRows]


def dtype_name(x: torch.Tensor) -> str:
    """Return the name that numpy has for the dtype."""
    return str(x.dtype).removeprefix("torch.")


@cache
def has_triton() -> bool:
    """Return whether Triton is installed; it is not imported for the answer."""
    return importlib.util.find_spec("triton") is not None


def kernel_name(x: torch.Tensor) -> str:
    """Return "numba", "triton" or "torch", the plain form."""
    return "torch" if _followed(x) else _fused_kernel(x)


def _fused_kernel(x: torch.Tensor) -> str:
    """Return the kernel for a tensor that nothing follows."""
    if x.device.type == "cpu" and host.kernel_name(dtype_name(x)) == "numba":
        return "numba"
    if x.device.type == "cuda" and x.dtype != torch.float64 and has_triton():
        return "triton"
    return "torch"


def _followed(*values: Any) -> bool:
    """Return whether a gradient or a transform follows one of the values."""
    tensors = [v for v in values if isinstance(v, torch.Tensor)]
    if torch.is_grad_enabled() and any(v.requires_grad for v in tensors):
        return True
    if torch.compiler.is_compiling() or any(map(traced, tensors)):
        return True
    return not _makes_memory(*tensors)


def _makes_memory(*tensors: torch.Tensor) -> bool:
    """Return whether a tensor that is made now is plain memory.

    Derivatives of torch.func wrap it, and modes fake it, even beside tensors that they do not
    follow. No kernel can write to such a tensor, and no later call could use it.
    """
    plain = all(type(x) in (torch.Tensor, torch.nn.Parameter) for x in tensors)
    if plain and not _is_transforming():
        return True
    new = torch.empty(0)
    return type(new) is torch.Tensor and not traced(new)


def _is_transforming() -> bool:
    """Return whether this is inside a transform of torch.func."""
    functorch: Any = torch._C._functorch  # pyright: ignore[reportAttributeAccessIssue]
    return functorch.peek_interpreter_stack() is not None


def traced(x: Any) -> bool:
    """Inside torch.compile, torch.func or forward-mode differentiation a tensor is more than its
    memory.
    """
    if torch.compiler.is_compiling():
        return True
    if not isinstance(x, torch.Tensor):
        return False
    functorch: Any = torch._C._functorch  # pyright: ignore[reportAttributeAccessIssue]
    wrapped = functorch.is_functorch_wrapped_tensor(x)
    return wrapped or forward_ad.unpack_dual(x).tangent is not None


def debias(
    x: torch.Tensor,
    low_rank: LowRank,
    preference: Preference,
    norm: Norm,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return u for x (..., d); it is ``out`` where one was given."""
    return _run(x, low_rank, preference, norm, out, counts=False)[0]


def debias_and_count(
    x: torch.Tensor,
    low_rank: LowRank,
    preference: Preference,
    norm: Norm,
    out: torch.Tensor | None = None,
) -> tuple[torch.Tensor, InvalidRows]:
    """Return what ``debias`` returns, and the rows without a direction."""
    return _run(x, low_rank, preference, norm, out, counts=True)


def usual(
    x: torch.Tensor,
    low_rank: LowRank,
    kind: str,
    value: Any,
    norm: Norm,
    out: torch.Tensor | None,
    counts: bool,
) -> Answer | None:
    """Debias plain rows as a call before did, on CUDA; return None for all others.

    A launch that is ready says that the map, the dtype, the device and the norm were checked
    before. So only what changes from call to call is looked at.
    """
    launch = _ready_launch(x, low_rank, kind, norm)
    if launch is None or type(value) is not float:
        return None
    stride = _row_stride(x)
    if stride is None:
        return None
    n_rows = x.numel() // low_rank.dim
    if out is not None and not _is_apart(out, x, (n_rows - 1) * stride + low_rank.dim):
        return None
    u = torch.empty_like(x, memory_format=torch.contiguous_format) if out is None else out
    count = new_count(x.device) if counts else NO_COUNT
    launch.run(x, u, (stride, low_rank.dim), n_rows, value, count.number)
    count.launched()
    if out is not None:
        torch.autograd.graph.increment_version(out)  # autograd must know that it was written to
    return u, CountedRows(count, x)


def _ready_launch(x: Any, low_rank: LowRank, kind: str, norm: Norm) -> Any:
    """Return the launch that a call before made for such rows, where nothing follows x."""
    if torch.compiler.is_compiling() or TRITON_KERNELS not in sys.modules:
        return None
    if type(x) is not torch.Tensor or _is_transforming():
        return None
    launch = low_rank.made(launch_key(x, kind, norm))
    if launch is None or not launch.is_here() or not _is_plain(x):
        return None
    return launch if x.ndim and x.shape[-1] == low_rank.dim else None


def _is_plain(x: torch.Tensor) -> bool:
    """Return whether a tensor is its memory, and nothing follows it."""
    return not (x.requires_grad or x.layout is not torch.strided or x.is_neg() or traced(x))


def _row_stride(x: torch.Tensor) -> int | None:
    """Return how far apart rows without gaps are; None where x is no list of such rows."""
    if x.is_contiguous():
        return x.shape[-1]
    return x.stride(0) if x.ndim == 2 and x.stride(1) == 1 else None


def _is_apart(out: Any, x: torch.Tensor, reach: int) -> bool:
    """Return whether out can take the rows of x, and shares no memory with them.

    reach: how many numbers lie from the first of x to the last.
    """
    if type(out) is not torch.Tensor or not _is_plain(out) or out.is_inference():
        return False
    if out.dtype != x.dtype or out.device != x.device or out.shape != x.shape:
        return False
    start, target, size = x.data_ptr(), out.data_ptr(), x.itemsize
    apart = start + reach * size <= target or target + out.numel() * size <= start
    return apart and out.is_contiguous()


def _run(
    x: torch.Tensor,
    low_rank: LowRank,
    preference: Preference,
    norm: Norm,
    out: torch.Tensor | None,
    counts: bool,
) -> Answer:
    done = usual(x, low_rank, preference.kind, preference.value, norm, out, counts)
    return done or _any_tensor(x, low_rank, preference, norm, out, counts)


def _any_tensor(
    x: torch.Tensor,
    low_rank: LowRank,
    preference: Preference,
    norm: Norm,
    out: torch.Tensor | None,
    counts: bool,
) -> Answer:
    """Debias any tensor: what gradients follow, other strides, other kernels."""
    if _followed(x, preference.value, out):
        if out is not None:
            raise InputError(
                "out= cannot hold a result that gradients flow through; leave out= away, or detach"
                " the input"
            )
        u, bad = _plain(x, low_rank, preference, norm)
        return u, MarkedRows(bad)
    with torch.no_grad():
        preference = _one_per_row(preference, x)
        rows = x.detach().reshape(-1, x.shape[-1])
        result = (
            torch.empty_like(rows, memory_format=torch.contiguous_format)
            if out is None
            else out.detach()
        )
        flat = (
            result.view(-1, x.shape[-1])
            if result.is_contiguous()
            else torch.empty_like(rows, memory_format=torch.contiguous_format)
        )
        invalid = _fused(x.detach(), rows, flat, low_rank, preference, norm, counts)
        if out is None:
            return flat.view(x.shape), invalid
        if not result.is_contiguous():
            result.copy_(flat.view(x.shape))
        if not out.is_inference():
            torch.autograd.graph.increment_version(out)  # autograd must know that it was written to
        return out, invalid


def _one_per_row(preference: Preference, x: torch.Tensor) -> Preference:
    if preference.kind != "kappa" or preference.constant is not None:
        return preference
    value = torch.as_tensor(
        preference.value,
        device=x.device,
        dtype=torch.float64 if x.dtype == torch.float64 else torch.float32,
    )
    return Preference("kappa", value.detach().expand(x.shape[:-1]).reshape(-1))


def _fused(x, rows, out, low_rank, preference, norm, counts) -> InvalidRows:
    """Debias rows (n, d) of x (..., d) into out; return the rows without a direction.

    The CUDA kernels count them only where ``counts``.
    """
    kernel = _fused_kernel(x)
    if kernel == "triton":
        from equipoise.kernels import _triton

        whole = rows if rows.stride(-1) == 1 else rows.contiguous()
        with torch.cuda.device_of(x):
            count = new_count(x.device) if counts else NO_COUNT
            _triton.debias(whole, out, low_rank, preference, norm, count.number)
            count.launched()
        return CountedRows(count, x)
    if kernel == "numba":
        bad = _compiled(rows, out, low_rank, preference, norm)
    else:
        bad = _in_blocks(rows, out, low_rank, preference, norm)
    return MarkedRows(bad.view(x.shape[:-1]))


def _compiled(x, out, low_rank, preference, norm) -> torch.Tensor:
    """Run numba's kernel on the tensors' own memory; return the mask (n,)."""
    value = (
        preference.value
        if preference.constant is not None or preference.kind != "kappa"
        else preference.value.numpy()
    )
    arrays = (_numpy_bits(x), _numpy_bits(out))
    return torch.from_numpy(
        host.debias(*arrays, low_rank, Preference(preference.kind, value), norm, dtype_name(x))
    )


def _in_blocks(x, out, low_rank, preference, norm) -> torch.Tensor:
    """Run the plain form block by block; return the mask (n,)."""
    bad = torch.zeros(len(x), dtype=torch.bool, device=x.device)
    step = max(1, BLOCK_BYTES // (4 * x.shape[1]))
    for start in range(0, len(x), step):
        rows = slice(start, start + step)
        part = (
            preference
            if not isinstance(preference.value, torch.Tensor)
            else Preference(preference.kind, preference.value[rows])
        )
        out[rows], bad[rows] = _plain(x[rows], low_rank, part, norm)
    return bad


def _numpy_bits(x: torch.Tensor) -> np.ndarray:
    """Return the tensor's own memory as numpy; bfloat16, which numpy lacks, as its bit patterns."""
    return x.view(torch.int16).numpy().view(np.uint16) if x.dtype == torch.bfloat16 else x.numpy()


def _plain(x, low_rank, preference, norm):
    # float64, which neither autocast nor the TF32 switches touch; MPS has none
    wide = torch.float32 if x.device.type == "mps" else torch.float64
    right, left, bias = _factors(low_rank, wide, x)
    if preference.kind == "kappa" and preference.constant is None:
        value = torch.as_tensor(preference.value, device=x.device).to(wide).expand(x.shape[:-1])
        preference = Preference("kappa", value)
    limits = geometry.limits(str(wide).removeprefix("torch.")), geometry.limits(dtype_name(x))
    options = (right, left, bias, preference, norm, *limits)
    branch = _branch if low_rank.is_projection else None
    with torch.autocast(x.device.type, enabled=False):
        u, bad = plain.debias(torch, x.to(wide), torch.matmul, *options, branch)
    return torch.where(bad[..., None], x, u.to(x.dtype)), bad


def _branch(wanted: torch.Tensor, twice: Callable, once: Callable) -> torch.Tensor:
    """Call ``twice()`` where it is wanted; also where to look would need a value that is not there
    yet, or make the device wait.
    """
    if wanted.device.type != "cpu" or traced(wanted):
        return twice()
    return twice() if bool(wanted) else once()


def _factors(low_rank: LowRank, dtype: torch.dtype, x: torch.Tensor):
    def make():
        with torch.inference_mode(False):
            right, left = (
                torch.tensor(m, dtype=dtype, device=x.device)
                for m in (low_rank.right, low_rank.left)
            )
            return (
                right,
                left,
                (
                    None
                    if low_rank.bias is None
                    else torch.tensor(low_rank.bias, dtype=dtype, device=x.device)
                ),
            )

    plain = type(x) in (torch.Tensor, torch.nn.Parameter)
    if torch.compiler.is_compiling() or not plain or not _makes_memory(x):
        return make()  # what a tracer makes belongs to its trace
    factors = low_rank.cached(("torch", dtype, x.device), make)
    if x.is_cuda:
        held = low_rank.cached(
            ("held", dtype, x.device),
            lambda: HeldTensors(tuple(factor for factor in factors if factor is not None)),
        )
        with torch.cuda.device_of(x):
            held.before(torch.cuda.current_stream().cuda_stream)
    return factors
