"""``eq.debias``: check the arguments and the rows, then run the right kernel."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from equipoise import kernels
from equipoise._array_types import SameRows
from equipoise._row_check import RowCheck
from equipoise._space import AttributeSpace
from equipoise.errors import InputError, InvalidRowsError
from equipoise.kernels._measure import to_numpy
from equipoise.kernels._recipe import NORMS, Preference, preference

OnInvalid = Literal["raise", "keep", "unchecked"]
_NAMED_ROWS = 5
MOST_EXACT = 1 << 53  # integers below are floats without loss
Answer = tuple[Any, kernels.InvalidRows | None]


def debias(
    e: SameRows,
    space: AttributeSpace,
    *,
    kappa: Any = None,
    weights: tuple[float, float] | None = None,
    out: SameRows | None = None,
    norm: Literal["unit", "keep"] = "unit",
    on_invalid: OnInvalid | RowCheck = "raise",
) -> SameRows:
    """Debias embeddings ``e`` (..., d) in closed form; type, dtype, device and shape stay.

    kappa: None takes the space's own (1.0, the paper). 0 is exactly the identity, and infinity the
    orthogonal projection. It may be an array (one number per row), or "printed" (the paper's
    Problem (4) without its proof's rescaling). A gradient flows to a kappa of torch or jax.
    weights: ``(w1, w2)`` in place of kappa minimises ``w1 * leakage + w2 * loss``; where ``w1 /
    w2`` exceeds a row's p, that is the projection. norm: "unit" returns unit rows, "keep" returns
    each row with its own length. out: an array of e's shape and dtype to write to (a memory map, or
    e itself); it is returned. on_invalid: what happens to rows without a direction (zero, NaN,
    infinite). "raise" raises an error that names them, and waits for the device to know. "keep" and
    "unchecked" return them unchanged and look for none (jit needs it). An ``eq.RowCheck`` returns
    them unchanged too, and raises when it is asked. "unchecked" does not look at an array of kappas
    either.

    At kappa 0, rows of unit length (as far as float16, where they may come from, can hold it) come
    back bit for bit; others are divided by their length unless norm is "keep".
    """
    done = None
    if weights is None and not isinstance(e, np.ndarray):
        done = _usual(e, space, kappa, out, norm, on_invalid)
    if done is None:
        done = _checked(e, space, kappa, weights, out, norm, on_invalid)
    u, invalid = done
    if invalid is not None:
        _ask(invalid, on_invalid, e.shape, out)
    return u


def _usual(e: Any, space: Any, kappa: Any, out: Any, norm: Any, on_invalid: Any) -> Answer | None:
    """Answer as a call before did, whose checks hold for this one too; None if they may not."""
    counts = on_invalid == "raise" or isinstance(on_invalid, RowCheck)
    legal = counts or on_invalid in ("keep", "unchecked")
    if not legal or norm not in NORMS or not isinstance(space, AttributeSpace):
        return None
    value = space.kappa if kappa is None else kappa
    if type(value) is int and 0 <= value < MOST_EXACT:
        value = float(value)
    if type(value) is not float or not value >= 0:
        return None
    done = kernels.usual(e, space.low_rank, value, norm, out, counts)
    if done is None or counts:
        return done
    return done[0], None


def _checked(
    e: Any, space: Any, kappa: Any, weights: Any, out: Any, norm: Any, on_invalid: Any
) -> Answer:
    """Check every argument, and the rows where they are about to be overwritten."""
    wanted = check_arguments(e, space, kappa, weights, norm, on_invalid)
    _check_out(e, out)
    if on_invalid == "raise" and out is not None and _same_memory(e, out):
        _raise_for(kernels.without_direction(e), e.shape)  # before anything is overwritten
        on_invalid = "unchecked"
    if on_invalid in ("keep", "unchecked"):
        return kernels.debias(e, space.low_rank, wanted, norm, out), None
    return kernels.debias_and_count(e, space.low_rank, wanted, norm, out)


def _ask(invalid: kernels.InvalidRows, on_invalid: Any, shape: tuple[int, ...], out: Any) -> None:
    """Raise if rows have no direction, or let a RowCheck ask for them later."""
    count = invalid.count()
    _require_values(count)
    if isinstance(on_invalid, RowCheck):
        on_invalid.add(count, _rows_in(shape))
    elif int(count):
        done = "" if out is None else "; the other rows are in out"
        _raise_for(invalid.mask(), shape, done)


def check_arguments(
    e: Any,
    space: AttributeSpace,
    kappa: Any,
    weights: Any,
    norm: str = "unit",
    on_invalid: str | RowCheck = "keep",
) -> Preference:
    """Raise for what debias and certify do not accept; return the preference."""
    _require_space(e, space)
    kernels.dtype_name(e)
    _require_width(tuple(e.shape), space.dim)
    if norm not in NORMS:
        raise InputError(f'norm={norm!r} is not legal; pass "unit" or "keep"')
    if on_invalid not in ("raise", "keep", "unchecked") and not isinstance(on_invalid, RowCheck):
        raise InputError(
            f'on_invalid={on_invalid!r} is not legal; pass "raise", "keep", "unchecked" or an'
            " eq.RowCheck()"
        )
    if kappa is None and weights is None:
        kappa = space.kappa
    if weights is None and _followed(kappa):
        wanted = Preference("kappa", kappa)
    else:
        wanted = preference(kappa, weights)
    if wanted.kind == "kappa" and wanted.constant is None:
        wanted = Preference("kappa", _kappas(wanted.value, e, on_invalid))
    return wanted


def _require_space(e: Any, space: Any) -> None:
    if isinstance(space, AttributeSpace):
        return
    if isinstance(space, Mapping):
        raise InputError(
            "a SpaceSet was given, which holds one space per prompt; pick one (spaces[prompt]), or"
            " use eq.wrap or a method, which pick by prompt"
        )
    advice = ""
    if isinstance(e, AttributeSpace):
        advice = "; the embeddings come first"
    elif hasattr(space, "image") or hasattr(space, "fit"):
        advice = "; another method is fitted, and then applied by operator.image(rows)"
    raise InputError(
        f"the space is of type {type(space).__name__}; pass an AttributeSpace"
        f" (AttributeSpace.load reads a file){advice}"
    )


def _require_width(shape: tuple[int, ...], dim: int) -> None:
    if shape and shape[-1] == dim:
        return
    width = f"{shape[-1]} wide" if shape else "a single number"
    advice = "fit a space with the encoder that made them"
    if len(shape) == 2 and shape[0] == dim:
        advice = "transpose them"
    raise InputError(
        f"the embeddings are {width} and the attribute space is {dim} wide: rows must be"
        f" embeddings of its encoder; {advice}"
    )


def _kappas(kappa: Any, e: Any, on_invalid: str | RowCheck) -> Any:
    """Return one kappa per row, checked, and of a type that e's framework takes."""
    shape = e.shape[:-1]
    if not isinstance(kappa, np.ndarray) and kernels.framework(kappa) != kernels.framework(e):
        kappa = to_numpy(kappa)
    try:
        fits = np.broadcast_shapes(tuple(kappa.shape), tuple(shape)) == tuple(shape)
    except ValueError:
        fits = False
    if not fits:
        raise InputError(
            f"kappa has shape {tuple(kappa.shape)}, which does not fit the embeddings' leading"
            f" shape {tuple(shape)}"
        )
    if on_invalid != "unchecked" and not _traced(kappa) and not bool((kappa >= 0).all()):
        raise InputError(
            "kappa holds negative or NaN values; each must be a number from 0 (identity) to"
            " infinity (projection)"
        )
    return kappa


