"""Small networks as named arrays: one function serves torch, which trains them, and numpy, which
applies them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from equipoise._space import EncoderRef
from equipoise.errors import InputError
from equipoise.kernels import dtype_name, framework
from equipoise.methods._operator import Modality, Operator
from equipoise.prompts._attribute import Attribute

BLOCK = 8192  # rows that go through a network at a time

Net = Mapping[
    str, Any
]  # arrays or tensors by name: "hidden.weight" (out, in), "hidden.bias" (out,)


def linear(
    rng: np.random.Generator, name: str, inputs: int, outputs: int, *, zero: bool = False
) -> dict[str, np.ndarray]:
    """Weight and bias of a layer, drawn as torch draws them: uniform within 1 / sqrt(inputs).

    zero: a layer that gives nothing yet.
    """
    bound = 0.0 if zero else inputs**-0.5
    weight, bias = (
        rng.uniform(-bound, bound, (outputs, inputs)),
        rng.uniform(-bound, bound, outputs),
    )
    return {f"{name}.weight": weight.astype(np.float32), f"{name}.bias": bias.astype(np.float32)}


def dense(net: Net, name: str, rows: Any) -> Any:
    """One layer of the net."""
    return rows @ net[f"{name}.weight"].T + net[f"{name}.bias"]


def mlp(net: Net, names: Sequence[str], rows: Any) -> Any:
    """Layers with ReLU between them."""
    for name in names[:-1]:
        rows = dense(net, name, rows).clip(min=0)
    return dense(net, names[-1], rows)


def unit(rows: Any) -> Any:
    """Rows divided by their length."""
    return rows / (rows * rows).sum(-1)[..., None] ** 0.5


class NetworkOperator(Operator):
    """Unit rows go through a small network, and what comes out is brought to unit length.

    Numpy arrays and torch tensors.
    """

    def __init__(
        self,
        attribute: Attribute,
        net: Mapping[str, np.ndarray],
        options: Mapping[str, Any],
        changes: tuple[Modality, ...],
        dim: int,
        **about: Any,
    ):
        super().__init__(attribute, changes, dim, **about)
        self.net, self.options = dict(net), dict(options)

    @abstractmethod
    def changed(self, net: Net, rows: Any, modality: Modality) -> Any:
        """What the method makes of unit rows."""

    def _image(self, rows: Any) -> Any:
        return self._through(rows, "image")

    def _text(self, rows: Any, prompts: Sequence[str] | None) -> Any:
        return self._through(rows, "text")

    def _through(self, rows: Any, modality: Modality) -> Any:
        dtype_name(rows)
        if framework(rows) == "torch":
            return self._tensor(rows, modality)
        if framework(rows) == "jax":
            raise InputError(
                f"{self.method} takes numpy arrays and torch tensors, not jax arrays; pass"
                " numpy.asarray(rows)"
            )
        flat = rows.reshape(-1, self.in_dim)
        out = np.empty_like(flat)
        for start in range(0, len(flat), BLOCK):
            some = slice(start, start + BLOCK)
            out[some] = self._array(flat[some], modality)
        return out.reshape(rows.shape)

    def _array(self, rows: np.ndarray, modality: Modality) -> np.ndarray:
        """A block. Rows without a direction come back as they were."""
        wide = rows if rows.dtype == np.float64 else rows.astype(np.float32)
        with np.errstate(all="ignore"):
            lengths = np.linalg.norm(wide.astype(np.float64), axis=1, keepdims=True)
            good = np.isfinite(lengths) & (lengths > 0)
            e = np.where(good, wide / lengths, 1.0).astype(wide.dtype)
            net = {name: array.astype(wide.dtype, copy=False) for name, array in self.net.items()}
            return np.where(good, self._ended(self.changed(net, e, modality), modality), rows)

    def _tensor(self, rows: Any, modality: Modality) -> Any:
        wide = rows if dtype_name(rows) == "float64" else rows.float()
        lengths = (wide * wide).sum(-1)[..., None] ** 0.5
        good = (lengths > 0) & (lengths < float("inf"))
        e = (wide / lengths).where(good, wide.new_ones(()))
        net = {name: wide.new_tensor(array) for name, array in self.net.items()}
        return (
            self._ended(self.changed(net, e, modality), modality).where(good, wide).to(rows.dtype)
        )

    def _ended(self, rows: Any, modality: Modality) -> Any:
        """What is done last; a method that leaves lengths alone says so here."""
        return unit(rows)

    def arrays(self) -> dict[str, np.ndarray]:
        return self.net

    def settings(self) -> dict[str, Any]:
        return {"changes": list(self.changes), "options": self.options, "dim": self.in_dim}

    @classmethod
    def restore(
        cls,
        attribute: Attribute,
        arrays: dict[str, np.ndarray],
        settings: dict[str, Any],
        made_by: EncoderRef,
    ) -> NetworkOperator:
        if not arrays or any(
            array.dtype.kind != "f" or not np.isfinite(array).all() for array in arrays.values()
        ):
            raise ValueError("an array is missing, or does not hold finite numbers")
        operator = cls(
            attribute,
            arrays,
            settings["options"],
            tuple(settings["changes"]),
            int(settings["dim"]),
            encoder=made_by,
        )
        for modality in operator.changes:
            operator._through(
                np.ones((1, operator.in_dim), np.float32), modality
            )  # an error where shapes or names do not fit
        return operator
