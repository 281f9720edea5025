"""``heads:`` a CLIP of transformers with some attention heads edited, from a head edit's file."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from equipoise._space import EncoderRef
from equipoise.encoders import _registry as registry
from equipoise.encoders._head_edit import HeadEdit, check_heads
from equipoise.encoders._towers import TextTower, Towers
from equipoise.errors import EncoderMismatchError, InputError


def load(
    name: str,
    *,
    device: str | None = None,
    dtype: str | None = None,
    revision: str | None = None,
    offline: bool = False,
) -> Towers:
    """Load the encoder that a head edit's file names, and edit it."""
    edit = HeadEdit.load(name)
    if not edit.encoder.id.startswith("hf:"):
        raise InputError(
            f"{name} edits heads of {edit.encoder.id!r}, and heads can be edited in encoders of hf:"
            " alone; fit it again"
        )
    inner, model = registry.find(edit.encoder.id)
    pinned = revision or edit.encoder.revision or None
    towers = inner(model, device=device, dtype=dtype, revision=pinned, offline=offline)
    return edited(towers, edit, f"heads:{name}")


def edited(towers: Any, edit: HeadEdit, name: str) -> EditedTowers:
    """Return towers under another name, with edited images."""
    from equipoise.encoders._head_module import EditedHeads

    given = EncoderRef(towers.id, towers.revision, towers.digest())
    if edit.encoder.differs_from(given):
        raise EncoderMismatchError(
            f"these heads were edited in {edit.encoder}, and {given} was given; fit again with this"
            " encoder"
        )
    module = EditedHeads(towers.module, edit.heads, edit.means)
    check_heads(edit.heads, module.shape)
    if edit.means.shape[1] != towers.dim:
        raise InputError(
            f"the means of the heads are {edit.means.shape[1]} wide, and {towers.id} gives rows"
            f" {towers.dim} wide; fit again with this encoder"
        )
    return EditedTowers(towers, module, name, edit.fingerprint)


class EditedTowers(Towers):
    """The towers of a model, whose images another module encodes."""

    def __init__(self, inner: Any, module: Any, name: str, key: str):
        self.inner, self.key, self.id = inner, key, name
        self.images = copy.copy(inner)
        self.images.module = self.module = module
        self.revision, self.dim, self.modalities = inner.revision, inner.dim, inner.modalities
        self.preprocess, self.max_tokens = inner.preprocess, inner.max_tokens
        self.precision, self.device = inner.precision, inner.device
        self.runtime, self.repeatable = inner.runtime, inner.repeatable
        self.tokenizer, self.padding = inner.tokenizer, inner.padding

    def tokenize(self, texts: Sequence[str]) -> dict[str, Any]:
        return self.inner.tokenize(texts)

    def token_counts(self, texts: Sequence[str]) -> list[int]:
        return self.inner.token_counts(texts)

    def text_features(self, texts: Sequence[str]) -> np.ndarray:
        return self.inner.text_features(texts)

    def image_features(self, pixels: np.ndarray | list[np.ndarray]) -> np.ndarray:
        return self.images.image_features(pixels)

    def text_tower(self) -> TextTower:
        return self.inner.text_tower()

    def digest(self) -> str:
        return hashlib.sha256(f"{self.inner.digest()} {self.key}".encode()).hexdigest()
