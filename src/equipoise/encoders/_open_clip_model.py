"""``wrap`` for a model of open_clip: the same model and weights, whose rows are debiased.

It stays one of open_clip's own classes, so code that evaluates models takes it as it is.
"""

from __future__ import annotations

import copy
from typing import Any

import open_clip
import torch
from torch.nn.functional import normalize as unit

from equipoise.errors import InputError


class _Debiased:
    """What changes in a model: features pass through an operator before anybody sees them."""

    def encode_image(self, image: torch.Tensor, normalize: bool = False) -> torch.Tensor:
        return _changed(super().encode_image(image), self.equipoise_operator.image, normalize)

    def encode_text(self, text: torch.Tensor, normalize: bool = False) -> torch.Tensor:
        return _changed(super().encode_text(text), self.equipoise_operator.text, normalize)

    def forward_intermediates(self, *_: Any, **__: Any) -> Any:
        raise InputError(
            "forward_intermediates reads layers inside the model, which are not debiased; ask the"
            " model that was wrapped, or call encode_image and encode_text"
        )


class DebiasedCLIP(_Debiased, open_clip.CLIP):
    """A CLIP whose features are debiased."""


class DebiasedCustomTextCLIP(_Debiased, open_clip.CustomTextCLIP):
    """A CLIP with a text tower of its own, whose features are debiased."""


CLASSES = {open_clip.CLIP: DebiasedCLIP, open_clip.CustomTextCLIP: DebiasedCustomTextCLIP}


def wrap_model(model: Any, operator: Any, gate: Any) -> Any:
    """Return a debiased twin of the model; they share their weights, and nothing else changes."""
    if type(model) not in CLASSES:
        raise InputError(
            f"{type(model).__name__} of open_clip cannot be wrapped; pass a"
            f" {' or a '.join(kind.__name__ for kind in CLASSES)}, as open_clip.create_model gives"
            " it"
        )
    if gate is not None:
        raise InputError(
            "gate is not legal for a model of open_clip: it is given tokens, and a gate reads"
            " texts; leave it out, or wrap what eq.load_encoder returns"
        )
    twin = copy.copy(model)
    twin.__class__ = CLASSES[type(model)]
    twin.equipoise_operator = operator
    return twin


def _changed(rows: torch.Tensor, operator: Any, normalize: bool) -> torch.Tensor:
    """Return debiased rows: of unit length, or of the lengths that the model gave them."""
    debiased = operator(unit(rows, dim=-1))
    return debiased if normalize else debiased * rows.norm(dim=-1, keepdim=True)
