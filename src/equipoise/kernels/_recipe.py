"""What a kernel is asked to do: split each row with a low-rank map, then weigh the two parts."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from equipoise import geometry
from equipoise.errors import InputError
from equipoise.geometry import Float64

Norm = Literal["unit", "keep", "raw"]
NORMS = ("unit", "keep")


@dataclass(frozen=True, eq=False)
class LowRank:
    """``taken = left @ (right.T @ x) + bias``, ``rest = x - taken``, for a unit row x; right and
    left are (d, r).

    The orthogonal projection has ``left is right`` and no bias. Any low-rank affine map ``x ->
    rest`` has this shape, LEACE, rejections and calibrated projections among them: run it with
    kappa = infinity.
    """

    right: Float64
    left: Float64
    bias: Float64 | None = None
    _cache: dict = field(default_factory=dict, repr=False)

    @classmethod
    def projection(cls, basis: Float64) -> LowRank:
        return cls(basis, basis)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_cache": {}}  # copies for devices stay here

    def cached(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """Return a kernel's own copy of the factors (another dtype, another device).

        All threads get the same one.
        """
        if key not in self._cache:
            self._cache.setdefault(key, make())
        return self._cache[key]

    def made(self, key: Hashable) -> Any:
        """Return what ``cached`` made for this key, or None."""
        return self._cache.get(key)

    @property
    def dim(self) -> int:
        return self.right.shape[0]

    @property
    def rank(self) -> int:
        return self.right.shape[1]

    @property
    def is_projection(self) -> bool:
        return self.left is self.right and self.bias is None


@dataclass(frozen=True, eq=False)
class Preference:
    """How leakage is weighed against loss.

    ``value`` is kappa (a number, or an array, one per row) or the ratio w1 / w2.
    """

    kind: Literal["kappa", "printed", "weights"]
    value: Any = 1.0

    @property
    def constant(self) -> float | None:
        """Return kappa where it is one number for all rows, else None."""
        return self.value if self.kind == "kappa" and isinstance(self.value, float) else None

    def kappa(self, p2: Any, o: Any, sqrt: Callable) -> Any:
        """Return the kappa of rows split into p2 and o: every preference is one."""
        if self.kind == "printed":
            return geometry.printed_kappa(p2, o, sqrt)
        return (
            geometry.weighted_kappa(p2, o, self.value, sqrt)
            if self.kind == "weights"
            else self.value
        )


PROJECT = Preference("kappa", math.inf)


def launch_key(x: Any, kind: str, norm: Norm, per_row: bool = False) -> Hashable:
    """Return where ``LowRank.cached`` keeps what a CUDA kernel takes beside the rows x."""
    return "launch", x.dtype, x.device, kind, norm, per_row


def preference(kappa: Any, weights: tuple[float, float] | None) -> Preference:
    """Read the ``kappa`` and ``weights`` arguments; what is neither legal is an error that says
    what is.
    """
    if weights is not None:
        if kappa is not None:
            raise InputError(
                "kappa and weights were both given; they are two ways to say one thing, so pass one"
                " of them"
            )
        return _weights(weights)
    if type(kappa) is float and kappa >= 0:
        return Preference("kappa", kappa)
    if isinstance(kappa, str) and kappa == "printed":
        return Preference("printed")
    if len(getattr(kappa, "shape", ())) and not isinstance(kappa, np.ndarray):
        return Preference("kappa", kappa)  # a tensor or a jax array, one per row
    try:
        if np.iscomplexobj(kappa):
            raise TypeError
        plain: Any = kappa
        if hasattr(plain, "detach"):
            plain = plain.detach().cpu()
        value = np.asarray(plain).astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InputError(
            f'kappa={kappa!r} is not legal; pass a number >= 0, an array of them, or "printed"'
        ) from None
    if not (value >= 0).all():
        raise InputError(
            f"kappa={kappa!r} is not legal; it must be from 0 (identity) to infinity (projection),"
            " and holds negative or NaN"
        )
    return Preference("kappa", float(value) if value.ndim == 0 else value)


def _weights(weights: tuple[float, float]) -> Preference:
    try:
        w1, w2 = (float(w) for w in weights)
    except (TypeError, ValueError, OverflowError):
        raise InputError(
            f"weights={weights!r} is not legal; pass two numbers (w1, w2), leakage first"
        ) from None
    if not (0 <= w1 < math.inf and 0 <= w2 < math.inf and max(w1, w2) > 0):
        raise InputError(
            f"weights=({w1}, {w2}) is not legal; both must be finite and >= 0, and one of them"
            " positive"
        )
    if w1 >= w2:  # no p exceeds w1 / w2: the projection
        return Preference("kappa", math.inf)
    return Preference("weights", w1 / w2) if w1 / w2 > 0 else Preference("kappa", 0.0)
