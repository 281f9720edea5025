"""What is done to rows, block by block: debiased in a space, or by any method's operator, and
measured.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from equipoise import kernels
from equipoise._certificate import Totals, certificate_of, facts_of
from equipoise._space import AttributeSpace, EncoderRef
from equipoise.errors import InputError, MissingExtraError
from equipoise.kernels import _host as host
from equipoise.kernels._measure import Columns
from equipoise.kernels._recipe import Norm, Preference, preference
from equipoise.methods import Operator
from equipoise.methods._spaces import SpaceOperator

# near a core's own cache: a smaller one costs more calls, and waiting for each other, than it saves
CPU_BLOCK = 1 << 20
WIDE_BLOCK = 1 << 26  # for devices, and operators that are matrix products
MEASURED_AT_ONCE = 1 << 15  # rows whose measurements are held before they are counted

PAPER = Preference("kappa", 1.0)
NOBODY = EncoderRef()
Modality = Literal["image", "text"]


@dataclass(frozen=True)
class Transform:
    """A space, or an operator (certified in the space, where there is one too).

    ``device`` "cuda" runs the closed form there.
    """

    space: AttributeSpace | None = None
    operator: Operator | None = None
    wanted: Preference = PAPER
    norm: Norm = "unit"
    encoder: EncoderRef = NOBODY
    device: str = "cpu"

    @classmethod
    def of(
        cls,
        space: AttributeSpace | None,
        operator: Operator | None,
        kappa: Any = None,
        **options: Any,
    ) -> Transform:
        """From what a user gave, checked."""
        if operator is None and space is None:
            raise InputError("there is nothing to apply; pass a `space` or a method's `operator`")
        if operator is not None and kappa is not None:
            raise InputError(
                "kappa belongs to a space; an operator was fitted with its own parameters, so pass"
                " one of them"
            )
        if operator is not None and operator.per_prompt:
            raise InputError(
                f"this {operator.method} operator changes an image by the prompt it is compared"
                " with, so nothing can be stored"
            )
        wanted = preference(
            space.kappa if kappa is None and space else 1.0 if kappa is None else kappa, None
        )
        if wanted.kind == "kappa" and wanted.constant is None:
            raise InputError("kappa is one number for a whole store")
        return cls(space, operator, wanted, **options)

    @property
    def in_dim(self) -> int:
        return self.operator.in_dim if self.operator else self._space.dim

    @property
    def out_dim(self) -> int:
        return self.operator.out_dim if self.operator else self._space.dim

    @property
    def _space(self) -> AttributeSpace:
        if self.space is None:
            raise InputError(
                "this operator has no space of its own; pass one with `space` to certify it"
            )
        return self.space

    def for_modality(self, modality: Modality) -> Transform:
        """An operator that is the closed form in one space, as that: the kernel reads and writes
        stored rows without a detour.
        """
        op = self.operator
        if not (
            isinstance(op, SpaceOperator)
            and isinstance(op.space, AttributeSpace)
            and modality in op.changes
        ):
            return self
        if self.space is not None and self.space.fingerprint != op.space.fingerprint:
            return self
        return replace(
            self, space=op.space, operator=None, wanted=Preference("kappa", op.space.kappa)
        )

    def require(self, encoder: EncoderRef, dim: int, dtype: str, modalities: Set[str]) -> None:
        """Raise for rows that this cannot be applied to, or that would all stay as they are."""
        if self.operator is not None and not modalities & set(self.operator.changes):
            changed = (
                f"{' and '.join(self.operator.changes)} rows"
                if self.operator.changes
                else "nothing"
            )
            raise InputError(
                f"this {self.operator.method} operator changes {changed}, and the rows are of"
                f" modality {' and '.join(sorted(modalities))}: all would stay as they are; say"
                " with `modality` what they are, or fit a method that changes them"
            )
        for fitted in filter(None, (self.space, self.operator)):
            fitted.require_encoder(encoder)
        for width in {self.in_dim, self.space.dim if self.space else self.in_dim}:
            if dim != width:
                raise InputError(
                    f"the rows are {dim} wide and the attribute space is {width} wide; fit one with"
                    " the encoder that made them"
                )
        if dtype == "bfloat16" and self.operator is not None:
            raise InputError(
                "numpy has no bfloat16, so operators do not take it; pass a space, or convert the"
                " rows to float32"
            )
        if dtype == "bfloat16" and self.device == "cpu" and host.kernel_name(dtype) != "numba":
            raise MissingExtraError("bfloat16 on the CPU", "numba", "numba")

    def require_device(self) -> None:
        """Raise where the device is not on this machine."""
        if self.device == "cpu":
            return
        try:
            import torch

            torch.empty(1, device=self.device)
        except ImportError:
            raise MissingExtraError(f"device {self.device}", "torch", "torch") from None
        except (RuntimeError, AssertionError) as error:
            raise InputError(
                f"device {self.device!r} cannot be used here ({str(error).splitlines()[0]}); pass"
                " cpu or cuda"
            ) from None

    def identity(self, dtype: str) -> dict[str, Any]:
        """Tells this from what gives other bytes."""
        operator = (
            {"method": self.operator.method, "fingerprint": self.operator.fingerprint}
            if self.operator
            else None
        )
        space = (
            {"fingerprint": self.space.fingerprint, "groups": list(self.space.groups)}
            if self.space
            else None
        )
        kappa = str(self.wanted.value) if self.operator is None else None
        return {
            "space": space,
            "operator": operator,
            "kappa": kappa,
            "norm": self.norm,
            "kernel": self.kernel(dtype),
        }

    def kernel(self, dtype: str) -> str:
        """Which kernel runs; another may round the last digit of a row otherwise."""
        if self.operator is not None:
            return f"method {self.operator.method}"
        return host.kernel_name(dtype) if self.device == "cpu" else f"triton on {self.device}"

    def block_rows(self, row_bytes: int) -> int:
        """Rows to hand over at once."""
        size = CPU_BLOCK if self.operator is None and self.device == "cpu" else WIDE_BLOCK
        return max(1, size // row_bytes)

    @property
    def certifies(self) -> bool:
        return self.space is not None and self.in_dim == self.out_dim

    def run(
        self, e: np.ndarray, u: np.ndarray, dtype: str, modality: Modality
    ) -> tuple[np.ndarray, Columns | None]:
        """Rows e (n, in_dim) into u (n, out_dim); which of them have no direction, and the
        measurements of all.
        """
        if self.operator is not None:
            return self._operate(self.operator, e, u, modality)
        if self.device != "cpu":
            return self._on_device(e, u, dtype)
        low_rank = self._space.low_rank
        if host.can_measure(e, u, dtype=dtype):
            bad, columns = host.debias_and_measure(e, u, low_rank, self.wanted, self.norm, dtype)
            return bad, tuple(columns)  # pyright: ignore[reportReturnType]
        bad = host.debias(e, u, low_rank, self.wanted, self.norm, dtype)
        return bad, kernels.measure(e, u, low_rank)

    def _operate(
        self, operator: Operator, e: np.ndarray, u: np.ndarray, modality: Modality
    ) -> tuple[np.ndarray, Columns | None]:
        u[:] = (operator.image if modality == "image" else operator.text)(e)
        largest = np.abs(e).max(axis=1)
        bad = ~((largest > 0) & np.isfinite(largest) & np.isfinite(u).all(axis=1))
        return bad, kernels.measure(e, u, self._space.low_rank) if self.certifies else None

    def _on_device(self, e: np.ndarray, u: np.ndarray, dtype: str) -> tuple[np.ndarray, Columns]:
        import torch

        def tensor(rows: np.ndarray) -> Any:
            return (
                torch.from_numpy(rows.view(np.int16)).view(torch.bfloat16)
                if dtype == "bfloat16"
                else torch.from_numpy(rows)
            )

        rows = tensor(e).to(self.device)
        debiased, bad = kernels.debias(rows, self._space.low_rank, self.wanted, self.norm)
        tensor(u).copy_(debiased)
        return bad.cpu().numpy(), kernels.measure(rows, debiased, self._space.low_rank)


class Meter:
    """Certificate totals of a piece, from the measurements of its blocks, in order."""

    def __init__(self, transform: Transform, dtype: str):
        self.transform, self.dtype = transform, dtype
        self.held: list[Columns] = []
        self.waiting = 0
        self.done = Totals()

    def add(self, columns: Columns | None, bad: np.ndarray) -> None:
        """The measurements of a block, where there are any, and which of its rows have no
        direction.
        """
        if columns is None:
            self.done.n += int((~bad).sum())
            self.done.invalid += int(bad.sum())
            return
        self.held.append(columns)
        self.waiting += len(bad)
        if self.waiting >= MEASURED_AT_ONCE:
            self._fold()

    def totals(self) -> Totals:
        if self.held or self.transform.certifies:
            self._fold()
        return self.done

    def _fold(self) -> None:
        t = self.transform
        columns = (
            [np.concatenate(column) for column in zip(*self.held, strict=True)]
            if self.held
            else [np.zeros(0)] * 6
        )
        facts = facts_of(t._space, t.wanted, self.dtype, t.kernel(self.dtype), t.encoder)
        if t.operator is not None:
            facts["kappa"] = "the method's own"
        certificate = certificate_of(
            tuple(columns),  # pyright: ignore[reportArgumentType]
            t._space,
            t.wanted,
            self.dtype,
            facts,
            (self.waiting,),
        )
        self.done += certificate.totals
        self.held, self.waiting = [], 0
