"""What is done to rows, block by block: a space or an operator debiases them; they are measured."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from equipoise import kernels
from equipoise._certificate import Totals, certificate_of, facts_of
from equipoise._documents import Document
from equipoise._space import AttributeSpace, EncoderRef
from equipoise.errors import InputError, MissingExtraError
from equipoise.kernels import _host as host
from equipoise.kernels._measure import Columns
from equipoise.kernels._recipe import Norm, Preference, preference
from equipoise.methods import Operator
from equipoise.methods._spaces import SpaceOperator

# About a core's own cache. A smaller block costs more, in calls and in waiting, than it saves.
CPU_BLOCK = 1 << 20
WIDE_BLOCK = 1 << 26  # for devices, and operators that are matrix products
MEASURED_AT_ONCE = 1 << 15  # rows whose measurements are held before they are counted

PAPER = Preference("kappa", 1.0)
NOBODY = EncoderRef()
Modality = Literal["image", "text"]


class SpaceIdentity(Document):
    """Which attribute space is taken out."""

    fingerprint: str
    groups: list[str]


class OperatorIdentity(Document):
    """Which fitted method is applied."""

    method: str
    fingerprint: str


class TransformIdentity(Document):
    """What the written bytes depend on: equal identities give equal bytes."""

    space: SpaceIdentity | None
    operator: OperatorIdentity | None
    kappa: str | None
    norm: str
    kernel: str


@dataclass(frozen=True)
class Transform:
    """A space, or an operator, which is certified in the space if one is given too.

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
        """Return the transform of what a user gave, checked."""
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
        if kappa is None:
            kappa = space.kappa if space else 1.0
        wanted = preference(kappa, None)
        if wanted.kind == "kappa" and wanted.constant is None:
            raise InputError("an array of kappas was given; pass one number for a whole store")
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
        """Return the closed form of an operator that is one in a single space; else this transform.

        The kernel of the closed form reads and writes stored rows without a detour.
        """
        operator = self.operator
        if not isinstance(operator, SpaceOperator) or modality not in operator.changes:
            return self
        space = operator.space
        if not isinstance(space, AttributeSpace):
            return self
        if self.space is not None and self.space.fingerprint != space.fingerprint:
            return self
        return replace(self, space=space, operator=None, wanted=Preference("kappa", space.kappa))

    def require(self, encoder: EncoderRef, dim: int, dtype: str, modalities: Set[str]) -> None:
        """Raise for rows that this cannot be applied to, or that would all stay unchanged."""
        if self.operator is not None and not modalities & set(self.operator.changes):
            changed = "nothing"
            if self.operator.changes:
                changed = f"{' and '.join(self.operator.changes)} rows"
            raise InputError(
                f"this {self.operator.method} operator changes {changed}, and the rows are of"
                f" modality {' and '.join(sorted(modalities))}: all would stay as they are; say"
                " with `modality` what they are, or fit a method that changes them"
            )
        for fitted in filter(None, (self.space, self.operator)):
            fitted.require_encoder(encoder)
        widths = {self.in_dim}
        if self.space:
            widths.add(self.space.dim)
        for width in widths:
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
        """Raise where this machine lacks the device."""
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

    def identity(self, dtype: str) -> TransformIdentity:
        """Return what the written bytes depend on: equal identities give equal bytes."""
        operator, space = None, None
        if self.operator:
            operator = OperatorIdentity(
                method=self.operator.method, fingerprint=self.operator.fingerprint
            )
        if self.space:
            space = SpaceIdentity(
                fingerprint=self.space.fingerprint, groups=list(self.space.groups)
            )
        kappa = str(self.wanted.value) if self.operator is None else None
        return TransformIdentity(
            space=space, operator=operator, kappa=kappa, norm=self.norm, kernel=self.kernel(dtype)
        )

    def kernel(self, dtype: str) -> str:
        """Return which kernel runs; another may round the last digit of a row differently."""
        if self.operator is not None:
            return f"method {self.operator.method}"
        if self.device != "cpu":
            return f"triton on {self.device}"
        return host.kernel_name(dtype)

    def block_rows(self, row_bytes: int) -> int:
        """Return how many rows to hand over at once."""
        size = CPU_BLOCK if self.operator is None and self.device == "cpu" else WIDE_BLOCK
        return max(1, size // row_bytes)

    @property
    def certifies(self) -> bool:
        return self.space is not None and self.in_dim == self.out_dim

    def run(
        self, e: np.ndarray, u: np.ndarray, dtype: str, modality: Modality
    ) -> tuple[np.ndarray, Columns | None]:
        """Write rows e (n, in_dim), debiased, to u (n, out_dim).

        Return which of them have no direction, and the measurements of all.
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
        change = operator.image if modality == "image" else operator.text
        u[:] = change(e)
        largest = np.abs(e).max(axis=1)
        bad = ~((largest > 0) & np.isfinite(largest) & np.isfinite(u).all(axis=1))
        if not self.certifies:
            return bad, None
        return bad, kernels.measure(e, u, self._space.low_rank)

    def _on_device(self, e: np.ndarray, u: np.ndarray, dtype: str) -> tuple[np.ndarray, Columns]:
        import torch

        def tensor(rows: np.ndarray) -> Any:
            if dtype == "bfloat16":
                return torch.from_numpy(rows.view(np.int16)).view(torch.bfloat16)
            return torch.from_numpy(rows)

        rows = tensor(e).to(self.device)
        debiased, invalid = kernels.debias_and_count(
            rows, self._space.low_rank, self.wanted, self.norm
        )
        tensor(u).copy_(debiased)
        bad = np.zeros(len(rows), bool)
        if int(invalid.count()):
            bad = invalid.mask().cpu().numpy()
        return bad, kernels.measure(rows, debiased, self._space.low_rank)


class Meter:
    """The certificate totals of a piece, from the measurements of its blocks, in order."""

    def __init__(self, transform: Transform, dtype: str):
        self.transform, self.dtype = transform, dtype
        self.held: list[Columns] = []
        self.waiting = 0
        self.done = Totals()

    def add(self, columns: Columns | None, bad: np.ndarray) -> None:
        """Add the measurements of a block, if any; ``bad`` marks rows without a direction."""
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
        columns = [np.zeros(0)] * 6
        if self.held:
            columns = [np.concatenate(column) for column in zip(*self.held, strict=True)]
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
