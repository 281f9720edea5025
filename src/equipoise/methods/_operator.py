"""``Operator``: what fitting a method gives.

An operator changes images, texts or both, and is saved to one file.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np

from equipoise import _artefact as artefact
from equipoise._array_types import SameRows
from equipoise._display import cut, html_table, listed
from equipoise._space import EncoderRef
from equipoise._space_document import EncoderFacts
from equipoise._version import __version__
from equipoise.errors import EncoderMismatchError, InputError
from equipoise.methods._operator_document import OperatorMetadata
from equipoise.prompts._attribute import Attribute
from equipoise.prompts._stated_groups import explicit_groups

KIND = "operator"
Modality = Literal["image", "text"]
Gate = bool | Callable[[str], bool] | None


class Operator(ABC):
    """Frozen result of a fit: ``image(X)``, ``text(T)``, ``scores(X, T)``.

    It takes rows of any length and gives unit rows. ``changes`` says which modalities it touches.
    ``unit`` says whether the rows it changes have unit length; some reference methods leave other
    lengths. ``gate`` keeps prompts that name a group themselves as they are ("a female doctor"):
    True asks ``explicit_groups``, a function decides by itself, and None is off, unless
    ``gates_by_default`` and there are prompts.
    """

    method: ClassVar[str]
    gates_by_default: ClassVar[bool] = False

    def __init__(
        self,
        attribute: Attribute,
        changes: tuple[Modality, ...],
        in_dim: int,
        encoder: Any = None,
        params: Mapping[str, Any] | None = None,
    ):
        self.attribute: Attribute = attribute
        self.changes: tuple[Modality, ...] = changes
        self.in_dim: int = in_dim
        self.out_dim: int = in_dim
        self.made_by: EncoderRef = EncoderRef.of(encoder)
        self.params: dict[str, Any] = dict(params or {})
        self._encoder = encoder if hasattr(encoder, "encode_text") else None

    @property
    def name(self) -> str:
        return self.method

    @property
    def unit(self) -> bool:
        """Return whether the rows that it changes come out at unit length."""
        return True

    @property
    def per_prompt(self) -> bool:
        """Return whether an image changes with the prompt it is compared with.

        If so, only ``scores`` can rank images.
        """
        return False

    @abstractmethod
    def _image(self, rows: Any) -> Any:
        """Return debiased rows of images."""

    @abstractmethod
    def _text(self, rows: Any, prompts: Sequence[str] | None) -> Any:
        """Return debiased rows of texts; prompts, where a method depends on them."""

    @abstractmethod
    def arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays that the file holds."""

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """Return what else the file holds, as JSON."""

    @classmethod
    @abstractmethod
    def restore(
        cls,
        attribute: Attribute,
        arrays: dict[str, np.ndarray],
        settings: dict[str, Any],
        made_by: EncoderRef,
    ) -> Operator:
        """Return the operator of a file."""

    def image(self, rows: SameRows) -> SameRows:
        """Return debiased images (..., d), or the same rows where the method leaves images alone.

        NaN rows stay NaN.
        """
        self._check_width(rows, "images")
        return self._image(rows) if "image" in self.changes else rows

    def text(
        self, rows: SameRows, prompts: Sequence[str] | None = None, gate: Gate = None
    ) -> SameRows:
        """Return debiased texts (n, d).

        prompts: the texts themselves, for a gate and for methods that depend on them.
        """
        return self._gated_text(rows, prompts, gate)

    def _gated_text(self, rows: Any, prompts: Sequence[str] | None, gate: Gate) -> Any:
        self._check_width(rows, "texts")
        if "text" not in self.changes:
            return rows
        if prompts is not None and len(prompts) != len(rows):
            raise InputError(
                f"{len(prompts)} prompts were given for {len(rows)} rows; pass one for each"
            )
        kept = self._gated(prompts, gate)
        if not kept.any():
            return self._text(rows, prompts)
        if self.out_dim != self.in_dim:
            raise InputError(
                f"this {self.method} operator gives rows {self.out_dim} wide, so a gate cannot keep"
                " rows as they are; leave it out"
            )
        if kept.all():
            return rows
        changed = np.flatnonzero(~kept)
        asked = None
        if prompts is not None:
            asked = [prompts[i] for i in changed.tolist()]
        return _with_rows(rows, changed, self._text(rows[changed], asked))

    def encode_text(self, prompts: Sequence[str], gate: Gate = None) -> np.ndarray:
        """Return debiased rows of prompts.

        The encoder is the one that the operator was fitted with, or was given by ``bind``.
        """
        if self._encoder is None:
            raise InputError(
                f"this {self.method} operator has no encoder; give it one with op.bind(encoder), or"
                " encode first and use op.text"
            )
        return self.text(self._encoder.encode_text(list(prompts)), prompts, gate)

    def scores(
        self,
        images: SameRows,
        texts: SameRows,
        prompts: Sequence[str] | None = None,
        gate: Gate = None,
    ) -> SameRows:
        """Return similarities (images, texts) of debiased rows."""
        rows: Any = self.image(images)
        columns: Any = self.text(texts, prompts, gate)
        return rows @ columns.T

    def bind(self, encoder: Any) -> Operator:
        """Give the operator an encoder, which must be the one it was fitted with; return it."""
        self.require_encoder(encoder)
        self._encoder = encoder
        return self

    def require_encoder(self, encoder: Any) -> None:
        """Raise where ``encoder`` (or a store's) is not the one this operator was fitted with.

        Where one of them does not name its encoder, nothing is raised.
        """
        given = EncoderRef.of(encoder)
        if self.made_by.differs_from(given):
            raise EncoderMismatchError(
                f"this {self.method} operator was fitted with {self.made_by}, and {given} was"
                " given; fit it again"
            )

    @property
    def fingerprint(self) -> str:
        """Return a digest that differs between operators that differ."""
        return artefact.digest(self.arrays(), self.metadata().to_plain())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one safetensors file, atomically; ``equipoise.methods.load`` reads it."""
        artefact.save(path, KIND, self.arrays(), self.metadata().to_plain())

    def push_to_hub(self, repo_id: str, **options: Any) -> str:
        """Upload to the Hugging Face hub with a card; return the address of the commit.

        options: private, token, revision.
        """
        from equipoise import _hub as hub

        card = hub.operator_card(self, repo_id)
        return hub.push(self, hub.OPERATOR, card, repo_id, **options)

    def metadata(self) -> OperatorMetadata:
        """Return everything but the arrays, as the file holds it."""
        return OperatorMetadata(
            method=self.method,
            attribute=self.attribute.facts(),
            encoder=EncoderFacts(**self.made_by._asdict()),
            params=self.params,
            settings=self.settings(),
            version=__version__,
        )

    def _gated(self, prompts: Sequence[str] | None, gate: Gate) -> np.ndarray:
        """Return the mask of prompts that stay as they are; one False without a gate."""
        if gate is None:
            gate = self.gates_by_default and prompts is not None
        if gate is False:
            return np.zeros(1, bool)
        if prompts is None:
            raise InputError("a gate looks at the prompts; pass prompts= beside the rows")
        if callable(gate):
            return np.array([gate(prompt) for prompt in prompts])
        return np.array([bool(self.left_alone(prompt)) for prompt in prompts])

    def left_alone(self, prompt: str) -> str:
        """Return why the gate leaves a prompt as it is, or "" where it does not."""
        if groups := explicit_groups(prompt, self.attribute):
            return f"it names {' and '.join(groups)}"
        return ""

    def _check_width(self, rows: Any, what: str) -> None:
        if not hasattr(rows, "shape"):
            raise InputError(
                f"{what} are of type {type(rows).__name__}; pass an array (n, {self.in_dim}), what"
                f" encoder.encode_{'text' if what == 'texts' else 'images'} returns"
            )
        if len(rows.shape) < 2 or rows.shape[-1] != self.in_dim:
            shape = tuple(getattr(rows, "shape", ()))
            raise InputError(
                f"{what} have shape {shape}, and this {self.method} operator takes rows"
                f" {self.in_dim} wide"
            )

    def _facts(self) -> dict[str, Any]:
        """Return what is shown of the operator, by name."""
        return {
            "method": self.method,
            "attribute": cut(self.attribute.name),
            "groups": listed(self.attribute.groups),
            "changes": " and ".join(self.changes) or "nothing",
            "dim": self.in_dim or "any",
        }

    def __repr__(self) -> str:
        facts = self._facts()
        method, attribute, groups = (facts.pop(name) for name in ("method", "attribute", "groups"))
        rest = ", ".join(f"{name}={value}" for name, value in facts.items())
        return f"{type(self).__name__}({method}, {attribute}({groups}), {rest})"

    def _repr_html_(self) -> str:
        """Return the facts of the operator as a table for notebooks."""
        return html_table(type(self).__name__, list(self._facts().items()))


def _with_rows(rows: Any, places: np.ndarray, new: Any) -> Any:
    """Return a copy of rows, of any framework, with new ones at these places."""
    if hasattr(rows, "at"):  # jax writes to a copy
        return rows.at[places].set(new)
    out = rows.copy() if isinstance(rows, np.ndarray) else rows.clone()
    out[places] = new
    return out
