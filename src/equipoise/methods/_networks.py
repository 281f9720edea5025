"""Small networks as named arrays.

The same functions serve torch, which trains the networks, and numpy, which applies them.
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

# Arrays or tensors by name: "hidden.weight" (out, in), "hidden.bias" (out,).
Net = Mapping[str, Any]


def linear(
    rng: np.random.Generator, name: str, inputs: int, outputs: int, *, zero: bool = False
) -> dict[str, np.ndarray]:
    """Return weight and bias of a layer, drawn as torch draws them: within 1 / sqrt(inputs).

    zero: a layer that gives nothing yet.
    """
    bound = 0.0 if zero else inputs**-0.5
    weight = rng.uniform(-bound, bound, (outputs, inputs))
    bias = rng.uniform(-bound, bound, outputs)
    return {f"{name}.weight": weight.astype(np.float32), f"{name}.bias": bias.astype(np.float32)}


def dense(net: Net, name: str, rows: Any) -> Any:
    """Return what one layer of the net makes of rows."""
    return rows @ net[f"{name}.weight"].T + net[f"{name}.bias"]


def mlp(net: Net, names: Sequence[str], rows: Any) -> Any:
    """Return what layers with ReLU between them make of rows."""
    for name in names[:-1]:
        rows = dense(net, name, rows).clip(min=0)
    return dense(net, names[-1], rows)


def unit(rows: Any) -> Any:
    """Return rows divided by their length."""
    return rows / (rows * rows).sum(-1)[..., None] ** 0.5


class NetworkOperator(Operator):
    """What a small network makes of unit rows, brought to unit length.

    It takes numpy arrays and torch tensors.
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
        """Return what the method makes of unit rows."""

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
        """Return a block of changed rows; rows without a direction come back as they were."""
        wide = rows if rows.dtype == np.float64 else rows.astype(np.float32)
        with np.errstate(all="ignore"):
            lengths = np.linalg.norm(wide.astype(np.float64), axis=1, keepdims=True)
            good = np.isfinite(lengths) & (lengths > 0)
            e = np.where(good, wide / lengths, 1.0).astype(wide.dtype)
            net = {name: array.astype(wide.dtype, copy=False) for name, array in self.net.items()}
            changed = self._ended(self.changed(net, e, modality), modality)
            return np.where(good, changed, rows)

    def _tensor(self, rows: Any, modality: Modality) -> Any:
        wide = rows if dtype_name(rows) == "float64" else rows.float()
        lengths = (wide * wide).sum(-1)[..., None] ** 0.5
        good = (lengths > 0) & (lengths < float("inf"))
        e = (wide / lengths).where(good, wide.new_ones(()))
        net = {name: wide.new_tensor(array) for name, array in self.net.items()}
        changed = self._ended(self.changed(net, e, modality), modality)
        return changed.where(good, wide).to(rows.dtype)

    def _ended(self, rows: Any, modality: Modality) -> Any:
        """Return the rows as they leave the operator; a method may leave their lengths alone."""
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
        finite = [a.dtype.kind == "f" and np.isfinite(a).all() for a in arrays.values()]
        if not finite or not all(finite):
            raise ValueError("an array is missing, or does not hold finite numbers")
        changes, dim = tuple(settings["changes"]), int(settings["dim"])
        operator = cls(attribute, arrays, settings["options"], changes, dim, encoder=made_by)
        one_row = np.ones((1, dim), np.float32)
        for modality in operator.changes:
            operator._through(one_row, modality)  # raises where shapes or names do not fit
        return operator
