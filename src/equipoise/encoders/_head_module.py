"""A CLIP of transformers taken apart: what each attention head adds to an image's row.

The vision tower sums what its attention heads and perceptrons write. Its last norm divides by one
number per image, and so does the length of the row. With these two numbers as they are, the row is
a sum with one part per head (Gandelsman et al. 2024). Each part has an equal share of the norm's
mean and offset, as in their code and in that of LTC (Yeo et al. 2025).
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from equipoise.encoders._torch_towers import TorchModule, _unit
from equipoise.errors import InputError

Head = tuple[int, int]  # its layer, and its place in the layer; both count from 0
POOLED = -1  # beside the numbers of layers: what the last norm reads


class HeadParts(TorchModule):
    """A module that gives a row and, after it, what every head adds to it.

    It shares its weights with the module that it was made of, and leaves that one as it is.
    """

    def __init__(self, module: TorchModule):
        super().__init__()
        self.inner = _sharing_weights(module)
        self.preprocess = module.preprocess
        self.vision = vision_tower(self.inner)
        self.projection = self.inner.model.visual_projection
        self.seen = threading.local()  # on a CPU, every thread has a pass of its own
        for layer, block in enumerate(self.vision.encoder.layers):
            block.self_attn.out_proj.register_forward_pre_hook(partial(self._keep, layer))
        self.vision.post_layernorm.register_forward_pre_hook(partial(self._keep, POOLED))

    @property
    def shape(self) -> tuple[int, int]:
        """Return the number of layers, and of heads per layer."""
        layers = self.vision.encoder.layers
        return len(layers), layers[0].self_attn.num_heads

    @property
    def every_head(self) -> list[Head]:
        layers, heads = self.shape
        return [(layer, head) for layer in range(layers) for head in range(heads)]

    def encode_image(self, pixel_values: torch.Tensor, **inputs: torch.Tensor) -> torch.Tensor:
        """Return (n, (1 + heads) * dim): the unit row, and what each head adds to it."""
        rows, parts = self.rows_and_parts(self.every_head, pixel_values, **inputs)
        return torch.cat([rows[:, None], parts], 1).flatten(1)

    def encode_text(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        return self.inner.encode_text(input_ids, attention_mask)

    def rows_and_parts(
        self, heads: Sequence[Head], pixel_values: torch.Tensor, **inputs: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return unit rows (n, dim), and what these heads add to them (n, heads, dim)."""
        self.seen.states = {}
        rows = self.inner.encode_image(pixel_values, **inputs)
        states, self.seen.states = self.seen.states, {}
        pooled = states[POOLED].to(self.projection.weight.dtype)
        if not heads:
            return rows, rows[:, None][:, :0]
        parts = []
        with torch.autocast(rows.device.type, enabled=False):
            length = self.projection(self.vision.post_layernorm(pooled)).norm(dim=-1, keepdim=True)
            for layer, head in heads:
                written = self._written(states[layer][:, 0], layer, head)
                parts.append(self.projection(self._normed(written, pooled)) / length)
        return rows, torch.stack(parts, 1)

    def _keep(self, name: int, module: Any, given: tuple[torch.Tensor, ...]) -> None:
        states = getattr(self.seen, "states", None)
        if states is not None:
            states[name] = given[0]

    def _written(self, attended: torch.Tensor, layer: int, head: int) -> torch.Tensor:
        """Return what a head writes (n, width) for the token that is pooled."""
        out = self.vision.encoder.layers[layer].self_attn.out_proj
        heads = self.shape[1]
        width = attended.shape[-1] // heads
        columns = slice(head * width, (head + 1) * width)
        state = attended[:, columns].to(out.weight.dtype)
        return state @ out.weight[:, columns].T + out.bias / heads

    def _normed(self, written: torch.Tensor, pooled: torch.Tensor) -> torch.Tensor:
        """Return a head's share of the last norm's output."""
        norm = self.vision.post_layernorm
        layers, heads = self.shape
        share = 1 / ((2 * layers + 1) * heads)  # attention, perceptrons and the embedding
        mean = pooled.mean(-1, keepdim=True)
        spread = (pooled.var(-1, keepdim=True, correction=0) + norm.eps).sqrt()
        return (written - share * mean) / spread * norm.weight + share * norm.bias


class EditedHeads(HeadParts):
    """A module in whose rows some heads add the same to every image."""

    def __init__(self, module: TorchModule, heads: Sequence[Head], means: np.ndarray):
        super().__init__(module)
        self.heads = list(heads)
        weight = self.projection.weight
        self.means = torch.from_numpy(means).to(weight.device, weight.dtype)

    def encode_image(self, pixel_values: torch.Tensor, **inputs: torch.Tensor) -> torch.Tensor:
        rows, parts = self.rows_and_parts(self.heads, pixel_values, **inputs)
        if not self.heads:
            return rows
        return _unit(rows - (parts - self.means).sum(1))


def vision_tower(module: Any) -> Any:
    """Return the vision tower of a CLIP of transformers; raise for every other model."""
    model = getattr(module, "model", None)
    kind = getattr(getattr(model, "config", None), "model_type", type(module).__name__)
    if kind != "clip":
        raise InputError(
            f"the model is {kind}, whose attention heads cannot be reached; pass a CLIP with a"
            " vision transformer: load_encoder('hf:...')"
        )
    return model.vision_model  # pyright: ignore[reportOptionalMemberAccess]


def _sharing_weights(module: TorchModule) -> Any:
    """Return a copy with hooks of its own, and with the same tensors."""
    vision_tower(module)
    kept = {}
    for tensor in [*module.parameters(), *module.buffers()]:
        kept[id(tensor)] = tensor
    return copy.deepcopy(module, kept)
