"""A model of transformers whose embeddings, and the scores of them, are debiased."""

from __future__ import annotations

from typing import Any

import torch

from equipoise.errors import InputError


class DebiasedModel(torch.nn.Module):
    """A model whose output holds debiased ``image_embeds`` and ``text_embeds``.

    What else is asked of it, its configuration for one, is the model's own.
    """

    def __init__(self, model: Any, operator: Any, task: str):
        super().__init__()
        self.model, self.operator = model, operator
        if task == "zero-shot-image-classification" and not hasattr(model, "logit_scale"):
            raise InputError(
                f"{type(model).__name__} has no logit_scale, so its scores are no similarities of"
                " embeddings; pass a CLIP, SigLIP or Chinese-CLIP"
            )

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("model"), name)

    def forward(self, *args: Any, **inputs: Any) -> Any:
        out = self.model(*args, **inputs)
        images = getattr(out, "image_embeds", None)
        if images is None:
            raise InputError(
                f"{type(self.model).__name__} gives no image_embeds; pass the pipeline a model with"
                " a projection, such as CLIPVisionModelWithProjection.from_pretrained(...)"
            )
        out.image_embeds = self.operator.image(images)
        texts = getattr(out, "text_embeds", None)
        if texts is not None:
            out.text_embeds = self.operator.text(texts)
            self._rescore(out, images, texts)
        return out

    def _rescore(self, out: Any, images: torch.Tensor, texts: torch.Tensor) -> None:
        """Add what the scores change by; a bias of the model's own stays in them."""
        before = images @ texts.T
        change = self.model.logit_scale.exp() * (out.image_embeds @ out.text_embeds.T - before)
        out.logits_per_image = out.logits_per_image + change
        out.logits_per_text = out.logits_per_image.T