def _followed(kappa: Any) -> bool:
    """Return whether kappa is a tensor or a jax array that must stay one.

    A gradient flows to it, or it is traced.
    """
    array = hasattr(kappa, "shape") and not isinstance(kappa, np.ndarray | np.generic)
    return array and (getattr(kappa, "requires_grad", False) or _traced(kappa))


def _traced(x: Any) -> bool:
    """Return whether a transform (jit, vmap, grad, compile) traces x, so that it has no values."""
    kind = kernels.framework(x)
    if kind == "torch":
        from equipoise.kernels import _torch as torch

        return torch.traced(x)
    if kind == "jax":
        from equipoise.kernels import _jax as jax

        return jax.traced(x)
    return False


def _check_out(e: Any, out: Any) -> None:
    if out is None:
        return
    _check_out_matches(e, out)
    _check_out_is_writable(out)
    if _overlap(e, out) and not _same_memory(e, out):
        raise InputError(
            "out overlaps the embeddings without being the same rows; pass another array, or e"
            " itself"
        )


def _check_out_matches(e: Any, out: Any) -> None:
    """Raise unless out has the type, shape, dtype and device of e."""
    kind = kernels.framework(e)
    if kind == "jax":
        raise InputError(
            "jax arrays cannot be written to, so out= is not legal with them; use the returned"
            " array"
        )
    legal = np.ndarray if kind == "numpy" else type(e)
    both_torch = kind == "torch" and hasattr(out, "detach")
    if not isinstance(out, legal) and not both_torch:
        raise InputError(
            f"out is of type {type(out).__name__} and the embeddings are of type"
            f" {type(e).__name__}; they must match (numpy.lib.format.open_memmap makes a .npy file"
            " to write to)"
        )
    same_device = getattr(out, "device", None) == getattr(e, "device", None)
    if out.shape != e.shape or out.dtype != e.dtype or not same_device:
        device = f", on {e.device}" if kind == "torch" else ""
        raise InputError(
            f"out has shape {tuple(out.shape)} and dtype {out.dtype}; it must match the embeddings:"
            f" {tuple(e.shape)}, {e.dtype}{device}"
        )


