"""``mini``: the embedded model.

onnxruntime runs it. For methods that learn through the text tower, torch runs the same weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from equipoise.encoders._onnx import ONNXTowers
from equipoise.encoders._towers import TextTower
from equipoise.errors import MissingExtraError


def load(
    name: str,
    *,
    device: str | None = None,
    dtype: str | None = None,
    revision: str | None = None,
    offline: bool = False,
) -> MiniTowers:
    """Load the model from the folder that equipoise-mini ships."""
    return MiniTowers.of(Path(name), device, dtype)


class MiniTowers(ONNXTowers):
    """The two graphs, and the text tower in torch where a method asks for it."""

    def text_tower(self) -> TextTower:
        return self._in_torch

    @cached_property
    def _in_torch(self) -> MiniTextTower:
        try:
            import torch  # noqa: F401
        except ImportError:
            raise MissingExtraError(
                "learning through mini's text tower", "torch", "torch"
            ) from None
        return MiniTextTower(self)


class MiniTextTower:
    """The text tower of mini with a prefix.

    Every token sees the prefix, and the mean is taken over the text's own tokens.
    """

    def __init__(self, towers: MiniTowers):
        import equipoise_mini

        self.towers, self.device = towers, towers.device
        self.model = equipoise_mini.torch_model().text.requires_grad_(False).to(self.device)

    def tokenize(self, texts: Sequence[str], room: int) -> dict[str, Any]:
        import torch

        found = self.towers.tokenizer(room).encode_batch(list(texts))
        named = {
            "input_ids": [tokens.ids for tokens in found],
            "attention_mask": [tokens.attention_mask for tokens in found],
        }
        return {name: torch.tensor(rows, device=self.device) for name, rows in named.items()}

    def embed(self, ids: Any) -> Any:
        return self.model.tokens(ids)

    def features(self, tokens: dict[str, Any], prefix: Any) -> Any:
        return self.model(self.embed(tokens["input_ids"]), tokens["attention_mask"], prefix)
