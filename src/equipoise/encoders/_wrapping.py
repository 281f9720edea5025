"""``wrap``: an encoder that returns debiased rows, so that a team changes one line."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, Protocol, TypeVar, overload

import numpy as np

from equipoise._space import AttributeSpace
from equipoise._spaceset import SpaceSet
from equipoise.encoders._encoder import Encoder, Report, Unreadable
from equipoise.encoders._pipelines import P, is_pipeline, wrap_pipeline
from equipoise.encoders._protocols import OnUnreadable
from equipoise.encoders._towers import Modality
from equipoise.errors import InputError
from equipoise.methods._closed_form import ClosedFormOperator

Gate = bool | Callable[[str], bool] | None


class OpenCLIPModel(Protocol):
    """What ``open_clip.create_model`` returns."""

    logit_scale: Any

    def get_logits(self, image: Any, text: Any) -> Any: ...


M = TypeVar("M", bound=OpenCLIPModel)


@overload
def wrap(encoder: Encoder, operator: Any, *, gate: Gate = None) -> WrappedEncoder: ...


@overload
def wrap(encoder: P, operator: Any, *, gate: Gate = None) -> P: ...


@overload
def wrap(encoder: M, operator: Any, *, gate: Gate = None) -> M: ...


def wrap(encoder: Any, operator: Any, *, gate: Gate = None) -> Any:
    """Return an encoder whose rows ``operator`` debiases.

    encoder: what ``load_encoder`` returns, or a transformers pipeline for
    "zero-shot-image-classification" or "image-feature-extraction", or a model of open_clip, of
    which a debiased copy comes back. operator: an attribute space (the closed form), or what
    fitting a method gave. With a ``SpaceSet`` each text is debiased in the space of its own prompt,
    and images, which have no prompt, cannot be. gate: keep texts that name a group ("a female
    doctor") as they are; True asks ``explicit_groups``, a function decides by itself, and None
    leaves it to the operator: on for ``balanced``, which also keeps texts about no person, and off
    for most. A space or an operator that was fitted with another encoder is refused.
    """
    if not (hasattr(encoder, "encode_text") or is_pipeline(encoder)):
        raise InputError(
            f"{type(encoder).__name__} is not an encoder; pass what load_encoder returns first, and"
            " the operator second"
        )
    operator = as_operator(operator)
    if is_pipeline(encoder):
        return wrap_pipeline(encoder, operator, gate)
    if _is_open_clip(encoder):
        from equipoise.encoders._open_clip_model import wrap_model

        return wrap_model(encoder, operator, gate)
    if hasattr(operator, "require_encoder"):
        operator.require_encoder(encoder)
    if getattr(operator, "in_dim", 0) not in (0, encoder.dim):
        raise InputError(
            f"{encoder.id} gives {encoder.dim} dimensions and the operator takes {operator.in_dim};"
            " fit it with this encoder"
        )
    return WrappedEncoder(encoder, operator, gate)


def _is_open_clip(thing: Any) -> bool:
    """Return whether this is a model of open_clip, which need not be installed."""
    open_clip = sys.modules.get("open_clip")
    if open_clip is None:
        return False
    return isinstance(thing, open_clip.CLIP | open_clip.CustomTextCLIP | open_clip.CoCa)


def as_operator(thing: Any) -> Any:
    """Return an operator: the thing itself, or the closed form in the space that it is."""
    if isinstance(thing, AttributeSpace | SpaceSet):
        return ClosedFormOperator.of(thing)
    if not (hasattr(thing, "image") and hasattr(thing, "text")):
        raise InputError(
            f"{type(thing).__name__} is not an operator; pass an AttributeSpace, a SpaceSet, or"
            " what fitting a method gave"
        )
    return thing


class WrappedEncoder:
    """An encoder and an operator, with the encoder's own interface."""

    def __init__(
        self,
        encoder: Encoder,
        operator: Any,
        gate: Gate = None,
    ):
        self.encoder: Encoder = encoder
        self.operator: Any = operator
        self.gate: Gate = gate

    @property
    def id(self) -> str:
        return f"{self.encoder.id}+{getattr(self.operator, 'name', type(self.operator).__name__)}"

    @property
    def revision(self) -> str:
        return self.encoder.revision

    @property
    def dim(self) -> int:
        return getattr(self.operator, "out_dim", 0) or self.encoder.dim

    @property
    def modalities(self) -> tuple[Modality, ...]:
        return self.encoder.modalities

    @property
    def note(self) -> str:
        return getattr(self.encoder, "note", "")

    @property
    def report(self) -> Report:
        return self.encoder.report

    @cached_property
    def fingerprint(self) -> str:
        """Return a fingerprint unlike the encoder's: debiased and plain rows share no space."""
        operator = getattr(self.operator, "fingerprint", "")
        name = f"{self.encoder.fingerprint} {operator}"
        if self.gate is not None:
            name += " gated" if self.gate else " ungated"
        return hashlib.sha256(name.encode()).hexdigest()

    @property
    def module(self) -> Any:
        """Return a torch module whose ``encode_image`` and ``encode_text`` give debiased rows."""
        from equipoise.encoders._torch_towers import WrappedModule

        return WrappedModule(self.encoder.module, self.operator)

    def encode_text(self, texts: Sequence[str]) -> np.ndarray:
        """Return debiased unit rows (n, dim), float32, in the order of the texts."""
        rows = self.encoder.encode_text(texts)
        if self.gate is None:
            return self.operator.text(rows, prompts=texts)
        return self.operator.text(rows, prompts=texts, gate=self.gate)

    def encode_images(
        self, images: Iterable[Any], *, on_unreadable: OnUnreadable = "nan"
    ) -> np.ndarray:
        """Return debiased unit rows (n, dim), float32, in the order of the images.

        The options are those of ``Encoder.encode_images``.
        """
        return self.operator.image(self.encoder.encode_images(images, on_unreadable=on_unreadable))

    def iter_images(self, images: Iterable[Any]) -> Iterator[np.ndarray | Unreadable]:
        """Yield one debiased row per image, or why there is none."""
        for row in self.encoder.iter_images(images):
            yield row if isinstance(row, Unreadable) else self.operator.image(row[None])[0]

    def __repr__(self) -> str:
        return f"WrappedEncoder({self.id!r}, dim={self.dim})"