def _check_out_is_writable(out: Any) -> None:
    kind = kernels.framework(out)
    if kind == "numpy" and not out.flags.writeable:
        raise InputError(
            "out is read-only; open the memory map with mode='r+' or 'w+', or pass a writable array"
        )
    if kind == "torch" and out.is_inference() and not _inference_mode():
        raise InputError(
            "out was made under torch.inference_mode and cannot be written to outside it; pass"
            " out.clone(), or call debias under inference_mode too"
        )
    if _overlaps_itself(out):
        raise InputError(
            "out holds the same memory more than once (it is expanded, or a strided view), so rows"
            " would overwrite each other; pass an array with memory of its own"
        )


def _overlap(e: Any, out: Any) -> bool:
    if kernels.framework(e) == "numpy":
        try:
            return np.shares_memory(e, out, max_work=10_000)  # pyright: ignore[reportArgumentType]
        except np.exceptions.TooHardError:
            return True
    first, second = sorted(_span(x) for x in (e, out))
    return e.numel() > 0 and second[0] < first[1]


def _overlaps_itself(out: Any) -> bool:
    """Return whether two entries of an array may share memory."""
    if 0 in out.shape:
        return False
    if kernels.framework(out) == "numpy":
        strides = [abs(stride) for stride in out.strides]
    else:
        strides = [stride * out.element_size() for stride in out.stride()]
    reach = out.itemsize  # bytes that the axes so far can reach
    for stride, length in sorted(zip(strides, out.shape, strict=True)):
        if length == 1:
            continue
        if stride < reach:
            return True
        reach += (length - 1) * stride
    return False


def _inference_mode() -> bool:
    import torch

    return torch.is_inference_mode_enabled()


def _span(x: Any) -> tuple[int, int]:
    """Return the first and the last byte of a tensor's memory."""
    last = sum((n - 1) * stride for n, stride in zip(x.shape, x.stride(), strict=True))
    return x.data_ptr(), x.data_ptr() + x.element_size() * (last + 1)


def _same_memory(e: Any, out: Any) -> bool:
    if kernels.framework(e) == "torch":
        return e.data_ptr() == out.data_ptr() and e.stride() == out.stride()
    return (
        e.__array_interface__["data"][0] == out.__array_interface__["data"][0]
        and e.strides == out.strides
    )


def _require_values(x: Any) -> None:
    """Raise where a transform traces x, so that nobody can look at it."""
    if hasattr(x, "shape") and _traced(x):
        raise InputError(
            "inside jax.jit, torch.func or torch.compile rows cannot be looked at; pass"
            ' on_invalid="unchecked", or "keep", which lets rows without a direction through'
            " unchanged"
        )


def _rows_in(shape: tuple[int, ...]) -> int:
    return math.prod(shape[:-1])


def _raise_for(mask: Any, shape: tuple[int, ...], done: str = "") -> None:
    """Raise an error that names the rows of the mask (...,), if there are any."""
    _require_values(mask)
    bad = mask.cpu().numpy() if kernels.framework(mask) == "torch" else np.asarray(mask)
    count = int(np.count_nonzero(bad))
    if not count:
        return
    rows = tuple(map(tuple, np.argwhere(bad)[:_NAMED_ROWS].tolist()))
    if len(shape) == 2:
        rows = tuple(index[0] for index in rows)
    which = "the embedding has"
    if len(shape) > 1:
        which = f"{count} of {_rows_in(shape)} rows have"
    named = "" if len(shape) == 1 else f" (first: {', '.join(map(str, rows))})"
    raise InvalidRowsError(
        f"{which} no direction: zero, NaN or infinite{named}. Remove such rows, or pass "
        f'on_invalid="keep" to let them through unchanged{done}',
        rows,
        count,
    )
